"""What a saved model may hold: its document, its arrays, and that the two belong together.

A new part of the format is a new field here; a document with names that are not known is refused by the
class that they are in, but for the first level, where every kind of model may have something of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, StringConstraints
from torch import Tensor

from online_laplace.ensemble.architecture import Architecture
from online_laplace.files.schema import Count, Open, Positive, Strict, check
from online_laplace.files.sealed import DamagedFileError
from online_laplace.likelihood import KINDS
from online_laplace.model.activations import ACTIVATIONS
from online_laplace.model.prior import PRIORS
from online_laplace.train.outcome import SEVERITY

Plain = bool | int | float | str | None
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
    """The networks that were trained."""

    hidden: list[Positive]
    activation: Literal[tuple(ACTIVATIONS)]  # type: ignore[valid-type]
    prior: Literal[PRIORS]  # type: ignore[valid-type]
    optimiser: str
    members: Positive


class ClassesSchema(Strict):
    """The labels of a classifier."""

    type: Literal["object", "str", "bool", "int64", "float64"]
    labels: Annotated[list[bool] | list[int] | list[float] | list[str], Field(min_length=2)]


class DocumentSchema(Open):
    """`model.json`."""

    format: str
    version: int
    package_version: str
    estimator: str
    settings: dict[str, Plain | list[int]]
    architecture: ArchitectureSchema
    likelihood: dict[str, Plain] | None = None
    features: list[str] | None
    rows: Positive
    weights: Positive
    summary: SummarySchema
    arrays_sha256: Digest
    one_target: bool | None = None
    classes: ClassesSchema | None = None
    table: dict[str, Any] | None = None


def check_document(document: Mapping[str, Any]) -> None:
    """Refuse a document whose parts are not what they must be. Raises DamagedFileError."""
    found = check(DocumentSchema, document)
    if (found.one_target is None) == (found.classes is None):
        raise DamagedFileError("it must have either one_target or classes")
    if found.features is not None and len(set(found.features)) < len(found.features):
        raise DamagedFileError("features: a name is there twice")
    if found.classes is not None and len(set(found.classes.labels)) < len(found.classes.labels):
        raise DamagedFileError("classes.labels: a label is there twice")


def check_arrays(document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> None:
    """Refuse arrays that are not those of the document's networks and rows. Raises DamagedFileError."""
    X, y = _of(arrays, "problem.X", (None, None)), _of(arrays, "problem.y", (None, None))
    (n, d), k = X.shape, y.shape[-1]
    told = dict(document.get("likelihood") or {"kind": "Gaussian", "targets": k, "scales": k})
    kind = told.pop("kind", None)
    if kind not in KINDS:
        raise DamagedFileError(f"likelihood.kind: {kind!r} is not known")
    try:
        likelihood = check(KINDS[kind], told)
    except (TypeError, ValueError) as error:
        raise DamagedFileError(f"likelihood: {error}") from error
    shape = document["architecture"]
    architecture = Architecture(tuple(shape["hidden"]), shape["activation"], shape["prior"])
    network = architecture.network(d, likelihood.outputs)
    groups = arrays.get("summary.alpha", X[0]).shape[0]
    w = _of(arrays, "components.w", (None, network.d_w))
    _of(arrays, "components.alpha", (len(w), groups), positive=True)
    _of(arrays, "components.beta", (len(w), None), positive=True)
    _of(arrays, "summary.alpha", (groups,), positive=True)
    for name, width in (("inputs", d), ("target", k)):
        _of(arrays, f"{name}.mean", (width,))
        _of(arrays, f"{name}.std", (width,), positive=True)
    if "problem.weight" in arrays:
        weight = _of(arrays, "problem.weight", (None,) * (arrays["problem.weight"].ndim - 1) + (n,))
        if weight.ndim > 2 or (weight < 0).any():
            raise DamagedFileError("problem.weight: it cannot be the weight of rows")
    _check_sizes(document, n, d, k, network.d_w, likelihood.targets)
    if "held_out.X" in arrays or "held_out.y" in arrays:
        held_out = _of(arrays, "held_out.X", (None, d))
        _of(arrays, "held_out.y", (len(held_out),))


def _check_sizes(document: Mapping[str, Any], n: int, d: int, k: int, d_w: int, targets: int) -> None:
    features, classes = document["features"], document.get("classes")
    for name, told, found in (
        ("rows", document["rows"], n),
        ("weights", document["weights"], d_w),
        ("features", d if features is None else len(features), d),
        ("classes", k if classes is None else len(classes["labels"]), k),
        ("likelihood", targets, k),
        ("one_target", 1 if document.get("one_target") else k, k),
    ):
        if told != found:
            raise DamagedFileError(f"{name}: the document has {told}, but the arrays are of {found}")


def _of(
    arrays: Mapping[str, Tensor], name: str, shape: tuple[int | None, ...], *, positive: bool = False
) -> Tensor:
    """An array of finite floats of this shape, in which None is any size of at least one."""
    if name not in arrays:
        raise DamagedFileError(f"{name}: it is not there")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        size >= 1 and wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != torch.float64 or not fits:
        raise DamagedFileError(f"{name}: {tuple(array.shape)} numbers of {array.dtype} are not what it has")
    if not array.isfinite().all() or (positive and (array <= 0).any()):
        raise DamagedFileError(f"{name}: a number is not {'positive and finite' if positive else 'finite'}")
    return array
