"""The problems that steps are timed on: the five tables, and larger ones made up."""

from __future__ import annotations

from typing import NamedTuple

import torch

from online_laplace.data import TABLES, load_table
from online_laplace.model.mlp import MLP
from online_laplace.protocol.batch import batch
from online_laplace.protocol.specification import DTYPES, Specification
from online_laplace.types import Problem

UNITS = 50


class Size(NamedTuple):
    """A name, a network, and training rows X (r, n, d_x), y (r, n, 1) with a replica axis as `train` has."""

    name: str
    network: MLP
    problem: Problem


def of_table(name: str, dtype: str) -> Size:
    """The training rows of a table's first split."""
    table = load_table(name)
    data = batch(table, Specification(dtype=dtype), [0])
    return Size(name, MLP(table.X.shape[1], (UNITS,)), data.problem)


def made_up(rows: int, inputs: int, dtype: str = "float64", units: int = UNITS, replicas: int = 1) -> Size:
    """A noisy wave in as many inputs as asked for."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(replicas, rows, inputs, generator=generator, dtype=torch.float64)
    noise = torch.randn(replicas, rows, 1, generator=generator, dtype=torch.float64)
    y = torch.sin(X.sum(-1, keepdim=True) / inputs**0.5) + 0.1 * noise
    problem = Problem(X.to(DTYPES[dtype]), y.to(DTYPES[dtype]))
    network = MLP(inputs, (units,))
    return Size(f"{rows}x{network.d_w}", network, problem)


# Rows and inputs: a weight matrix of 50 units and their biases make 50 (inputs + 2) + 1 weights.
LARGER = ((5000, 8), (1000, 38), (3000, 28))


def suite(dtype: str) -> list[Size]:
    """Every size of `make bench`."""
    return [of_table(name, dtype) for name in TABLES] + [made_up(*shape, dtype) for shape in LARGER]
