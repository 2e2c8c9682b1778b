"""From a model, rows and a plan to the end of training: every procedure, observed and scored in one way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.errors import InputError, known_name
from online_laplace.model.model import Model
from online_laplace.model.precision import Precision
from online_laplace.model.prior import Hyper
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.adam import Adam
from online_laplace.train.checkpoint import Arrays, Checkpoint
from online_laplace.train.gauss_newton import GaussNewtonState
from online_laplace.train.loop import Monitor, State
from online_laplace.train.observe import Info, Linearised, Scored, observe
from online_laplace.train.online import MEANS
from online_laplace.train.procedures import (
    OPTIMISERS,
    PROCEDURES,
    Schedule,
    Trained,
    retrain,
    train_offline,
    train_online,
)
from online_laplace.train.trajectory import KEEP
from online_laplace.types import Rows

# Procedures that tune to the tangent model's own evidence, L_h.
NEEDS_MODE = ("lm", "offline")


@dataclass(frozen=True)
class TrainingData:
    """What is trained on, what is scored on, and the units (…, 1, k) of the target to score in.

    `score_train` says whether observations score the training rows, which costs about as much as the rest of
    an observation.
    """

    train: Rows
    units: Affine[Tensor]
    test: Rows | None = None
    validation: Rows | None = None
    score_train: bool = True

    def first_of(self, members: int) -> TrainingData:
        """The rows of every `members`-th replica: neighbours are members of one ensemble and share them."""

        def first(rows: Rows | None) -> Rows | None:
            return None if rows is None else Rows(rows.X[::members], rows.y[::members])

        train = first(self.train)
        assert train is not None
        units = Affine(self.units.mean[::members], self.units.std[::members])
        return replace(
            self, train=train, units=units, test=first(self.test), validation=first(self.validation)
        )


@dataclass(frozen=True)
class Plan:
    """How to train: a procedure, an optimiser, how far, and how often to observe it.

    `keep` says which snapshots of an online run predict; `rounds` bounds MacKay's retraining.
    """

    procedure: str = "ol"
    optimiser: str = "adam"
    steps: int = 1000
    tolerance: float = 1e-6
    observations: int = 100
    keep: str = "last"
    adam: Adam = Adam()
    rounds: int = 10

    def __post_init__(self) -> None:
        """Check every setting at the door."""
        known_name("procedure", self.procedure, PROCEDURES)
        known_name("optimiser", self.optimiser, OPTIMISERS)
        known_name("choice of what to keep", self.keep, KEEP)
        if not self.tolerance >= 0:
            raise InputError(f"tolerance must be zero or positive, not {self.tolerance}")
        for name in ("steps", "observations", "rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def observe_every(self) -> int:
        """Steps from one observation to the next."""
        return math.ceil(self.steps / self.observations)


def train(
    model: Model,
    data: TrainingData,
    w: Tensor,
    hyper: Hyper,
    plan: Plan,
    *,
    on_step: Callable[[int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    earlier: Arrays | None = None,
) -> list[Trained]:
    """Train the replicas of w (r, d_w) by a plan: one result, or one for each objective tuned afterwards.

    `on_step` is called with the steps done; `checkpoint` saves what it takes to go on after an interruption;
    `earlier` is the packed state of another online run to go on from.
    """
    if plan.procedure in NEEDS_MODE and not model.curvature.exact:
        raise InputError(
            f"{plan.procedure} needs the mode of the tangent model, which the {model.curvature.name} "
            "curvature does not know: use an exact curvature, or train by ol"
        )
    monitor = Monitor(
        observe=lambda state: observe_scored(model, data, state.w, state.hyper, _linearised(state)),
        every=plan.observe_every,
        tolerance=plan.tolerance if plan.procedure in MEANS else 0.0,
        on_step=on_step,
        checkpoint=checkpoint,
    )
    schedule = Schedule(plan.steps, monitor, plan.optimiser, plan.adam)
    if plan.procedure == "offline":
        if data.validation is None:
            raise InputError("offline training needs validation rows")
        return train_offline(model, data.train, data.validation, w, hyper, schedule)
    if plan.procedure == "retrain":
        return [retrain(model, data.train, w, hyper, schedule, rounds=plan.rounds)]
    online = train_online(
        model, data.train, w, hyper, schedule, procedure=plan.procedure, keep=plan.keep, earlier=earlier
    )
    return [online]


def _linearised(state: State) -> Linearised | None:
    """What a state of Gauss-Newton knows of its weights already."""
    return Linearised(state.tangent, state.ggn) if isinstance(state, GaussNewtonState) else None


def observe_scored(
    model: Model, data: TrainingData, w: Tensor, hyper: Hyper, there: Linearised | None = None
) -> Info:
    """An observation at w, linearised `there` or anew, with scores in the target's own units."""

    def score(w: Tensor, hyper: Hyper, H: Precision) -> Scored:
        posterior = Posterior(model, w, hyper, H)
        test = None if data.test is None else _score(posterior, data.test, data.units)
        train = _score(posterior, data.train, data.units) if data.score_train else None
        return Scored(train, test)

    return observe(model, w, hyper, data.train, score, there)


def _score(posterior: Posterior, rows: Rows, units: Affine[Tensor]) -> object:
    return posterior.predict(rows.X).to_units(units).score(units.inverse(rows.y))
