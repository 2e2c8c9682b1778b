"""What `train` can be asked for: a procedure of the paper, or the package's default configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from online_laplace import defaults
from online_laplace.errors import known_name
from online_laplace.experiments.specification import Specification
from online_laplace.train.procedures import PROCEDURES

CHOICES = (*PROCEDURES, "default")

DEFAULTS: dict[str, Any] = {
    "hidden": defaults.HIDDEN,
    "activation": defaults.ACTIVATION,
    "prior": defaults.PRIOR,
    "optimiser": defaults.OPTIMISER,
    "keep": defaults.KEEP,
    "members": defaults.MEMBERS,
    "steps": defaults.STEPS,
    "looks": 10,
}


@dataclass(frozen=True)
class Training:
    """A procedure under a protocol, and the name its results go by."""

    label: str
    procedure: str
    specification: Specification


def training(choice: str, given: Mapping[str, Any]) -> Training:
    """What `choice` means; `given` holds the settings the caller chose, which come first."""
    known_name("procedure", choice, CHOICES)
    if choice == "default":
        return Training(choice, defaults.PROCEDURE, Specification(**{**DEFAULTS, **given}))
    return Training(choice, choice, Specification(**given))
