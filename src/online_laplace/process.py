"""What our own commands set for their whole process, and a library must not.

The commands, their worker processes and the benchmarks call `prepare`. Importing the package or fitting a
model changes nothing in the process; who trains much in a process of their own may call it, too.
"""

from __future__ import annotations

import ctypes
import io
import os
import sys
from functools import cache

# Blocks up to this size come from the heap, and the heap keeps this much for the next step. It is far less
# than that by which a worker of joblib may grow before joblib takes it for a leak and ends it.
LARGEST_BLOCK = 2**26
KEPT = 2**27

# From glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def prepare() -> None:
    """Keep freed memory for the next step, let streams on a CUDA device run side by side, print anywhere.

    To be called before CUDA starts. What the user has set in the environment stays.
    """
    # Streams that share a connection to the device wait for one another, and by default there are eight.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    keep_freed_blocks()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that has no ± or → shows another character for it. Data goes out as bytes.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@cache
def keep_freed_blocks() -> None:
    """Tell the C library, once, not to return freed blocks of a step to the system.

    By default it does, and every page of the next step's matrices is then a fault: a quarter of the time of a
    step. Larger blocks still go back. Does nothing where the C library is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    if not mallopt(_MMAP_THRESHOLD, LARGEST_BLOCK):
        mallopt(_MMAP_THRESHOLD, LARGEST_BLOCK // 2)  # older ones take no more
    mallopt(_TRIM_THRESHOLD, KEPT)
