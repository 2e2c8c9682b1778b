"""What the exact method holds in memory at a time, and the refusal of what would not fit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from online_laplace.errors import InputError

# Bytes on a CPU. A J larger than the first does not stay: its blocks are made anew whenever they are needed,
# which costs little beside the products they go into. Blocks of the second size stay near the processor, and
# the allocator hands their memory on from one to the next.
LARGEST_WHOLE = 2**29
BLOCK = 2**24

# Beside the network's own arrays there are the libraries and everything else on the machine.
SHARE_OF_MEMORY = 0.7

# What is held of J at a time: a step's and an observation's where it stays, else a block and what is made of
# it. Beside the three matrices H of a step, blocks and panels of it add up to one more.
JACOBIANS = 2
BLOCKS = 5
MATRICES = 4

# Where J is held by factors: those of two linearisations and what is made of them, the small kernels beside
# H, and for every weight snapshots, directions and moments.
FACTORS = 6
KERNELS = 3
PER_WEIGHT = 30

# Numbers held for every residual (outputs, residuals, scores) and for every input (copies of the table).
PER_RESIDUAL = 20
PER_INPUT = 6


@dataclass(frozen=True)
class Footprint:
    """What is held in memory while `members` networks are trained side by side.

    A row has so many `outputs`, each with a noise level and a matrix of its own, and so many `features`;
    `weights` of every network have a curvature, and `factors` numbers hold the Jacobian of a row, where it
    has factors.
    """

    outputs: int
    weights: int
    members: int = 1
    features: int = 0
    factors: int | None = None
    device: str = "cpu"

    def bytes(self, rows: int) -> int:
        """The peak of a training on so many rows."""
        residuals, weights, members = rows * self.outputs, self.weights, self.members
        smaller = min(residuals, weights)
        J = 8 * members * residuals * weights
        matrices = 8 * members * (MATRICES + self.outputs - 1) * smaller * smaller
        if self.factors is not None and residuals < weights:
            by_factors = 8 * members * FACTORS * rows * self.factors
            matrices += 8 * members * (KERNELS * smaller * smaller + PER_WEIGHT * weights)
            jacobians = min(JACOBIANS * J, by_factors)
        else:
            held = held_bytes(J, residuals, weights, torch.device(self.device))
            jacobians = (JACOBIANS if held == J else BLOCKS) * held
        numbers = members * PER_RESIDUAL * residuals + PER_INPUT * rows * self.features
        return jacobians + matrices + 8 * numbers

    def check(self, rows: int) -> None:
        """Refuse what does not fit in memory, saying how many rows would. Raises InputError."""
        available, needed = memory_of(self.device), size_in_words(self.bytes(rows))
        if self.bytes(rows) <= SHARE_OF_MEMORY * available:
            return
        # A larger J may need less memory, because it does not stay: what fits is looked for from above.
        below = _round_numbers_below(rows)
        fitting = next((n for n in below if self.bytes(n) <= SHARE_OF_MEMORY * available), 0)
        advice = f"use a random sample of at most {fitting:,} rows, " if fitting >= 2 else "use "
        usable = size_in_words(SHARE_OF_MEMORY * available)
        raise InputError(
            f"{rows:,} rows are too many for the exact method: {self.members} "
            f"network{'s' if self.members > 1 else ''} of {self.weights:,} weights would need about {needed} "
            f"of memory, and of the {size_in_words(available)} there are it may use {usable}. "
            f"{self._what_is_large(rows)}, so {advice}fewer columns, fewer hidden units or fewer members; "
            "data that must be taken whole need a method that works in mini-batches"
        )

    def _what_is_large(self, rows: int) -> str:
        """Why it is too much, in words."""
        residuals = rows * self.outputs
        if residuals < self.weights:
            return "Every row's gradient is held for every weight"
        if MATRICES * self.weights**2 > PER_RESIDUAL * residuals:
            return "A matrix of weights by weights is held for every network"
        return "The outputs of every network are held for every row"


def held_bytes(J_bytes: int, residuals: int, weights: int, device: torch.device) -> int:
    """How much of a J of this size is in memory at a time."""
    whole, block = limits(device)
    if J_bytes <= whole or residuals < weights:
        return J_bytes
    return max(block, J_bytes // residuals * fewest(weights))


def limits(device: torch.device) -> tuple[int, int]:
    """The largest J that stays in memory and the largest block; an accelerator pays for every block."""
    if device.type != "cuda":
        return LARGEST_WHOLE, BLOCK
    memory = torch.cuda.get_device_properties(device).total_memory
    return memory // 16, memory // 256


def fewest(weights: int) -> int:
    """As many residuals as products need to be fast; they take an eighth of the room of H at most."""
    return min(256, weights // 8)


def memory_of(device: str) -> int:
    """The bytes of memory that a torch device has; for the CPU, no more than the control group allows."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_properties(torch.device(device)).total_memory
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        allowed = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no control group, or one without a limit
        return physical
    return min(physical, allowed)


def check_fits(
    what: str, numbers: int, device: str | torch.device, instead: str = "ask for fewer at a time"
) -> None:
    """Refuse an answer of so many float64 numbers that does not fit in memory. Raises InputError."""
    available = memory_of(str(device))
    if 8 * numbers > SHARE_OF_MEMORY * available:
        raise InputError(
            f"{what} would need about {size_in_words(8 * numbers)} of memory, and there are "
            f"{size_in_words(available)}: {instead}"
        )


def _round_numbers_below(count: int) -> list[int]:
    """Whole numbers of two digits and zeros, the largest first: 990, 980, …, 100, 99, 98, …, 1."""
    found = [digits * 10**zeros for zeros in range(len(str(count))) for digits in range(10, 100)]
    return sorted((n for n in [*range(1, 10), *found] if n < count), reverse=True)


def size_in_words(count: float) -> str:
    """So many bytes, as a person says it: 3 MiB, 1.5 GiB, 20 GiB."""
    gib = count / 2**30
    if gib < 1:
        return f"{max(1, round(count / 2**20)):,} MiB"
    return f"{gib:,.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB"


def check_device(name: object) -> str:
    """The name of a torch device, if it can be used here. Raises InputError."""
    if not isinstance(name, (str, torch.device)):
        raise InputError(f"device must be the name of a torch device, such as 'cpu', not {name!r}")
    try:
        torch.device(name)
    except RuntimeError:
        # torch's own words are a list of twenty devices, most of which nobody has.
        raise InputError(
            f"device {str(name)!r} is not known: choose cpu, cuda, or cuda:1 for the second"
        ) from None
    try:
        torch.ones(1, device=name).item()  # "meta" makes tensors but holds no numbers
    except (RuntimeError, NotImplementedError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {str(name)!r} cannot be used here: {reason}") from error
    return str(name)
