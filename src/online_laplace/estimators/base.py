"""What every estimator of this package has in common: settings, their checks, and saving."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
from online_laplace.estimators.checks import checked_groups, count, is_count, validated
from online_laplace.estimators.pooling import PoolFit, PoolSettings, fit_pool
from online_laplace.estimators.targets import Target
from online_laplace.estimators.training import OBSERVATIONS, Fit, Settings, begin, estimator_plan, go_on
from online_laplace.estimators.training_range import TrainingRangeMixin
from online_laplace.estimators.watching import watched_pool
from online_laplace.memory import check_device, check_size
from online_laplace.pool.candidates import PRESETS, Preset
from online_laplace.pool.folds import together
from online_laplace.pool.pool import GROUP, Kind
from online_laplace.threads import one_thread_each, replica_threads
from online_laplace.train.online import MEANS


class OnlineLaplaceEstimator(TrainingRangeMixin, BaseEstimator):  # type: ignore[misc]
    """Networks that learn their own regularisation, as scikit-learn wants an estimator to be.

    The likelihood, and with it `fit` and what can be predicted, is the subclass's.
    """

    # Which snapshots predict, how often training is observed, whether that scores the training rows, and how
    # many outputs there are at least before y is known.
    _keep = defaults.KEEP
    _observations = OBSERVATIONS
    _score_train = True
    _fewest_outputs = 1
    # What is not said of a network that is named, and the pools there are for one that is not.
    _network: Mapping[str, Any] = defaults.NETWORK
    _presets: Mapping[str, Preset] = PRESETS

    def __init__(
        self,
        hidden: int | Sequence[int] | None = None,
        activation: str | None = None,
        procedure: str | None = None,
        optimiser: str | None = None,
        prior: str | None = None,
        members: int | None = None,
        max_steps: int | None = None,
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        verbose: bool = False,
        preset: str = defaults.PRESET,
        time_limit: float | None = None,
        n_jobs: int | None = None,
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
        self.preset = preset
        self.time_limit = time_limit
        self.n_jobs = n_jobs

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
        if self._is_named:
            self._settings()
        else:
            self._pool_settings()

    def check_size(self, rows: int, features: int, targets: int | None = None) -> None:
        """Refuse, as `fit` does, data that would not fit in memory. Raises InputError."""
        targets = self._fewest_outputs if targets is None else targets
        if self._is_named:
            settings = self._settings()
            trained, members, device = [settings.architecture], settings.members, settings.device
        else:
            pool = self._pool_settings()
            # The last candidates go first where there are many rows; the first network is always trained.
            networks = [c.architecture for c in pool.preset.candidates if c.is_network]
            trained, device = networks[:1], pool.device
            members = pool.members if device != "cpu" else GROUP * replica_threads()[0]
        for architecture in trained:
            network = architecture.network(features, targets)
            factors = network.factors_per_row
            check_size(rows, targets, network.d_w, members, device, features=features, factors=factors)

    @property
    def _is_named(self) -> bool:
        """Whether the user has said which network it shall be, so that there is nothing to choose."""
        given = (getattr(self, name) for name in self._network if name != "max_steps")
        return self.warm_start or any(value is not None for value in given)

    def _of_network(self, name: str) -> Any:
        """A setting of a network that is named, or what it is where nothing was said."""
        given = getattr(self, name)
        return self._network[name] if given is None else given

    def _settings(self) -> Settings:
        """The settings of a named network, checked. Raises InputError naming the one that cannot be used."""
        if self.time_limit is not None:
            raise InputError(
                "time_limit is for a preset, which chooses the networks: leave out hidden, prior, members "
                "and warm_start, or give max_steps instead of time_limit"
            )
        procedure = known_name("procedure", self._of_network("procedure"), MEANS)
        steps, tolerance = count("max_steps", self._of_network("max_steps")), _tolerance(self.tol)
        optimiser = self._of_network("optimiser")
        hidden = _widths(self._of_network("hidden"))
        return Settings(
            Architecture(hidden, self._of_network("activation"), self._of_network("prior")),
            count("members", self._of_network("members")),
            estimator_plan(procedure, optimiser, steps, tolerance, self._keep, self._observations),
            check_device(self.device),
            self._target(),
            self._score_train,
        )

    def _pool_settings(self) -> PoolSettings:
        """The settings of a pool, checked. Raises InputError naming the one that cannot be used."""
        preset = self._presets[known_name("preset", self.preset, self._presets)]
        if self.max_steps is not None:
            preset = preset.at_most(count("max_steps", self.max_steps))
        seconds = math.inf if self.time_limit is None else _seconds(self.time_limit)
        return self._suited(PoolSettings(preset, {}, check_device(self.device), seconds, self.n_jobs))

    def _suited(self, settings: PoolSettings) -> PoolSettings:
        """The subclass's candidates and targets. Raises InputError."""
        raise NotImplementedError

    def _extras(self) -> dict[str, Any]:
        """What a saved model's document says beside what every estimator has, as plain values."""
        raise NotImplementedError

    def _restore(self, fit: Fit | PoolFit, document: Mapping[str, Any]) -> None:
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
        with self._progress(settings.plan.steps) as on_step:
            if self.warm_start and hasattr(self, "_fit"):
                if not isinstance(self._fit, Fit):
                    raise InputError(
                        "warm_start goes on with one kind of network, and this fit has several: name one, "
                        "such as hidden=50, and fit it anew"
                    )
                return go_on(rows, targets, settings, self._fit, on_step, weight, fold)
            return begin(rows, targets, settings, self._seeds(settings.members), on_step, weight, fold)

    @one_thread_each()
    def _train_pool(
        self,
        rows: Floats,
        targets: Floats,
        weight: Floats | None,
        groups: ArrayLike | None,
        kind: Kind,
        classes: Integers | None = None,
    ) -> PoolFit:
        """Train the candidates of the preset and stack them; rows of one group are left out together."""
        began = time.perf_counter()
        self.check_size(len(rows), rows.shape[1], targets.shape[1])
        settings = self._pool_settings()
        seen = slice(None) if weight is None else weight > 0
        sets = together(rows[seen], checked_groups(groups, rows, seen))
        settings = replace(settings, seconds=settings.seconds - (time.perf_counter() - began))
        with watched_pool(self.verbose) as watching:
            fit = fit_pool(
                rows[seen],
                targets[seen],
                settings,
                self._seeds(settings.members),
                sets,
                kind,
                None if weight is None else weight[seen],
                None if classes is None else classes[seen],
                watching,
            )
        if fit.notice is not None:
            warnings.warn(fit.notice, UserWarning, stacklevel=3)
        return fit

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

    def _seeds(self, members: int) -> list[int]:
        """One seed a member, drawn from the random state."""
        try:
            random = check_random_state(self.random_state)
        except ValueError as error:
            raise InputError(f"random_state must be a whole number or None: {error}") from error
        return [int(seed) for seed in random.randint(2**31 - 1, size=members)]

    @contextmanager
    def _progress(self, steps: int) -> Iterator[Callable[[int], None] | None]:
        """A bar on stderr while training, if the caller wants one."""
        if not self.verbose:
            yield None
            return
        from online_laplace.progress import Bars

        with Bars() as bars:
            bar = bars.add("training", steps)
            first: int | None = None

            def on_step(step: int) -> None:
                nonlocal first
                # A run that goes on from an earlier one begins its count where that one ended.
                first = step if first is None else first
                bar.update(step - first)

            yield on_step
            bar.update(steps)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "_fit")

    def _rows(self, X: ArrayLike) -> Floats:
        """Rows to predict, checked."""
        check_is_fitted(self)
        rows: Floats = validated(self, X, reset=False)
        return rows

    def _adopt_summary(self, fit: Fit | PoolFit) -> None:
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
        for name in ("relevance_", "leaderboard_", *(() if self.warm_start else ("_table",))):
            self.__dict__.pop(name, None)  # an earlier fit may have been of another kind
        if isinstance(fit, PoolFit):
            self.leaderboard_ = fit.leaderboard
        if isinstance(fit, PoolFit) or fit.fixed["prior"] == "ard":
            self.relevance_: Floats = fit.networks.sensitivity()

    def _warn_of_failures(self) -> None:
        """Say so when members could not be trained to the end."""
        if isinstance(self._fit, PoolFit):
            return  # a candidate that failed has no weight, and the leaderboard says so
        outcomes = self._fit.summary.outcomes
        failed = [outcome for outcome in outcomes if outcome.failed]
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(outcomes)} members failed and predict with their weights of highest "
                f"evidence before that; the first: {failed[0]}",
                ConvergenceWarning,
                stacklevel=3,
            )


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InputError(f"time_limit must be a positive number of seconds, or None, not {value!r}")
    return float(value)


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
