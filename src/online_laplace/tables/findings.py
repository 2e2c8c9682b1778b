"""What a fitted model has learnt and how well it does, as plain values: for the terminal, JSON and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from online_laplace.data.checks import no_counts
from online_laplace.errors import InputError
from online_laplace.estimators.labels import places
from online_laplace.model.prior import pruned_precision
from online_laplace.predictive.coverage import LEVELS
from online_laplace.predictive.reliability import reliability
from online_laplace.tables.columns import check_present
from online_laplace.tables.model import TableModel

if TYPE_CHECKING:
    import pandas as pd

    from online_laplace.tables.model import Rows


def learnt(model: TableModel) -> dict[str, Any]:
    """The settings and the fitted quantities of a model."""
    estimator = model.estimator
    networks = estimator._fit.networks
    relevance = getattr(estimator, "relevance_", None)
    return {
        "target": model.columns.target,
        "rows": networks.rows.n,
        "features": model.columns.names,
        "numeric_columns": list(model.columns.numeric),
        "text_columns": list(model.columns.text),
        "missing": model.columns.missing,
        "hidden": list(networks.network.hidden),
        "activation": networks.network.activation,
        "procedure": estimator._of_network("procedure"),
        "prior": estimator._fit.fixed["prior"],
        "members": estimator._fit.fixed["members"],
        "weights": networks.network.d_w,
        **(_of_numbers(estimator) if model.columns.labels is None else _of_classes(model)),
        "effective_parameters": estimator.gamma_,
        "log_evidence": estimator.log_evidence_,
        "steps": estimator.n_iter_,
        "outcome": estimator.outcome_,
        "pruned": pruned_groups(model),
        "notes": list(model.columns.remarks),
        "relevance": None if relevance is None else _by_size(model.columns.names, relevance),
        "leaderboard": getattr(estimator, "leaderboard_", None),
    }


def pruned_groups(model: TableModel) -> list[str]:
    """The groups of weights that no member has any use for, inputs by the name of their feature."""
    groups = model.estimator.groups_
    alpha = np.atleast_1d(model.estimator.alpha_)
    infinite = pruned_precision(torch.float64)
    inputs = {f"input {i}": name for i, name in enumerate(model.columns.names)}
    pairs = zip(groups, alpha, strict=True)
    # The members' variances were averaged, which rounds.
    return [inputs.get(group, group) for group, one in pairs if one > 0.99 * infinite]


def _of_numbers(regressor: Any) -> dict[str, Any]:
    networks = regressor._fit.networks
    # Not the scale of training: counts are not standardised, and gross errors do not stretch that of a t.
    target_std = float(networks.target.inverse(networks.rows.y.cpu().numpy())[:, 0].std())
    return {
        "noise_std": float(regressor.noise_std_),
        "resolution": float(regressor.resolution_),
        "target_std": target_std,
    }


def _of_classes(model: TableModel) -> dict[str, Any]:
    classifier = model.estimator
    return {
        "classes": model.columns.written(classifier.classes_),
        "predictive": classifier.predictive_,
        "temperature": classifier.temperature_,
    }


def assessed(model: TableModel, rows: Rows, where: str) -> dict[str, Any]:
    """How well the model predicts rows X, y; `where` says which rows these are."""
    X, y = rows
    if model.columns.labels is not None:
        return {"where": where, "rows": len(y), **_class_scores(model.estimator, X, y)}
    predicted = model.estimator.predict_dist(X)
    error = y - model.estimator.predict(X)
    spread = float(np.var(y))
    return {
        "where": where,
        "rows": len(y),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "r2": 1 - float(np.mean(error**2)) / spread if spread > 0 else None,
        "log_likelihood": float(predicted.logpdf(y).mean()),
        "coverage": {
            f"{level:g}": float(share) for level, share in zip(LEVELS, predicted.coverages(y), strict=True)
        },
    }


def _class_scores(classifier: Any, X: Any, y: Any) -> dict[str, float]:
    found = places(y, classifier.classes_)
    p = classifier.predict_proba(X)
    return {
        "accuracy": float(np.mean(p.argmax(axis=1) == found)),
        "log_loss": -float(classifier.score_log_likelihood(X, y)),
        "ece": reliability(p, found).error,
    }


def assessment(model: TableModel, frame: pd.DataFrame) -> tuple[dict[str, Any] | None, InputError | None]:
    """How well the model predicts a table that may hold the target, or what kept it from being assessed."""
    target = model.columns.target
    if target not in frame.columns or frame[target].isna().all():
        return None, None
    try:
        return assessed(model, *rows_to_assess(model, frame)), None
    except InputError as error:
        return None, error


def rows_to_assess(model: TableModel, frame: pd.DataFrame | None) -> tuple[Rows, str]:
    """The user's rows if there are any, else those held out, else those of training; and words for them."""
    if frame is not None:
        return _rows_of(model, frame), "rows of the given file"
    if model.held_out is not None:
        return model.held_out, "held-out rows"
    import pandas as pd

    networks = model.estimator._fit.networks
    X = networks.inputs.inverse(networks.rows.X.cpu().numpy())
    y = networks.target.inverse(networks.rows.y.cpu().numpy())
    y = y[:, 0] if model.columns.labels is None else model.estimator.classes_[y.argmax(axis=1)]
    return (pd.DataFrame(X, columns=model.columns.names), y), "training rows, which flatter the model"


def _rows_of(model: TableModel, frame: pd.DataFrame) -> Rows:
    target = model.columns.target
    try:
        check_present(frame, [target])
    except InputError as error:
        raise InputError(f"{error}: it is the target, which a model is assessed on") from error
    X, y = model.columns.features(frame), model.columns.targets(frame)
    if getattr(model.estimator, "likelihood", None) == "poisson":
        bad = np.flatnonzero(no_counts(y))
        if len(bad):
            raise InputError(
                f"column {target!r}, row {bad[0] + 1}: {float(y[bad[0]])!r} is no count 0, 1, 2, …, "
                "and the model is one of counts"
            )
    return X, y


def _by_size(names: list[str], relevance: Any) -> dict[str, float]:
    return {names[i]: float(relevance[i]) for i in np.argsort(relevance)[::-1]}
