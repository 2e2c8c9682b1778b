"""A fitted model as a folder of two files, `model.json` and `model.safetensors`, that hold no code.

The scaled training rows are kept and not the factors of the curvature. The rows are smaller by orders of
magnitude (a factor has a row per weight, for every network), and from the same rows the same factors
follow, so that a loaded model predicts the very same numbers. It also means that a model can be trained
further, and that its folder is as confidential as the data it was fitted to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from online_laplace._version import __version__
from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Scaler
from online_laplace.ensemble.architecture import Architecture
from online_laplace.errors import known_name
from online_laplace.estimators.fitted.networks import FittedNetworks
from online_laplace.estimators.gradients import with_gradients
from online_laplace.estimators.pooling import PoolFit
from online_laplace.estimators.saving.folder import (
    FORMAT,
    VERSION,
    read_document,
    read_model_arrays,
    whole_model,
    write_model,
)
from online_laplace.estimators.saving.pool import (
    likelihood_from_words,
    likelihood_in_words,
    pool_arrays,
    pool_in_words,
    pool_of,
)
from online_laplace.estimators.saving.settings import (
    check_loads_again,
    plain,
    settings_from_words,
    settings_in_words,
)
from online_laplace.estimators.training import Fit, FitSummary
from online_laplace.files.locks import locked
from online_laplace.train.outcome import Outcome
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows

if TYPE_CHECKING:
    from online_laplace.estimators.base import OnlineLaplaceEstimator


def save(
    estimator: OnlineLaplaceEstimator,
    path: str | os.PathLike[str],
    *,
    table: Mapping[str, Any] | None = None,
    held_out: tuple[Floats, Floats] | None = None,
) -> None:
    """Write a fitted estimator into the folder `path`, whole or not at all.

    `table` says how the columns of a user's file become features, for a model fitted by the command;
    `held_out` are rows X, y that it was not fitted to. An earlier model in the folder is replaced.

    Raises:
        InputError: what would be written could not be loaded again, the folder holds anything but a model,
            somebody else does not let go of it, or the disk refuses.
    """
    check_is_fitted(estimator)
    fit = estimator._fit
    arrays = _shared_arrays(fit) | (pool_arrays(fit) if isinstance(fit, PoolFit) else _arrays(fit))
    if held_out is not None:
        arrays |= {
            f"held_out.{name}": torch.from_numpy(v.copy()) for name, v in zip("Xy", held_out, strict=True)
        }
    document = _document(estimator)
    # A model that was loaded and trained further is still one of its table.
    table = table if table is not None else getattr(estimator, "_table", None)
    if table is not None:
        document["table"] = dict(table)
    check_loads_again(document, arrays)
    write_model(Path(path), document, arrays)


def load(path: str | os.PathLike[str], device: str | None = None) -> Any:
    """The regressor or classifier that `save` wrote into the folder `path`; it predicts the same numbers.

    `device` is where it shall live, by default where it was fitted. With `warm_start=True` it can be trained
    further: `load(path).set_params(warm_start=True).fit(X, y)`.

    Examples:
        >>> import tempfile, numpy as np
        >>> from online_laplace import OnlineLaplaceRegressor, load
        >>> X = np.linspace(-1, 1, 20)[:, None]
        >>> model = OnlineLaplaceRegressor(hidden=4, members=2, max_steps=10, random_state=0).fit(X, X[:, 0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model")
        ...     again = load(f"{folder}/model")
        >>> bool((again.predict(X) == model.predict(X)).all())
        True

    Raises:
        InputError: there is no model, it is damaged, of another kind, or of a newer version.
    """
    with locked(Path(path), shared=True), with_gradients():
        return _loaded(Path(path), device)


def _loaded(folder: Path, device: str | None) -> Any:
    """The same from a folder that is held, whose document and arrays are then of one model."""
    from online_laplace.estimators.classifier import OnlineLaplaceClassifier
    from online_laplace.estimators.regressor import OnlineLaplaceRegressor

    known = {kind.__name__: kind for kind in (OnlineLaplaceRegressor, OnlineLaplaceClassifier)}
    document = read_document(folder)
    estimator = known[known_name("estimator in the model", document["estimator"], known)]
    with whole_model(folder):
        model = estimator(**settings_from_words(document["settings"], device))
        model.check_settings()
        arrays = {name: v.clone().to(model.device) for name, v in read_model_arrays(folder, document).items()}
        scalers = {name: _scaler(name, arrays) for name in ("inputs", "target")}
        rows = Rows(arrays["problem.X"], arrays["problem.y"], arrays.get("problem.weight"))
        if "pool" in document:
            networks, leaderboard = pool_of(
                document["pool"], arrays, rows, scalers["inputs"], scalers["target"]
            )
            fit = PoolFit(networks, _summary(document, arrays), leaderboard, {})
            model._restore(fit, document)
        else:
            model._restore(_fit(document, arrays, rows, scalers), document)
        model.n_features_in_ = model._fit.networks.network.d_in
        if "table" in document:
            model._table = document["table"]
        if document["features"] is not None:
            model.feature_names_in_ = np.array(document["features"], dtype=object)
    return model


def read_held_out(folder: Path) -> tuple[Floats, Floats] | None:
    """The rows X, y that a saved model was not fitted to, if it has any. Raises InputError."""
    with locked(folder, shared=True):
        arrays = read_model_arrays(folder, read_document(folder))
    if "held_out.X" not in arrays:
        return None
    return arrays["held_out.X"].numpy(), arrays["held_out.y"].numpy()


def _document(estimator: OnlineLaplaceEstimator) -> dict[str, Any]:
    fit = estimator._fit
    names = getattr(estimator, "feature_names_in_", None)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "package_version": __version__,
        "estimator": type(estimator).__name__,
        "settings": settings_in_words(estimator),
        "architecture": plain(fit.fixed),
        "likelihood": likelihood_in_words(fit.networks.model.likelihood),
        **estimator._extras(),
        "features": None if names is None else [str(name) for name in names],
        "rows": fit.networks.rows.n,
        "weights": fit.networks.network.d_w,
        "summary": {
            "gamma": fit.summary.gamma,
            "log_evidence": fit.summary.log_evidence,
            "steps": fit.summary.steps,
            "outcomes": [asdict(outcome) for outcome in fit.summary.outcomes],
        },
    }
    return document | ({"pool": pool_in_words(fit)} if isinstance(fit, PoolFit) else {})


def _shared_arrays(fit: Fit | PoolFit) -> dict[str, Tensor]:
    """The scaled rows, their scaling, and the precisions that the summary tells."""
    networks = fit.networks
    scaling = {
        f"{name}.{part}": torch.from_numpy(np.asarray(getattr(scaler, part)))
        for name, scaler in (("inputs", networks.inputs), ("target", networks.target))
        for part in ("mean", "std")
    }
    rows = {"problem.X": networks.rows.X, "problem.y": networks.rows.y}
    if networks.rows.weight is not None:
        rows["problem.weight"] = networks.rows.weight
    return scaling | rows | {"summary.alpha": torch.from_numpy(fit.summary.alpha)}


def _arrays(fit: Fit) -> dict[str, Tensor]:
    snapshots = {f"components.{name}": v for name, v in fit.networks.snapshots._asdict().items()}
    return snapshots | {_in_file(name): v for name, v in fit.state.items()}


def _fit(
    document: Mapping[str, Any], arrays: Mapping[str, Tensor], rows: Rows, scalers: Mapping[str, Scaler]
) -> Fit:
    """The inverse of `_document` and `_arrays`."""
    fixed = document["architecture"] | {"hidden": tuple(document["architecture"]["hidden"])}
    architecture = Architecture(fixed["hidden"], fixed["activation"], fixed["prior"])
    # The first version of the format had none but Gaussian noise, a β a target.
    told = document.get("likelihood", {"kind": "Gaussian", "targets": rows.targets, "scales": rows.targets})
    model = architecture.model(rows.X.shape[-1], likelihood_from_words(told), rows.X)
    snapshots = Snapshots(*(arrays[f"components.{name}"] for name in Snapshots._fields))
    state = {_in_memory(n): v.cpu() for n, v in arrays.items() if n.startswith(("state.", "history."))}
    return Fit(
        fixed,
        FittedNetworks(model, snapshots, rows, scalers["inputs"], scalers["target"]),
        _summary(document, arrays),
        {n.removeprefix("history."): v.numpy() for n, v in state.items() if n.startswith("history.")},
        state,
    )


def _summary(document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> FitSummary:
    summary = document["summary"]
    outcomes = tuple(Outcome(**outcome) for outcome in summary["outcomes"])
    alpha = arrays["summary.alpha"].cpu().numpy()
    return FitSummary(alpha, summary["gamma"], summary["log_evidence"], summary["steps"], outcomes)


def _scaler(name: str, arrays: Mapping[str, Tensor]) -> Scaler:
    return Scaler(*(arrays[f"{name}.{part}"].cpu().numpy() for part in ("mean", "std")))


def _in_file(name: str) -> str:
    """The name of an array of the state as the format has it, which calls snapshots a trail."""
    return name.replace("state.snapshots.", "state.trail.")


def _in_memory(name: str) -> str:
    """The inverse of `_in_file`."""
    return name.replace("state.trail.", "state.snapshots.")
