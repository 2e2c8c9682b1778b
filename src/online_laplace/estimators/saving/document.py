"""What the document of a saved model may hold.

A new part of the format is a new field here; a document with names that are not known is refused by the
class that they are in, but for the first level, where every kind of model may have something of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from online_laplace import defaults
from online_laplace.curvature import STRUCTURES, exact
from online_laplace.estimators.labels import NUMBERS
from online_laplace.files.schema import Count, Open, Positive, Strict, check
from online_laplace.files.sealed import DamagedFileError
from online_laplace.model.activations import ACTIVATIONS
from online_laplace.model.prior import PRIORS
from online_laplace.pool.views import VIEWS
from online_laplace.train.outcome import SEVERITY

Plain = bool | int | float | str | None
# Between which a pool's factor lies, and a temperature: wider than any that training looks at.
FACTORS, TEMPERATURES = (math.exp(-3), math.exp(3)), (0.01, 100.0)
Digest = Annotated[str, StringConstraints(pattern=re.compile(r"^[0-9a-f]{64}$"))]


class OutcomeSchema(Strict):
    """How a member ended."""

    kind: Literal[SEVERITY]  # type: ignore[valid-type]
    step: Count
    detail: str


class SummarySchema(Strict):
    """What was learnt, in numbers."""

    gamma: float
    log_evidence: float
    steps: Count
    outcomes: Annotated[list[OutcomeSchema], Field(min_length=1)]


class ArchitectureSchema(Strict):
    """The networks that were trained; of a pool, those of its first part."""

    hidden: list[Positive]
    activation: Literal[tuple(ACTIVATIONS)] = defaults.ACTIVATION  # type: ignore[valid-type]
    prior: Literal[PRIORS]  # type: ignore[valid-type]
    optimiser: str = defaults.OPTIMISER
    members: Positive


Share = Annotated[float, Field(ge=0, le=1 + 1e-9)]


class PartSchema(Strict):
    """One part of a pool, and how much it counts."""

    noise: str
    steps: Count
    weight: Share
    mean_weight: Share
    refit: bool = False
    likelihood: dict[str, Plain | list[float]]  # of several targets a floor or a mean count each


class NetworksSchema(PartSchema):
    """A part of networks."""

    hidden: list[Positive]
    activation: Literal[tuple(ACTIVATIONS)]  # type: ignore[valid-type]
    prior: Literal[PRIORS]  # type: ignore[valid-type]
    view: Literal[tuple(VIEWS)]  # type: ignore[valid-type]
    curvature: Literal[tuple(STRUCTURES)] = exact.name  # type: ignore[valid-type]  # once there was one kind


class ForestSchema(PartSchema):
    """A part of trees."""

    trees: Positive


class BoostingSchema(PartSchema):
    """A part of boosted trees."""

    stages: Positive


class DiscriminantSchema(PartSchema):
    """A part of densities of inputs."""

    densities: Literal["student-t"]


class ProcessSchema(PartSchema):
    """A part of Gaussian processes."""

    centres: Positive


class ClassProcessSchema(PartSchema):
    """A part of Gaussian processes of classes."""

    class_centres: Positive


AnyPart = (
    NetworksSchema | ForestSchema | BoostingSchema | DiscriminantSchema | ProcessSchema | ClassProcessSchema
)


class PoolSchema(Strict):
    """A stacked pool."""

    narrowing: Annotated[float, Field(gt=0)]
    noise_variance: list[Annotated[float, Field(ge=0)]]  # of classes there is none
    parts: Annotated[list[AnyPart], Field(min_length=1)]
    leaderboard: list[dict[str, Plain | list[float]]]  # of several targets an RMSE each


class ClassesSchema(Strict):
    """The labels of a classifier."""

    type: Literal["object", "str", "bool", *NUMBERS]  # type: ignore[valid-type]
    labels: Annotated[list[bool] | list[int] | list[float] | list[str], Field(min_length=2)]


class DocumentSchema(Open):
    """`model.json`."""

    format: str
    version: int
    package_version: str
    estimator: str
    settings: dict[str, Plain | list[int]]
    architecture: ArchitectureSchema
    likelihood: dict[str, Plain | list[float]] | None = None
    features: list[str] | None
    rows: Positive
    weights: Positive
    summary: SummarySchema
    arrays_sha256: Digest
    one_target: bool | None = None
    classes: ClassesSchema | None = None
    table: dict[str, Any] | None = None
    pool: PoolSchema | None = None


def check_document(document: Mapping[str, Any]) -> None:
    """Refuse a document whose parts are not what they must be. Raises DamagedFileError."""
    found = check(DocumentSchema, document)
    if (found.one_target is None) == (found.classes is None):
        raise DamagedFileError("it must have either one_target or classes")
    if found.features is not None and len(set(found.features)) < len(found.features):
        raise DamagedFileError("features: a name is there twice")
    if found.classes is not None and len(set(found.classes.labels)) < len(found.classes.labels):
        raise DamagedFileError("classes.labels: a label is there twice")
    if found.table is not None and found.one_target is False:
        raise DamagedFileError("one_target: a table has one target")
    if found.pool is not None:
        bounds = FACTORS if found.classes is None else TEMPERATURES
        check_between("pool.narrowing", found.pool.narrowing, *bounds)


def check_between(name: str, value: float, least: float, most: float) -> None:
    """Refuse a number with which a prediction would be no number. Raises DamagedFileError."""
    if not least <= value <= most:
        raise DamagedFileError(f"{name}: {value:g} is not between {least:g} and {most:g}")
