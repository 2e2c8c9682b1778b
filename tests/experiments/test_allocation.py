"""Memory that is freed and needed again stays with the process, where the C library can be asked."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from online_laplace.experiments import allocation

_AGAIN_AND_AGAIN = """
import resource
import torch
from online_laplace.experiments.allocation import keep_freed_memory

keep_freed_memory()
for step in range(100):
    if step == 80:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(10_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc can be asked")
def test_a_large_array_is_soon_no_longer_new_at_every_step() -> None:
    script = [sys.executable, "-c", _AGAIN_AND_AGAIN]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    # else 20 times the 9766 pages of 40 MB
    assert int(done.stdout) < 9766


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def refuse(name: object) -> None:
        raise error

    monkeypatch.setattr(allocation.ctypes, "CDLL", refuse)
    allocation.keep_freed_memory()
