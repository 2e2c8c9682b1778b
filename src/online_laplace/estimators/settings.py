"""The settings of an estimator, as scikit-learn wants them, and what they mean once they are checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from online_laplace import defaults
from online_laplace.ensemble.architecture import Architecture
from online_laplace.errors import InputError, SettingError, known_name
from online_laplace.estimators.checks import check_jobs, count, is_count
from online_laplace.estimators.pooling import PoolSettings
from online_laplace.estimators.targets import Target
from online_laplace.estimators.training import OBSERVATIONS, Settings, estimator_plan
from online_laplace.memory import check_device
from online_laplace.pool.candidates import PRESETS, Candidate, Preset
from online_laplace.pool.members import side_by_side
from online_laplace.train.online import MEANS


class EstimatorSettings(BaseEstimator):  # type: ignore[misc]
    """What is said of a network or of a preset. A network that is named is that network and no pool."""

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

    def check_settings(self) -> None:
        """Refuse settings that `fit` would refuse. Raises InputError."""
        self._check_shared()
        if self._is_named:
            self._settings()
        else:
            self._pool_settings()

    def _check_shared(self) -> None:
        """What is refused of a preset and of a network alike, also where it would not be used."""
        known_name("preset", self.preset, self._presets)
        check_jobs(self.n_jobs)
        _tolerance(self.tol)

    def check_size(self, rows: int, features: int, targets: int | None = None) -> None:
        """Refuse, as `fit` does, data that would not fit in memory. Raises InputError."""
        targets = self._fewest_outputs if targets is None else targets
        if self._is_named:
            settings = self._settings()
            candidate, target = Candidate(settings.architecture), settings.target
            members, device = settings.members, settings.device
        else:
            pool = self._pool_settings()
            # The last candidates go first where there are many rows; the first network is always trained.
            networks = (c for c in pool.preset.candidates if isinstance(c, Candidate) and c.is_network)
            candidate = next(networks)
            target, device = pool.targets[candidate.noise], pool.device
            members = side_by_side(device, pool.members)
        candidate.footprint(features, target.likelihood_of(targets), members, device).check(rows)

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

    def _target(self) -> Target:
        """What the subclass makes of its target. Raises InputError."""
        raise NotImplementedError


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise SettingError("time_limit", f"must be a positive number of seconds, not {value!r}")
    return float(value)


def _tolerance(value: Any) -> float:
    if not isinstance(value, Real) or not 0 <= float(value) < float("inf"):
        raise SettingError("tol", f"must be zero or a positive number, not {value!r}")
    return float(value)


def _widths(hidden: Any) -> tuple[int, ...]:
    widths = (hidden,) if isinstance(hidden, Integral) else hidden
    if not isinstance(widths, (tuple, list, np.ndarray)) or not all(is_count(width) for width in widths):
        raise SettingError(
            "hidden", f"must be a number of units or one number per layer, such as (50, 50), not {hidden!r}"
        )
    return tuple(int(width) for width in widths)
