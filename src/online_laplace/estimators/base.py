"""What every estimator of this package has in common: settings, their checks, and saving."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from online_laplace import defaults
from online_laplace.data.checks import Floats, Integers
from online_laplace.ensemble.architecture import Architecture
from online_laplace.errors import InputError, known_name
from online_laplace.estimators.checks import count, is_count, validated
from online_laplace.estimators.targets import Target
from online_laplace.estimators.training import OBSERVATIONS, Fit, Settings, begin, estimator_plan, go_on
from online_laplace.memory import check_device, check_size
from online_laplace.threads import one_thread_each
from online_laplace.train.online import MEANS


class OnlineLaplaceEstimator(BaseEstimator):  # type: ignore[misc]
    """Networks that learn their own regularisation, as scikit-learn wants an estimator to be.

    The likelihood, and with it `fit` and what can be predicted, is the subclass's.
    """

    # Which snapshots predict, how often training is observed, whether that scores the training rows, and how
    # many outputs there are at least before y is known.
    _keep = defaults.KEEP
    _observations = OBSERVATIONS
    _score_train = True
    _fewest_outputs = 1

    def __init__(
        self,
        hidden: int | Sequence[int] = defaults.HIDDEN,
        activation: str = defaults.ACTIVATION,
        procedure: str = defaults.PROCEDURE,
        optimiser: str = defaults.OPTIMISER,
        prior: str = defaults.PRIOR,
        members: int = defaults.MEMBERS,
        max_steps: int = defaults.STEPS,
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.procedure = procedure
        self.optimiser = optimiser
        self.prior = prior
        self.members = members
        self.max_steps = max_steps
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model into the folder `path`; `online_laplace.load` brings it back.

        The folder holds arrays (safetensors) and settings (JSON), no code. It appears whole or not at all; an
        earlier model there is replaced.

        Raises:
            NotFittedError: there is nothing to save yet.
            InputError: the folder cannot be written, or holds something other than a model.
        """
        from online_laplace.estimators.saving import save

        save(self, path)

    def check_settings(self) -> None:
        """Refuse settings that `fit` would refuse. Raises InputError."""
        self._settings()

    def check_size(self, rows: int, features: int, targets: int | None = None) -> None:
        """Refuse, as `fit` does, data that would not fit in memory. Raises InputError."""
        settings = self._settings()
        targets = self._fewest_outputs if targets is None else targets
        network = settings.architecture.network(features, targets)
        check_size(
            rows,
            targets,
            network.d_w,
            settings.members,
            settings.device,
            features=features,
            factors=network.factors_per_row,
        )

    def _settings(self) -> Settings:
        """The settings, checked. Raises InputError naming the one that cannot be used."""
        procedure = known_name("procedure", self.procedure, MEANS)
        steps, tolerance = count("max_steps", self.max_steps), _tolerance(self.tol)
        return Settings(
            Architecture(_widths(self.hidden), self.activation, self.prior),
            count("members", self.members),
            estimator_plan(procedure, self.optimiser, steps, tolerance, self._keep, self._observations),
            check_device(self.device),
            self._target(),
            self._score_train,
        )

    def _extras(self) -> dict[str, Any]:
        """What a saved model's document says beside what every estimator has, as plain values."""
        raise NotImplementedError

    def _restore(self, fit: Fit, document: Mapping[str, Any]) -> None:
        """Set every fitted attribute from a saved fit and its document."""
        raise NotImplementedError

    def _target(self) -> Target:
        """What the subclass makes of its target. Raises InputError."""
        raise NotImplementedError

    @one_thread_each()
    def _train(
        self, rows: Floats, targets: Floats, weight: Floats | None, fold: Integers | None = None
    ) -> Fit:
        """Train members from fresh weights or, with warm_start, those of the last fit further.

        Member m does not see the rows where `fold` is m.
        """
        self.check_size(len(rows), rows.shape[1], targets.shape[1])
        settings = self._settings()
        with self._progress() as on_step:
            if self.warm_start and hasattr(self, "_fit"):
                return go_on(rows, targets, settings, self._fit, on_step, weight, fold)
            return begin(rows, targets, settings, self._seeds(), on_step, weight, fold)

    @contextmanager
    def _unchanged_on_failure(self) -> Iterator[None]:
        """Put every attribute back where what is done inside does not come to its end."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _seeds(self) -> list[int]:
        """One seed a member, drawn from the random state."""
        try:
            random = check_random_state(self.random_state)
        except ValueError as error:
            raise InputError(f"random_state must be a whole number or None: {error}") from error
        return [int(seed) for seed in random.randint(2**31 - 1, size=self.members)]

    @contextmanager
    def _progress(self) -> Iterator[Callable[[int], None] | None]:
        """A bar on stderr while training, if the caller wants one."""
        if not self.verbose:
            yield None
            return
        from online_laplace.progress import Bars

        with Bars() as bars:
            bar = bars.add("training", self.max_steps)
            first: int | None = None

            def on_step(step: int) -> None:
                nonlocal first
                # A run that goes on from an earlier one begins its count where that one ended.
                first = step if first is None else first
                bar.update(step - first)

            yield on_step
            bar.update(self.max_steps)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "_fit")

    def _rows(self, X: ArrayLike) -> Floats:
        """Rows to predict, checked."""
        check_is_fitted(self)
        rows: Floats = validated(self, X, reset=False)
        return rows

    def _adopt_summary(self, fit: Fit) -> None:
        """Set the attributes that every fitted estimator has from what training left behind."""
        summary, names = fit.summary, fit.networks.model.prior.names
        self._fit = fit
        self.groups_ = names
        self.alpha_ = float(summary.alpha[0]) if len(names) == 1 else summary.alpha
        self.gamma_ = summary.gamma
        self.log_evidence_ = summary.log_evidence
        self.history_ = fit.history
        self.outcome_ = str(summary.outcome)
        self.n_iter_ = summary.steps
        self.__dict__.pop("relevance_", None)  # an earlier fit may have had another prior
        if fit.fixed["prior"] == "ard":
            self.relevance_: Floats = fit.networks.sensitivity()

    def _warn_of_failures(self) -> None:
        """Say so when members could not be trained to the end."""
        outcomes = self._fit.summary.outcomes
        failed = [outcome for outcome in outcomes if outcome.failed]
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(outcomes)} members failed and predict with their weights of highest "
                f"evidence before that; the first: {failed[0]}",
                ConvergenceWarning,
                stacklevel=3,
            )


def _tolerance(value: Any) -> float:
    if not isinstance(value, Real) or not 0 <= float(value) < float("inf"):
        raise InputError(f"tol must be zero or a positive number, not {value!r}")
    return float(value)


def _widths(hidden: Any) -> tuple[int, ...]:
    widths = (hidden,) if isinstance(hidden, Integral) else hidden
    if not isinstance(widths, (tuple, list, np.ndarray)) or not all(is_count(width) for width in widths):
        raise InputError(
            f"hidden must be a number of units or one number per layer, such as (50, 50), not {hidden!r}"
        )
    return tuple(int(width) for width in widths)
