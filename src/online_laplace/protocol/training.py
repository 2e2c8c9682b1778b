"""What `train` can be asked for: a procedure of the paper, or the network of 50 units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from online_laplace import defaults
from online_laplace.errors import InputError, SettingError, known_name
from online_laplace.protocol.specification import Specification
from online_laplace.train.online import MEANS
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
    "observations": 10,
}


# Settings that mean nothing where the hyperparameters do not move with the weights.
ONLINE_ONLY = ("optimiser", "keep")


@dataclass(frozen=True)
class Training:
    """A procedure under a protocol, and the name its results go by."""

    label: str
    procedure: str
    specification: Specification


def trainings(choices: Sequence[str], given: Mapping[str, Any]) -> list[Training]:
    """What each of `choices` means. A choice made twice, or a setting without a use, is refused."""
    if len(set(choices)) < len(choices):
        # Its results would count as those of further splits.
        raise InputError(f"name each procedure only once; got {', '.join(choices)}")
    ways = [training(choice, given) for choice in choices]
    for name in ONLINE_ONLY:
        if name in given and not any(way.procedure in MEANS for way in ways):
            raise SettingError(name, f"is for ol, lm and default, and {', '.join(choices)} has no use for it")
    return ways


def training(choice: str, given: Mapping[str, Any]) -> Training:
    """What `choice` means; `given` holds the settings the caller chose, which come first."""
    known_name("procedure", choice, CHOICES)
    if choice == "default":
        return Training(choice, defaults.PROCEDURE, Specification(**{**DEFAULTS, **given}))
    return Training(choice, choice, Specification(**given))
