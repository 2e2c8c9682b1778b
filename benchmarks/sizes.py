"""The problems that steps are timed on: the five tables, and larger ones made up."""

from __future__ import annotations

from typing import NamedTuple

import torch

from online_laplace.curvature import exact
from online_laplace.data import TABLES, load_table
from online_laplace.likelihood import Gaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.protocol.runner import prepare
from online_laplace.protocol.specification import DTYPES, Specification
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS, Online
from online_laplace.types import Rows

UNITS = 50
STEPS = ("OL, Adam", "LM, Adam", "OL, Gauss-Newton")


class Size(NamedTuple):
    """A name, a model, and training rows X (r, n, d_x), y (r, n, 1) with a replica axis as `train` has."""

    name: str
    model: Model
    rows: Rows


def procedure_of(step: str, model: Model) -> Online | GaussNewton:
    """What takes a step of one of `STEPS`."""
    procedure, optimiser = step.lower().split(", ")
    return (Online if optimiser == "adam" else GaussNewton)(model, MEANS[procedure])


def of_table(name: str, dtype: str) -> Size:
    """The training rows of a table's first split."""
    model, data = prepare(load_table(name), "ol", [0], Specification(hidden=(UNITS,), dtype=dtype))
    return Size(name, model, data.train)


def made_up(rows: int, inputs: int, dtype: str = "float64", units: int = UNITS, replicas: int = 1) -> Size:
    """A noisy wave in as many inputs as asked for."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(replicas, rows, inputs, generator=generator, dtype=torch.float64)
    noise = torch.randn(replicas, rows, 1, generator=generator, dtype=torch.float64)
    y = torch.sin(X.sum(-1, keepdim=True) / inputs**0.5) + 0.1 * noise
    data = Rows(X.to(DTYPES[dtype]), y.to(DTYPES[dtype]))
    network = MLP(inputs, (units,))
    return Size(f"{rows}x{network.d_w}", Model.of(network, Gaussian(), "scalar", exact, data.X), data)


# Rows and inputs: a weight matrix of 50 units and their biases make 50 (inputs + 2) + 1 weights.
LARGER = ((5000, 8), (1000, 38), (3000, 28))


def suite(dtype: str) -> list[Size]:
    """Every size of `make bench`."""
    return [of_table(name, dtype) for name in TABLES] + [made_up(*shape, dtype) for shape in LARGER]
