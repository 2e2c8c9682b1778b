"""Roughly how long training takes: for the queue, for the time left, and to tell what is worth dividing."""

from __future__ import annotations

from online_laplace.data import Table
from online_laplace.protocol.runner import network_of
from online_laplace.protocol.specification import Specification

# Measured on one core of an AMD EPYC with AVX-512, float64: multiply-adds a second inside a step, and the
# seconds a step takes beside them, however many replicas it has. Only their order of magnitude matters.
RATE = 3e10
OVERHEAD = 6e-4


def training_seconds(table: Table, procedure: str, splits: int, spec: Specification) -> float:
    """The time that this many splits of a table take at most as one program on one thread."""
    steps = spec.steps_for(table.name, procedure)
    if procedure == "retrain":
        steps *= spec.retrain_rounds
    return steps * (OVERHEAD + splits * split_seconds(table, procedure, spec))


def split_seconds(table: Table, procedure: str, spec: Specification) -> float:
    """The time that the arithmetic of one split takes in one step, its members together."""
    rows, weights = len(table.y), network_of(table, spec).d_w
    small, large = min(rows, weights), max(rows, weights)
    if procedure in ("offline", "retrain"):  # a gradient: neither a Gram matrix nor a factorisation
        work = 30.0 * rows * weights
    else:
        work = small**2 * large + small**3
    return spec.members * work / RATE
