"""Memory that is freed in one step and needed again in the next."""

from __future__ import annotations

import ctypes

# Of glibc's malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Have the C library keep what this process frees from now on, instead of giving it back to the system.

    An array of more than 32 MiB, such as the Jacobians of a few replicas, is otherwise new at every step, and
    the system clears it page by page: a quarter of the time of a step. For a process that trains and then
    ends; only glibc can be asked.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, -1)
