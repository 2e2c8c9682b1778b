"""The settings of an estimator as a file has them, and the refusal of what could not be loaded again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.estimators.saving.arrays import check_arrays
from online_laplace.estimators.saving.document import check_document
from online_laplace.files.sealed import DamagedFileError

if TYPE_CHECKING:
    from online_laplace.estimators.base import OnlineLaplaceEstimator


def settings_in_words(estimator: OnlineLaplaceEstimator) -> dict[str, Any]:
    """All settings as JSON has them. Raises InputError for those with which the model could not be loaded.

    They may have been changed since `fit`, by `set_params`, to what `fit` would refuse.
    """
    try:
        estimator.check_settings()
    except InputError as error:
        raise InputError(
            f"the settings were changed since fit, and with them the model could not be loaded again: {error}"
        ) from error
    settings = estimator.get_params()
    if not isinstance(settings["random_state"], Integral):
        settings["random_state"] = None  # a generator's state is not a setting
    return {name: plain(value) for name, value in settings.items()}


def settings_from_words(told: Mapping[str, Any], device: str | None) -> dict[str, Any]:
    """The inverse, on another device if one is named."""
    hidden = told["hidden"]
    settings = {**told, "hidden": tuple(hidden) if isinstance(hidden, list) else hidden}
    return settings if device is None else settings | {"device": device}


def plain(value: Any) -> Any:
    """What `fit` takes beside plain numbers, texts and lists, as JSON has it."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (int, float)):
        return value
    return float(value) if isinstance(value, Real) else value  # such as a fraction


def check_loads_again(document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> None:
    """Refuse what `load` would refuse, while the model that it would replace is still there.

    Raises InputError.
    """
    try:
        words = json.dumps(document, ensure_ascii=False)
        words.encode()
        told = {**json.loads(words), "arrays_sha256": "0" * 64}  # which is known once they are written
        check_document(told)
        check_arrays(told, arrays)
    except UnicodeEncodeError as error:
        broken = error.object[error.start : error.end]
        raise InputError(
            f"a name or a label holds {broken!r}, which no file in UTF-8 can hold: rename it"
        ) from error
    except (TypeError, DamagedFileError) as error:
        raise InputError(f"the model is not saved, since it could not be loaded again: {error}") from error
