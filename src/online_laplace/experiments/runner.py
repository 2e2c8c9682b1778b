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
from online_laplace.experiments.batch import Batch, batch
from online_laplace.experiments.specification import Specification
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.train.checkpoint import Keeper
from online_laplace.train.history import Info, observe
from online_laplace.train.loop import Watch
from online_laplace.train.procedures import (
    PROCEDURES,
    Schedule,
    Trained,
    retrain,
    train_offline,
    train_online,
)


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
    alpha: float | list[float] | None
    beta: float | list[float] | None
    gamma: float | list[float] | None
    laplace_evidence: float | None
    tangent_evidence: float | None
    distance: float | None
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
        for position, split in enumerate(splits):
            records.append(_record(table.name, split, procedure, result, info, position, seconds))
    return Run(records, trained)


def prepare(table: Table, procedure: str, splits: Sequence[int], spec: Specification) -> tuple[MLP, Batch]:
    """The network and the rows that a procedure trains on."""
    data = batch(table, spec, list(splits), validate=procedure == "offline")
    return MLP(table.X.shape[1], spec.hidden, 1, spec.activation), data


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
    w = initial_weights(network, [spec.weight_seed(split) for split in splits], spec.like())
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
    schedule = Schedule(steps, spec.optimiser, watch)
    if procedure == "offline":
        assert data.validation is not None
        return train_offline(network, data.problem, data.validation, w, hyper, schedule)
    if procedure == "retrain":
        return [retrain(network, data.problem, w, hyper, schedule, rounds=spec.retrain_rounds)]
    online = train_online(network, data.problem, w, hyper, schedule, procedure=procedure, form=spec.form)
    return [online]


def _record(
    table: str,
    split: int,
    procedure: str,
    result: Trained,
    info: Info,
    position: int,
    seconds: float,
) -> Record:
    """One replica of a look, as plain numbers."""
    assert info.test is not None

    def number(values: Tensor) -> float | None:
        return finite(values[position].item())

    def numbers(values: Tensor) -> float | list[float] | None:
        several = values[position].tolist()
        return finite(several[0]) if len(several) == 1 else several

    outcome = result.outcomes[position]
    return Record(
        table=table,
        split=split,
        procedure=procedure,
        objective=result.objective,
        steps=outcome.step,
        outcome=outcome.kind,
        outcome_detail=outcome.detail,
        test_rmse=number(info.test.rmse),
        test_log_likelihood=number(info.test.log_likelihood),
        train_rmse=number(info.train.rmse),
        train_log_likelihood=number(info.train.log_likelihood),
        coverage_90=number(info.test.coverage_90),
        crps=number(info.test.crps),
        alpha=numbers(info.alpha),
        beta=numbers(info.beta),
        gamma=numbers(info.gamma),
        laplace_evidence=number(info.laplace_evidence),
        tangent_evidence=number(info.tangent_evidence),
        distance=number(info.distance),
        seconds=seconds,
    )


def finite(value: float) -> float | None:
    """The value, or None where it is not a number JSON can hold."""
    return value if math.isfinite(value) else None
