"""Train one table's splits by one procedure and say how it went."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from online_laplace.data import Table
from online_laplace.errors import known_name
from online_laplace.hyper.prior import initial_hyper
from online_laplace.memory import check_size
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.posterior.metrics import Scores, score
from online_laplace.posterior.mixture import predict_mixture
from online_laplace.posterior.predictive import Units
from online_laplace.protocol.batch import Batch, batch
from online_laplace.protocol.specification import Specification
from online_laplace.train.checkpoint import Keeper
from online_laplace.train.history import Info, observe
from online_laplace.train.loop import Watch
from online_laplace.train.outcome import ADVICE, CONVERGED, DIVERGED, SEVERITY, STEP_LIMIT, Outcome
from online_laplace.train.procedures import (
    PROCEDURES,
    Schedule,
    Trained,
    retrain,
    train_offline,
    train_online,
)
from online_laplace.types import Components, Problem


@dataclass(frozen=True)
class Record:
    """The result of one (table, split, procedure, objective), in plain numbers.

    A number that is not finite becomes None: the outcome says why.
    """

    table: str
    split: int
    procedure: str
    objective: str
    steps: int
    outcome: str
    outcome_detail: str
    test_rmse: float | None
    test_log_likelihood: float | None
    train_rmse: float | None
    train_log_likelihood: float | None
    coverage_90: float | None
    crps: float | None
    alpha: float | list[float | None] | None
    beta: float | list[float | None] | None
    gamma: float | list[float | None] | None
    laplace_evidence: float | None
    tangent_evidence: float | None
    distance: float | None
    certificate: dict[str, float | None]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)


@dataclass(frozen=True)
class Run:
    """The records of one batch, with the trained weights and histories they summarise."""

    records: list[Record]
    trained: list[Trained]


def run_procedure(
    table: Table,
    procedure: str,
    splits: Sequence[int],
    spec: Specification,
    tick: Callable[[int], None] | None = None,
    keeper: Keeper | None = None,
) -> Run:
    """Train the splits of one table as one batched program.

    `tick` hears how many steps are done; `keeper` keeps what it takes to go on after an interruption.
    """
    known_name("procedure", procedure, PROCEDURES)
    began = time.perf_counter()
    network, data = prepare(table, procedure, splits, spec)
    trained = _train(network, data, procedure, splits, spec, table.name, tick, keeper)
    seconds = (time.perf_counter() - began) / len(splits)

    records = []
    for result in trained:
        info = observe(network, result.w, result.hyper, data.evaluation)
        scored = score_mixture(network, result, info, data, spec)
        for position, split in enumerate(splits):
            label = Label(table.name, split, procedure)
            records.append(_record(label, result, info, scored, position, spec.members, seconds))
    return Run(records, trained)


def score_mixture(
    network: MLP, result: Trained, info: Info, data: Batch, spec: Specification
) -> tuple[Scores, Scores]:
    """The training and the test scores (r,) of the mixture that each split's members make."""
    members, where = spec.members, data.evaluation
    # Members of one split are neighbours: (r · members, c, …) → (r, members · c, …).
    components = Components(
        *(values.unflatten(0, (-1, members)).flatten(1, 2) for values in result.components)
    )
    log_evidence = None
    if spec.member_weights == "evidence":
        per_member = components.w.shape[1] // members
        log_evidence = info.laplace_evidence.unflatten(0, (-1, members)).repeat_interleave(per_member, 1)

    # Every member of a split sees the same rows.
    def first(values: Tensor) -> Tensor:
        return values[::members]

    units = Units(first(where.units.mean), first(where.units.std))
    train = Problem(first(where.train.X), first(where.train.y))

    def scores(rows: Problem) -> Scores:
        X, y = first(rows.X), first(rows.y)
        mixture = predict_mixture(network, components, result.hyper.prior, train, X, log_evidence)
        return score(mixture.to_units(units), units.mean + units.std * y)

    assert where.test is not None
    return scores(where.train), scores(where.test)


def prepare(table: Table, procedure: str, splits: Sequence[int], spec: Specification) -> tuple[MLP, Batch]:
    """The network and the rows that a procedure trains on. Raises InputError for what memory cannot hold."""
    network = network_of(table, spec)
    check_size(len(table.y), 1, network.d_w, len(splits) * spec.members, spec.device)
    return network, batch(table, spec, list(splits), validate=procedure == "offline")


def network_of(table: Table, spec: Specification) -> MLP:
    """The network that a protocol trains on a table."""
    return MLP(table.X.shape[1], spec.hidden, 1, spec.activation)


def _train(
    network: MLP,
    data: Batch,
    procedure: str,
    splits: Sequence[int],
    spec: Specification,
    table_name: str,
    tick: Callable[[int], None] | None,
    keeper: Keeper | None,
) -> list[Trained]:
    seeds = [spec.weight_seed(split, member) for split in splits for member in range(spec.members)]
    w = initial_weights(network, seeds, spec.like())
    steps = spec.steps_for(table_name, procedure)
    offline = procedure == "offline"
    alpha, beta = (spec.offline_alpha, spec.offline_beta) if offline else (spec.alpha, spec.beta)
    hyper = initial_hyper(network, w, prior=spec.prior, alpha=alpha, beta=beta)
    watch = Watch(
        look=lambda state: observe(network, state.w, state.hyper, data.evaluation),
        every=math.ceil(steps / spec.looks),
        tolerance=spec.tolerance if procedure in ("ol", "lm") else 0.0,
        tick=tick,
        keeper=keeper,
    )
    schedule = Schedule(steps, spec.adam, watch)
    if procedure == "offline":
        assert data.validation is not None
        return train_offline(network, data.problem, data.validation, w, hyper, schedule)
    if procedure == "retrain":
        return [retrain(network, data.problem, w, hyper, schedule, rounds=spec.retrain_rounds)]
    online = train_online(
        network,
        data.problem,
        w,
        hyper,
        schedule,
        procedure=procedure,
        optimiser=spec.optimiser,
        form=spec.form,
        what_to_keep=spec.keep,
    )
    return [online]


@dataclass(frozen=True)
class Label:
    """What a record is of."""

    table: str
    split: int
    procedure: str


def _record(
    label: Label,
    result: Trained,
    info: Info,
    scored: tuple[Scores, Scores],
    position: int,
    members: int,
    seconds: float,
) -> Record:
    """One split as plain numbers. Scores are the mixture's; all else is the members' average."""
    train, test = scored
    replicas = slice(position * members, (position + 1) * members)

    def average(values: Tensor) -> float | None:
        return finite(values[replicas].mean().item())

    def averages(values: Tensor) -> float | list[float | None] | None:
        several = values[replicas].mean(0).tolist()
        return finite(several[0]) if len(several) == 1 else [finite(value) for value in several]

    outcomes = result.outcomes[replicas]
    # An ensemble ended as its worst member did.
    outcome = max(outcomes, key=lambda one: SEVERITY.index(one.kind))
    usable = outcome.kind in (CONVERGED, STEP_LIMIT)
    if usable and not math.isfinite(test.log_likelihood[position].item()):
        # The weights are sound but β has run away: what is left of the variance is rounding.
        detail = f"the error bars are not positive numbers (β = {averages(info.beta)}); {ADVICE}"
        outcome = Outcome(DIVERGED, outcome.step, detail)
    return Record(
        table=label.table,
        split=label.split,
        procedure=label.procedure,
        objective=result.objective,
        steps=max(one.step for one in outcomes),
        outcome=outcome.kind,
        outcome_detail=outcome.detail,
        test_rmse=finite(test.rmse[position].item()),
        test_log_likelihood=finite(test.log_likelihood[position].item()),
        train_rmse=finite(train.rmse[position].item()),
        train_log_likelihood=finite(train.log_likelihood[position].item()),
        coverage_90=finite(test.coverage_90[position].item()),
        crps=finite(test.crps[position].item()),
        alpha=averages(info.alpha),
        beta=averages(info.beta),
        gamma=averages(info.gamma),
        laplace_evidence=average(info.laplace_evidence),
        tangent_evidence=average(info.tangent_evidence),
        distance=average(info.distance),
        certificate={
            name: finite(values[replicas].max().item()) for name, values in info.certificate._asdict().items()
        },
        seconds=seconds,
    )


def finite(value: float) -> float | None:
    """The value, or None where it is not a number JSON can hold."""
    return value if math.isfinite(value) else None
