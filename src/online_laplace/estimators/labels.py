"""Class labels: which there are, which row has which, and how a file keeps them with their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from online_laplace.data.checks import Floats, Integers
from online_laplace.errors import InputError

# What a label may be, by numpy's letter for its kind; a file brings the type back from these words.
_KINDS = "Ubiuf"
# Labels that are numbers come back from a file in the type they had.
NUMBERS = tuple(np.dtype(code).name for code in "bhilBHILefd")


def checked_labels(y: ArrayLike) -> Any:
    """Labels in which none is missing and all are of one type; other checks are scikit-learn's.

    An array without a type of its own, such as that of a frame, gets one. Raises InputError.
    """
    # A list of words and numbers would become one of words, and 1 and "1" the same.
    loose = isinstance(y, (list, tuple)) or getattr(y, "dtype", None) not in _plain_types(y)
    if y is None or not loose:
        return y
    try:
        labels = np.asarray(y, dtype=object)
    except Exception:  # rows of several lengths, or a type that numpy has not: others have words for them
        return y
    column = labels.ndim == 2 and labels.shape[1] == 1
    if (labels.ndim != 1 and not column) or len(labels) == 0:
        return y
    labels = labels.reshape(-1)
    missing = [i for i, one in enumerate(labels) if _is_missing(one)]
    if missing:
        more = f" (and {len(missing) - 1} more like it)" if len(missing) > 1 else ""
        raise InputError(
            f"Input y contains NaN or None: the label of row {missing[0] + 1}, counting from 1{more}; "
            "remove such rows first"
        )
    kinds = {_kind(one): one for one in labels}
    if len(kinds) > 1:
        (one, a), (two, b) = list(kinds.items())[:2]
        raise InputError(
            f"labels must be of one type, but {a!r} is {one} and {b!r} is {two}: make all of them strings, "
            "or all of them numbers"
        )
    (kind,) = kinds
    if kind == "complex":
        return y  # scikit-learn has words for it
    if kind not in ("a string", "a number", "a boolean"):
        raise InputError(f"labels must be strings, numbers or booleans, not {next(iter(kinds.values()))!r}")
    if kind == "a string":
        _refuse_trailing_nulls(labels)
    array = np.array(labels.tolist())
    whole = [int(one) for one in labels if isinstance(one, (int, np.integer))]
    if kind == "a number" and len(whole) == len(labels) and array.dtype.kind not in "iu":
        raise InputError(
            f"labels that are whole numbers must fit in 64 bits, and {max(whole, key=abs)} does not with the "
            "others: make all of them strings"
        )
    return y if column else array  # scikit-learn has a warning for columns


def encoded(y: Any, weight: Floats | None, known: Any = None) -> tuple[Any, Integers]:
    """The distinct labels of rows with a weight, or those `known`, and the place of every row's among them.

    Raises InputError for a continuous target, for one class alone, and for a label that is not known.
    """
    kind = type_of_target(y, input_name="y")
    if kind.startswith("continuous"):
        raise InputError(
            f"Unknown label type: {kind}. Classes are told by strings, booleans or whole numbers, but y has "
            f"values such as {y.ravel().tolist()[0]!r}: for a target of numbers there is "
            "OnlineLaplaceRegressor"
        )
    check_classification_targets(y)
    if y.dtype.kind not in _KINDS and y.dtype.kind != "O":
        raise InputError(f"labels must be strings, numbers or booleans, not of type {y.dtype}")
    counted = y if weight is None else y[weight > 0]
    classes = np.unique(counted) if known is None else known
    if len(classes) < 2:
        raise InputError(
            f"OnlineLaplaceClassifier needs rows of at least two classes, but y has one class only: "
            f"{classes.tolist()[0]!r}" + ("" if weight is None else " in the rows with a weight")
        )
    return classes, places(y, classes) if known is not None else np.searchsorted(classes, y).astype(np.int64)


def places(y: Any, classes: Any) -> Integers:
    """The place of every label among the classes. Raises InputError for one that is not there."""
    order = {label: i for i, label in enumerate(classes.tolist())}
    found = [order.get(label, -1) for label in np.asarray(y).tolist()]
    if -1 in found:
        new = np.asarray(y).tolist()[found.index(-1)]
        listed = ", ".join(repr(label) for label in classes.tolist()[:10])
        raise InputError(f"the class {new!r} is none of those that the model knows: {listed}")
    return np.array(found, dtype=np.int64)


def indicators(codes: Integers, count: int) -> Floats:
    """A one in the column of each row's class: (n, count)."""
    return np.eye(count)[codes]


def to_json(classes: Any) -> dict[str, Any]:
    """Labels and their type, as plain values."""
    words = {"O": "object", "U": "str", "b": "bool"}
    return {"type": words.get(classes.dtype.kind, classes.dtype.name), "labels": classes.tolist()}


def from_json(told: Mapping[str, Any]) -> Any:
    """The inverse of `to_json`."""
    kinds = {"object": object, "str": np.str_}
    return np.array(told["labels"], dtype=kinds.get(told["type"], told["type"]))


def _plain_types(y: Any) -> tuple[Any, ...]:
    """The type of an array if its values cannot but be of one kind and there."""
    dtype = getattr(y, "dtype", None)
    return (dtype,) if isinstance(dtype, np.dtype) and dtype.kind in _KINDS else ()


def _refuse_trailing_nulls(labels: Any) -> None:
    """Refuse strings that an array of strings would hold without their end. Raises InputError."""
    for row, label in enumerate(labels, start=1):
        if label.endswith("\0"):
            raise InputError(
                f"the label {label!r} of row {row}, counting from 1, ends in a null character, which is lost "
                "in an array of strings: rename it"
            )


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, (float, np.floating)) and bool(np.isnan(label))


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "a string"
    if isinstance(label, (bool, np.bool_)):
        return "a boolean"
    if isinstance(label, (int, float, np.integer, np.floating)):
        return "a number"
    if isinstance(label, (complex, np.complexfloating)):
        return "complex"
    return f"of type {type(label).__name__}"
