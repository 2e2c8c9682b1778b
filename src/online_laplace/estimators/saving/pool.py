"""A pool in a saved model: its candidates and weights as words and numbers, its networks as arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from online_laplace.curvature import STRUCTURES, exact
from online_laplace.data.scaling import Scaler
from online_laplace.ensemble.architecture import Architecture
from online_laplace.errors import InputError, known_name
from online_laplace.estimators.fitted.at_once import FittedAtOnce
from online_laplace.estimators.fitted.networks import FittedNetworks
from online_laplace.estimators.fitted.pool import FittedPool, Part
from online_laplace.estimators.pooling import PoolFit
from online_laplace.likelihood import KINDS, Likelihood
from online_laplace.pool.at_once import Learner, Predictor
from online_laplace.pool.boosting import Boosting
from online_laplace.pool.candidates import AnyCandidate, Candidate
from online_laplace.pool.discriminant import Discriminant
from online_laplace.pool.forest import Forest
from online_laplace.pool.gaussian_process import GaussianProcess
from online_laplace.pool.gaussian_process_of_classes import ClassProcess
from online_laplace.pool.refit import with_all_rows
from online_laplace.pool.views import VIEWS
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows


def pool_in_words(fit: PoolFit) -> dict[str, Any]:
    """What the document says of a pool."""
    return {
        "narrowing": fit.networks.narrowing,
        "noise_variance": fit.networks.noise.tolist(),
        "parts": [
            {
                **_candidate_in_words(part.candidate),
                "noise": part.candidate.noise,
                "steps": part.length,
                "weight": part.weight,
                "mean_weight": part.mean_weight,
                "refit": part.refit,
                "likelihood": likelihood_in_words(part.networks.likelihood),
            }
            for part in fit.networks.parts
        ],
        "leaderboard": fit.leaderboard,
    }


def _candidate_in_words(candidate: AnyCandidate) -> dict[str, Any]:
    if isinstance(candidate, Learner):
        return candidate.in_words()
    architecture = candidate.architecture
    return {
        "hidden": list(architecture.hidden),
        "activation": architecture.activation,
        "prior": architecture.prior,
        "view": candidate.view,
        "curvature": candidate.curvature,
    }


def pool_arrays(fit: PoolFit) -> dict[str, Tensor]:
    """What all parts learnt."""
    found = {}
    for place, part in enumerate(fit.networks.parts):
        of = part.networks
        learnt = of.snapshots if isinstance(of, FittedNetworks) else of.predictor.learnt
        for name, values in learnt._asdict().items():
            found[f"part{place}.{name}"] = values
    return found


def pool_of(
    told: Mapping[str, Any], arrays: Mapping[str, Tensor], rows: Rows, inputs: Scaler, target: Scaler
) -> tuple[FittedPool, list[dict[str, Any]]]:
    """The inverse of the two."""
    parts = []
    for place, one in enumerate(told["parts"]):
        seen = with_all_rows(rows) if one.get("refit") else rows
        likelihood, candidate = likelihood_from_words(one["likelihood"]), _candidate_of(one)
        kind: Any = Snapshots if isinstance(candidate, Candidate) else candidate.learnt
        learnt = kind(*(arrays[f"part{place}.{name}"] for name in kind._fields))
        fitted: FittedNetworks | FittedAtOnce
        if isinstance(candidate, Candidate):
            view = VIEWS[candidate.view](rows.X)
            columns = view(rows.X[:1]).shape[-1]
            structure = STRUCTURES[candidate.curvature]
            model = candidate.architecture.model(columns, likelihood, rows.X, structure)
            snapshots = learnt._replace(w=learnt.w.to(rows.X.dtype))  # once they were of single precision
            fitted = FittedNetworks(model, snapshots, seen, inputs, target, view)
        else:
            fitted = FittedAtOnce(Predictor(learnt, likelihood), seen, inputs, target)
        # Folders written before anything was trained twice do not say so.
        shares = one["weight"], one["mean_weight"], one.get("refit", False)
        parts.append(Part(candidate, one["steps"], fitted, *shares))
    noise = rows.y.new_tensor(told["noise_variance"])
    return FittedPool(tuple(parts), told["narrowing"], noise, rows, inputs), list(told["leaderboard"])


def _candidate_of(one: Mapping[str, Any]) -> AnyCandidate:
    if "trees" in one:
        return Forest(one["noise"], one["trees"])
    if "stages" in one:
        return Boosting(one["noise"], one["stages"])
    if "densities" in one:
        return Discriminant(one["noise"])
    if "centres" in one:
        return GaussianProcess(one["noise"], one["centres"])
    if "class_centres" in one:
        return ClassProcess(one["noise"], one["class_centres"])
    architecture = Architecture(tuple(one["hidden"]), one["activation"], one["prior"])
    # Folders written before there was another kind of curvature do not name it.
    return Candidate(architecture, one["noise"], one["view"], one.get("curvature", exact.name))


def likelihood_in_words(likelihood: Any) -> dict[str, Any]:
    """Its kind and its settings."""
    return {"kind": type(likelihood).__name__, **asdict(likelihood)}


def likelihood_from_words(told: Mapping[str, Any]) -> Likelihood:
    """The inverse. Raises InputError for a kind that is not known, or a setting that is not of its type."""
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    kind = known_name("likelihood in the model", settings.pop("kind"), KINDS)
    KINDS[kind](**settings)  # it has words of its own for what it refuses
    try:
        likelihood: Likelihood = TypeAdapter(KINDS[kind]).validate_json(json.dumps(settings), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"the model is damaged: likelihood.{place}: {first['msg']}") from error
    return likelihood
