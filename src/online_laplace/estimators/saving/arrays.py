"""What the arrays of a saved model may be, and that they belong to its document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from online_laplace import defaults
from online_laplace.ensemble.architecture import Architecture
from online_laplace.estimators.saving.discriminant import check_densities
from online_laplace.estimators.saving.document import TEMPERATURES, check_between
from online_laplace.estimators.saving.forest import check_trees
from online_laplace.estimators.saving.gaussian_process import check_class_processes, check_processes
from online_laplace.files.schema import check
from online_laplace.files.sealed import DamagedFileError
from online_laplace.likelihood import KINDS, Categorical, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.prior import weight_labels
from online_laplace.pool.views import VIEWS

# What the weights of a pool may be off one in sum.
TOTAL = 1e-6
# No number of a scaled problem is larger, and none in the user's units if it has a standard deviation.
LARGEST_SCALED, LARGEST_OWN = 1e30, 1e155
# The least noise variance of a target of variance one is far below, even if its resolution is all its range.
LARGEST_FLOOR = 1e12
# What was learnt at once, by the word that only its part has: how its arrays are checked, its likelihoods.
AT_ONCE: Mapping[str, tuple[Callable[..., None], tuple[type[Any], ...]]] = {
    "trees": (check_trees, (VaryingGaussian, Categorical)),
    "stages": (check_trees, (VaryingGaussian,)),
    "densities": (check_densities, (Categorical,)),
    "centres": (check_processes, (VaryingGaussian,)),
    "class_centres": (check_class_processes, (Categorical,)),
}


def check_arrays(document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> None:
    """Refuse arrays that are not those of the document's networks and rows. Raises DamagedFileError."""
    X, y = _of(arrays, "problem.X", (None, None)), _of(arrays, "problem.y", (None, None))
    (n, d), k = X.shape, y.shape[-1]
    if (pool := document.get("pool")) is None:
        first = "components."
        network, targets = _check_networks(document, first, arrays, d, k)
    else:
        first = "part0."
        network, targets = _check_parts(pool["parts"], arrays, X, k)
        if abs(sum(part["weight"] for part in pool["parts"]) - 1) > TOTAL:
            raise DamagedFileError("pool.parts: their weights do not add up to one")
    _of(arrays, "summary.alpha", (arrays[f"{first}alpha"].shape[-1],), positive=True)
    _of(arrays, "inputs.mean", (d,))
    _of(arrays, "inputs.std", (d,), positive=True)
    _of(arrays, "target.mean", (k,))
    _of(arrays, "target.std", (k,), positive=True)
    if "problem.weight" in arrays:
        weight = _of(arrays, "problem.weight", (None,) * (arrays["problem.weight"].ndim - 1) + (n,))
        if weight.ndim > 2 or (weight < 0).any():
            raise DamagedFileError("problem.weight: it cannot be the weight of rows")
    _check_sizes(document, n, d, k, network.d_w, targets)
    if "held_out.X" in arrays or "held_out.y" in arrays:
        held_out = _of(arrays, "held_out.X", (None, d))
        _of(arrays, "held_out.y", (len(held_out),))


def _check_parts(
    parts: Sequence[Mapping[str, Any]], arrays: Mapping[str, Tensor], X: Tensor, k: int
) -> tuple[MLP, int]:
    """The network of the first part and its targets, if the arrays are those of all parts."""
    found = []
    for i, part in enumerate(parts):
        if (word := _at_once(part)) is not None:
            check_learnt, likelihoods = AT_ONCE[word]
            check_learnt(f"part{i}.", arrays, X.shape[-1], k)
            if not isinstance(_likelihood(part["likelihood"]), likelihoods):
                raise DamagedFileError(f"pool.parts.{i}.likelihood: a part with {word} cannot have it")
        else:
            columns = VIEWS[part["view"]](X)(X[:1]).shape[-1]
            found.append(_check_networks(part, f"part{i}.", arrays, columns, k))
    if _at_once(parts[0]) is not None:
        raise DamagedFileError("pool.parts.0: the first part of a pool has networks")
    return found[0]


def _at_once(part: Mapping[str, Any]) -> str | None:
    return next((word for word in AT_ONCE if word in part), None)


def _check_networks(
    told: Mapping[str, Any], prefix: str, arrays: Mapping[str, Tensor], d: int, k: int
) -> tuple[MLP, int]:
    """The network that the words describe, if the arrays are of such networks, and its targets."""
    likelihood = _likelihood(told.get("likelihood") or {"kind": "Gaussian", "targets": k, "scales": k})
    shape = told.get("architecture", told)
    activation = shape.get("activation", defaults.ACTIVATION)
    architecture = Architecture(tuple(shape["hidden"]), activation, shape["prior"])
    network = architecture.network(d, likelihood.outputs, likelihood.constants)
    w = _of(arrays, f"{prefix}w", (None, network.d_w), or_single=prefix != "components.")
    groups = set(weight_labels(network, architecture.prior, likelihood.heads))
    _of(arrays, f"{prefix}alpha", (len(w), len(groups)), positive=True)
    _of(arrays, f"{prefix}beta", (len(w), None), positive=True)
    return network, likelihood.targets


def _likelihood(told: Mapping[str, Any]) -> Any:
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    kind = settings.pop("kind", None)
    if kind not in KINDS:
        raise DamagedFileError(f"likelihood.kind: {kind!r} is not known")
    try:
        found = check(KINDS[kind], settings)
    except (TypeError, ValueError) as error:
        raise DamagedFileError(f"likelihood: {error}") from error
    for name, most in (("floor", LARGEST_FLOOR), ("ceiling", LARGEST_SCALED)):
        bound = getattr(found, name, None)
        for one in bound if isinstance(bound, tuple) else (bound or 0.0,):
            check_between(f"likelihood.{name}", one, 0.0, most)
    check_between("likelihood.temperature", getattr(found, "temperature", 1.0), *TEMPERATURES)
    return found


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
    arrays: Mapping[str, Tensor],
    name: str,
    shape: tuple[int | None, ...],
    *,
    positive: bool = False,
    or_single: bool = False,
) -> Tensor:
    """An array of floats of this shape, in which None is any size of at least one."""
    if name not in arrays:
        raise DamagedFileError(f"{name}: it is not there")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        size >= 1 and wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True)
    )
    kinds = (torch.float64, torch.float32) if or_single else (torch.float64,)
    if array.dtype not in kinds or not fits:
        raise DamagedFileError(f"{name}: {tuple(array.shape)} numbers of {array.dtype} are not what it has")
    most = LARGEST_OWN if name.startswith(("inputs.", "target.", "held_out.")) else LARGEST_SCALED
    if array.isnan().any() or (array.abs() > most).any() or (positive and (array <= 0).any()):
        raise DamagedFileError(
            f"{name}: a number in it is {'not positive, or ' if positive else ''}too large"
        )
    return array
