"""What the exact method costs in memory, and the refusal of what would not fit, before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from online_laplace.errors import InputError

# Beside the network's own arrays there are the data, the libraries and everything else on the machine.
SHARE_OF_MEMORY = 0.7


def needed_bytes(residuals: int, weights: int, members: int) -> int:
    """The peak of training: three Jacobians and six square matrices of the smaller side, a member each."""
    smaller = min(residuals, weights)
    return 8 * members * (3 * residuals * weights + 6 * smaller * smaller)


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


def check_size(rows: int, outputs: int, weights: int, members: int, device: str = "cpu") -> None:
    """Refuse what does not fit in memory, saying how many rows would. Raises InputError."""
    available = memory_of(device)
    needed = needed_bytes(rows * outputs, weights, members)
    if needed <= SHARE_OF_MEMORY * available:
        return
    fitting = _most_rows(outputs, weights, members, SHARE_OF_MEMORY * available)
    advice = f"use a random sample of at most {fitting:,} rows, " if fitting >= 2 else "use "
    raise InputError(
        f"{rows:,} rows are too many for the exact method: {members} network{'s' if members > 1 else ''} of "
        f"{weights:,} weights would need about {_gib(needed)} of memory, and there are {_gib(available)}. "
        f"Every row's gradient is held for every weight, so {advice}fewer columns, fewer hidden units or "
        "fewer members; data that must be taken whole need a method that works in mini-batches"
    )


def _most_rows(outputs: int, weights: int, members: int, limit: float) -> int:
    """The largest number of rows that fits, to two digits."""
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        if needed_bytes(middle * outputs, weights, members) <= limit:
            low = middle
        else:
            high = middle
    digits = max(len(str(low)) - 2, 0)
    return low // 10**digits * 10**digits


def _gib(count: float) -> str:
    gib = count / 2**30
    return f"{gib:,.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB"
