"""Train one table's splits by one procedure and say how it went."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from online_laplace.data import Table
from online_laplace.ensemble.ensemble import Ensembles, Summary
from online_laplace.ensemble.training import TrainingData, train
from online_laplace.errors import known_name
from online_laplace.memory import Footprint
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.predictive.metrics import Scores
from online_laplace.protocol.batch import training_data
from online_laplace.protocol.specification import Specification
from online_laplace.train.checkpoint import Checkpoint
from online_laplace.train.outcome import ADVICE, DIVERGED, Outcome
from online_laplace.train.procedures import PROCEDURES, Trained


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
    on_step: Callable[[int], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """Train the splits of one table as one batched program.

    `on_step` is called with the steps done; `checkpoint` saves what it takes to go on after an interruption.
    """
    known_name("procedure", procedure, PROCEDURES)
    began = time.perf_counter()
    model, data = prepare(table, procedure, splits, spec)
    seeds = [spec.weight_seed(split, member) for split in splits for member in range(spec.members)]
    w = initial_weights(model.network, seeds, spec.like())
    alpha, beta = spec.initial_precisions(procedure)
    hyper = model.initial_hyper(w, alpha=alpha, beta=beta)
    plan = spec.plan(table.name, procedure)
    trained = train(model, data, w, hyper, plan, on_step=on_step, checkpoint=checkpoint)
    seconds = (time.perf_counter() - began) / len(splits)

    records = []
    for result in trained:
        ensembles = Ensembles.of(model, data, result, spec.members)
        scored = ensembles.scores(by_evidence=spec.member_weights == "evidence")
        for position, summary in enumerate(ensembles.summaries()):
            label = Label(table.name, splits[position], procedure, result.objective)
            records.append(_record(label, summary, scored, position, seconds))
    return Run(records, trained)


def prepare(
    table: Table, procedure: str, splits: Sequence[int], spec: Specification
) -> tuple[Model, TrainingData]:
    """The model and the rows that a procedure trains on. Raises InputError for what memory cannot hold."""
    network = network_of(table, spec)
    members = len(splits) * spec.members
    Footprint(network.d_out, network.d_w, members, device=spec.device).check(len(table.y))
    model = spec.architecture.model(table.X.shape[1], spec.likelihood, spec.like(), spec.curvature)
    return model, training_data(table, spec, list(splits), validate=procedure == "offline")


def network_of(table: Table, spec: Specification) -> MLP:
    """The network that a protocol trains on a table."""
    return spec.architecture.network(table.X.shape[1], spec.likelihood.outputs, spec.likelihood.constants)


@dataclass(frozen=True)
class Label:
    """What a record is of."""

    table: str
    split: int
    procedure: str
    objective: str


def _record(
    label: Label, summary: Summary, scored: tuple[Scores, Scores], position: int, seconds: float
) -> Record:
    """One split as plain numbers. Scores are the mixture's; all else is the members' average."""
    train, test = scored
    info, outcome = summary.info, summary.outcome

    def average(values: Tensor) -> float | None:
        return finite(values.mean().item())

    def averages(values: Tensor) -> float | list[float | None] | None:
        several = values.mean(0).tolist()
        return finite(several[0]) if len(several) == 1 else [finite(value) for value in several]

    if not outcome.failed and not math.isfinite(test.log_likelihood[position].item()):
        # The weights are sound but β has run away: what is left of the variance is rounding.
        detail = f"the error bars are not positive numbers (β = {averages(info.beta)}); {ADVICE}"
        outcome = Outcome(DIVERGED, outcome.step, detail)
    return Record(
        **asdict(label),
        steps=summary.steps,
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
            name: finite(values.max().item()) for name, values in info.certificate._asdict().items()
        },
        seconds=seconds,
    )


def finite(value: float) -> float | None:
    """The value, or None where it is not a number JSON can hold."""
    return value if math.isfinite(value) else None
