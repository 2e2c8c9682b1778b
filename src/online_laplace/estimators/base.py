"""What every estimator of this package has in common: training, what a fit leaves behind, and saving."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from online_laplace import defaults
from online_laplace.data.checks import Floats, Integers
from online_laplace.errors import InputError
from online_laplace.estimators.checks import checked_groups, validated
from online_laplace.estimators.gradients import with_gradients
from online_laplace.estimators.pooling import PoolFit, fit_pool
from online_laplace.estimators.settings import EstimatorSettings
from online_laplace.estimators.training import Fit, begin, go_on
from online_laplace.estimators.training_range import TrainingRangeMixin
from online_laplace.estimators.values import refuse_far
from online_laplace.estimators.watching import watched_pool
from online_laplace.pool.folds import together
from online_laplace.pool.problem import Kind
from online_laplace.threads import one_thread_each


class OnlineLaplaceEstimator(TrainingRangeMixin, EstimatorSettings):
    """Networks that learn their own regularisation, as scikit-learn wants an estimator to be.

    The likelihood, and with it `fit` and what can be predicted, is the subclass's.
    """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model into the folder `path`; `online_laplace.load` brings it back.

        The folder holds arrays (safetensors) and settings (JSON), no code. It appears whole or not at all; an
        earlier model there is replaced.

        Raises:
            NotFittedError: there is nothing to save yet.
            InputError: the folder cannot be written, or holds something other than a model; or settings were
                changed since `fit` to what could not be loaded again.
        """
        from online_laplace.estimators.saving.models import save

        save(self, path)

    def _extras(self) -> dict[str, Any]:
        """What a saved model's document says beside what every estimator has, as plain values."""
        raise NotImplementedError

    def _restore(self, fit: Fit | PoolFit, document: Mapping[str, Any]) -> None:
        """Set every fitted attribute from a saved fit and its document."""
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
        others = targets if weight is None else np.column_stack([targets, weight])
        sets = together(rows[seen], checked_groups(groups, rows, seen), others[seen])
        if groups is not None and sets.max() == 0 and together(rows[seen]).max() > 0:
            raise InputError(
                "no group can be left out, since shared groups or identical inputs link all rows: rows of "
                "one group, and rows with the same inputs, are left out together; give other groups, or none"
            )
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

    @cached_property
    def relevance_(self) -> Floats:
        """How far the prediction moves with each feature, found when it is asked for: (d,).

        Of a pool or with prior="ard"; others have none.
        """
        check_is_fitted(self)
        if not (isinstance(self._fit, PoolFit) or self._fit.fixed["prior"] == "ard"):
            raise AttributeError('relevance_ is of a pool, or of a network with prior="ard"')
        with with_gradients():
            return self._fit.networks.sensitivity()

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "_fit")

    def _rows(self, X: ArrayLike) -> Floats:
        """Rows to predict, checked."""
        check_is_fitted(self)
        rows: Floats = validated(self, X, reset=False)
        self._refuse_far(rows)
        return rows

    def _refuse_far(self, rows: Floats) -> None:
        refuse_far(rows, self._fit.networks.inputs, getattr(self, "feature_names_in_", None))

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

    def _warn_of_no_effect(self, groups: ArrayLike | None) -> None:
        """Say so where a preset or groups have no say, since a network is named."""
        if not self._is_named:
            return
        if self.warm_start and isinstance(getattr(self, "_fit", None), PoolFit):
            return  # which is refused, in words of its own
        given = (n for n in self._network if n != "max_steps" and getattr(self, n) is not None)
        named = next(given, "warm_start")
        # Names alone, by which options of the command line go as well.
        if self.preset != defaults.PRESET:
            warnings.warn(
                f"the preset {self.preset!r} has no effect: {named} means one network, trained alone. Leave "
                f"out {named} for the preset, or the preset for that network",
                UserWarning,
                stacklevel=3,
            )
        if groups is not None and not self._leaves_out:
            warnings.warn(
                f"the groups have no effect on training: {named} means one network, and none of the rows are "
                f"left out of it. Leave out {named} for a preset, which leaves rows out by their groups",
                UserWarning,
                stacklevel=3,
            )

    @property
    def _leaves_out(self) -> bool:
        """Whether members of a network that is named leave rows out in turn."""
        return False

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
