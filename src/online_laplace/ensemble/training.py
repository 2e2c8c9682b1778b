"""From a model, rows and a plan to the end of training: every procedure, observed and scored in one way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.ensemble.data import TrainingData as TrainingData  # also had from here
from online_laplace.ensemble.side_by_side import parts_of, some_members, some_of_earlier, train_parts
from online_laplace.errors import InputError, SettingError, known_name
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
from online_laplace.train.replicas import without_caches
from online_laplace.train.trajectory import KEEP
from online_laplace.types import Rows

# Procedures that tune to the tangent model's own evidence, L_h.
NEEDS_MODE = ("lm", "offline")


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
            raise SettingError("tolerance", f"must be zero or positive, not {self.tolerance}")
        for name in ("steps", "observations", "rounds"):
            if getattr(self, name) < 1:
                raise SettingError(name, f"must be at least 1, not {getattr(self, name)}")

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

    def observed(data: TrainingData, on_step: Callable[[int], None] | None) -> Schedule:
        monitor = Monitor(
            observe=lambda state: observe_scored(model, data, state.w, state.hyper, _linearised(state)),
            recordable=model.likelihood.recordable,
            every=plan.observe_every,
            tolerance=plan.tolerance if plan.procedure in MEANS else 0.0,
            on_step=on_step,
            checkpoint=checkpoint,
        )
        return Schedule(plan.steps, monitor, plan.optimiser, plan.adam)

    schedule = observed(data, on_step)
    if plan.procedure == "offline":
        if data.validation is None:
            raise InputError("offline training needs validation rows")
        return train_offline(model, data.train, data.validation, w, hyper, schedule)
    if plan.procedure == "retrain":
        return [retrain(model, data.train, w, hyper, schedule, rounds=plan.rounds)]
    online = partial(train_online, procedure=plan.procedure, keep=plan.keep)
    parts = [slice(0, len(w))]
    if checkpoint is None and w.ndim == 2 and w.device.type == "cpu" and _begins(earlier):
        parts = parts_of(len(w), _step_products(model, data.train))
    if len(parts) == 1:
        return [online(model, data.train, w, hyper, schedule, earlier=earlier)]

    def train_part(chosen: slice, on_step: Callable[[int], None]) -> Trained:
        some, own = some_members(data, chosen, len(w)), some_of_earlier(earlier, chosen)
        start = hyper.with_values(hyper.alpha[chosen], hyper.beta[chosen])
        return online(model, some.train, w[chosen], start, observed(some, on_step), earlier=own)

    return [train_parts(parts, train_part, on_step)]


def _begins(earlier: Arrays | None) -> bool:
    """Whether a run has no history of its own yet."""
    return earlier is None or len(earlier["history.steps"]) == 0


def _step_products(model: Model, rows: Rows) -> float:
    """About as many multiplications as a member's step takes."""
    n, d = rows.n * model.network.d_out, model.network.d_w
    return n * d * min(n, d) / 2 + min(n, d) ** 3 / 2


def _linearised(state: State) -> Linearised | None:
    """What a state of Gauss-Newton knows of its weights already."""
    if not isinstance(state, GaussNewtonState):
        return None
    return Linearised(without_caches(state.tangent), state.ggn)


def observe_scored(
    model: Model, data: TrainingData, w: Tensor, hyper: Hyper, there: Linearised | None = None
) -> Info:
    """An observation at w, linearised `there` or anew, with scores in the target's own units."""

    def score(w: Tensor, hyper: Hyper, H: Precision) -> Scored:
        posterior = Posterior(model, w, hyper, H)
        test = None if data.test is None else _score(posterior, data.test, data.units)
        train = _score(posterior, data.train, data.units, own=True) if data.score_train else None
        return Scored(train, test)

    return observe(model, w, hyper, data.train, score, there)


def _score(posterior: Posterior, rows: Rows, units: Affine[Tensor], *, own: bool = False) -> object:
    predicted = posterior.predict_own(rows) if own else posterior.predict(rows.X)
    return predicted.to_units(units).score(units.inverse(rows.y))
