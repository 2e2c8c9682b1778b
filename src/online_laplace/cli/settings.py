"""The estimator that the options of `fit` ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from online_laplace.errors import InputError


def told(options: Mapping[str, Any]) -> list[str]:
    """The names of those options that the call has."""
    return [name for name, value in options.items() if value is not None]


def check_time_limit(network: Mapping[str, Any], time_limit: float | None) -> None:
    """Refuse a limit of time for a network that is named. Raises InputError."""
    named = [f"--{name}" for name in told(network)]
    if named and time_limit is not None:
        verb = "names" if len(named) == 1 else "name"
        raise InputError(
            f"--time-limit is for a preset, which chooses the networks, and {', '.join(named)} {verb} one: "
            f"leave out {' and '.join(named)}, or give --steps instead of --time-limit"
        )


def estimator_of(
    task: str, shared: Mapping[str, Any], of_numbers: Mapping[str, Any], of_classes: Mapping[str, Any]
) -> Any:
    """The estimator of a task, its settings checked. Raises InputError."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.estimators import OnlineLaplaceClassifier, OnlineLaplaceRegressor
    from online_laplace.likelihood import KINDS

    classes = task == "classification"
    other, own = (of_numbers, dict(of_classes)) if classes else (of_classes, dict(of_numbers))
    if wrong := told(other):
        raise InputError(f"--{wrong[0]} is not for {'classes' if classes else 'numbers'}: leave it out")
    if task == "counts":
        if own["likelihood"] not in (None, "poisson"):
            raise InputError(f"--task counts has the likelihood poisson, not {own['likelihood']}")
        if "Poisson" not in KINDS:
            raise InputError("--task counts needs the Poisson likelihood, which this version does not have")
        own["likelihood"] = "poisson"
    kind = OnlineLaplaceClassifier if classes else OnlineLaplaceRegressor
    estimator = kind(**shared, **{name: own[name] for name in told(own)})
    estimator.check_settings()
    return estimator
