"""A pool in a saved model: its candidates and weights as words and numbers, its networks as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor

from online_laplace.data.scaling import Scaler
from online_laplace.ensemble.architecture import Architecture
from online_laplace.errors import known_name
from online_laplace.estimators.fitted import FittedNetworks
from online_laplace.estimators.pooled import FittedPool, Part
from online_laplace.estimators.pooling import PoolFit, unseen
from online_laplace.likelihood import KINDS, Likelihood
from online_laplace.pool.candidates import Candidate
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows


def pool_in_words(fit: PoolFit) -> dict[str, Any]:
    """What the document says of a pool."""
    return {
        "narrowing": fit.networks.narrowing,
        "noise_variance": fit.networks.noise.tolist(),
        "parts": [
            {
                "hidden": list(part.candidate.architecture.hidden),
                "activation": part.candidate.architecture.activation,
                "prior": part.candidate.architecture.prior,
                "noise": part.candidate.noise,
                "sees_inputs": part.candidate.sees_inputs,
                "steps": part.length,
                "weight": part.weight,
                "mean_weight": part.mean_weight,
                "likelihood": likelihood_in_words(part.networks.model.likelihood),
            }
            for part in fit.networks.parts
        ],
        "leaderboard": fit.leaderboard,
    }


def pool_arrays(fit: PoolFit) -> dict[str, Tensor]:
    """The networks of all parts; their weights are numbers of single precision."""
    found = {}
    for place, part in enumerate(fit.networks.parts):
        snapshots = part.networks.snapshots
        for name, values in snapshots._replace(w=snapshots.w.float())._asdict().items():
            found[f"part{place}.{name}"] = values
    return found


def pool_of(
    told: Mapping[str, Any], arrays: Mapping[str, Tensor], rows: Rows, inputs: Scaler, target: Scaler
) -> tuple[FittedPool, list[dict[str, Any]]]:
    """The inverse of the two."""
    parts = []
    for place, one in enumerate(told["parts"]):
        architecture = Architecture(tuple(one["hidden"]), one["activation"], one["prior"])
        candidate = Candidate(architecture, one["noise"], one["sees_inputs"])
        model = architecture.model(rows.X.shape[-1], likelihood_from_words(one["likelihood"]), rows.X)
        snapshots = Snapshots(*(arrays[f"part{place}.{name}"] for name in Snapshots._fields))
        snapshots = snapshots._replace(w=snapshots.w.to(rows.X.dtype))
        seen = (rows, inputs) if candidate.sees_inputs else unseen(rows, inputs)
        networks = FittedNetworks(model, snapshots, *seen, target)
        parts.append(Part(candidate, one["steps"], networks, one["weight"], one["mean_weight"]))
    noise = rows.y.new_tensor(told["noise_variance"])
    return FittedPool(tuple(parts), told["narrowing"], noise, rows, inputs), list(told["leaderboard"])


def likelihood_in_words(likelihood: Any) -> dict[str, Any]:
    """Its kind and its settings."""
    return {"kind": type(likelihood).__name__, **asdict(likelihood)}


def likelihood_from_words(told: Mapping[str, Any]) -> Likelihood:
    """The inverse. Raises InputError for a kind that is not known."""
    settings = dict(told)
    kind = known_name("likelihood in the model", settings.pop("kind"), KINDS)
    return KINDS[kind](**settings)
