"""Small problems for the tests: drawn by hypothesis, simulated, or cut from a table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from online_laplace.curvature import Precision, curvature
from online_laplace.data import load_table
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.model.tangent import TangentModel, linearise
from online_laplace.protocol.batch import batch
from online_laplace.protocol.specification import Specification
from online_laplace.train.history import Evaluation
from online_laplace.types import Hyper, Problem

ACTIVATION_NAMES = ("tanh", "relu", "gelu", "silu")


@dataclass(frozen=True)
class Case:
    """A network, its weights, some data and hyperparameters; leading axes are replicas."""

    network: MLP
    problem: Problem
    w: Tensor
    hyper: Hyper

    @property
    def tangent(self) -> TangentModel:
        return linearise(self.network, self.w, self.problem)

    @property
    def forms(self) -> tuple[str, ...]:
        """The exact curvatures that can hold these hyperparameters."""
        return ("primal", "dual", "spectral") if self.hyper.scalar else ("primal", "dual")

    def precisions(self) -> dict[str, Precision]:
        return {form: curvature(self.tangent.J, self.hyper, form).at(self.hyper) for form in self.forms}

    def to(self, dtype: torch.dtype) -> Case:
        prior = self.hyper.prior
        prior = replace(prior, sizes=prior.sizes.to(dtype), membership=prior.membership.to(dtype))
        return Case(
            self.network,
            Problem(self.problem.X.to(dtype), self.problem.y.to(dtype)),
            self.w.to(dtype),
            Hyper(self.hyper.alpha.to(dtype), self.hyper.beta.to(dtype), prior),
        )


def normal(*shape: int, seed: int) -> Tensor:
    """Standard normal float64 numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make_case(
    network: MLP,
    n: int,
    *,
    replicas: tuple[int, ...] = (),
    prior: str | list[str] = "scalar",
    beta_per_output: bool = False,
    log_range: float = 1.0,
    seed: int = 0,
) -> Case:
    """Random data and weights; each α and β its own number within e^±log_range."""
    X = normal(*replicas, n, network.d_in, seed=seed)
    y = normal(*replicas, n, network.d_out, seed=seed + 1)
    w = normal(*replicas, network.d_w, seed=seed + 2)
    start = initial_hyper(network, w, prior=prior, beta_per_output=beta_per_output)
    alpha = (log_range * torch.tanh(normal(*start.alpha.shape, seed=seed + 3))).exp()
    beta = (log_range * torch.tanh(normal(*start.beta.shape, seed=seed + 4))).exp()
    return Case(network, Problem(X, y), w, start.with_values(alpha, beta))


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    priors: tuple[str, ...] = ("scalar", "layerwise", "ard", "given"),
    scalar: bool = False,
) -> Case:
    """Any network, prior, noise and replicas, with fewer or more rows than weights."""
    network = MLP(
        d_in=draw(st.integers(1, 3)),
        hidden=draw(st.sampled_from([(), (2,), (3,), (2, 2)])),
        d_out=draw(st.integers(1, 3)),
        activation=draw(st.sampled_from(ACTIVATION_NAMES)),
        bias=draw(st.booleans()),
    )
    prior: str | list[str] = "scalar" if scalar else draw(st.sampled_from(priors))
    seed = draw(st.integers(0, 2**20))
    if prior == "given":
        generator = torch.Generator().manual_seed(seed)
        prior = [f"group {i}" for i in torch.randint(3, (network.d_w,), generator=generator).tolist()]
    return make_case(
        network,
        draw(st.integers(1, 15)),
        replicas=draw(st.sampled_from([(), (1,), (3,), (2, 2)])),
        prior=prior,
        beta_per_output=not scalar and draw(st.booleans()),
        log_range=draw(st.sampled_from([0.0, 1.0, 2.0])),
        seed=seed,
    )


def wave(n: int = 40, *, replicas: tuple[int, ...] = (), noise: float = 0.1, seed: int = 0) -> Problem:
    """A smooth, noisy function of two inputs: something a small network can learn."""
    X = normal(*replicas, n, 2, seed=seed)
    clean = torch.sin(2 * X[..., :1]) + 0.5 * X[..., 1:]
    return Problem(X, clean + noise * normal(*replicas, n, 1, seed=seed + 1))


def ridges(n: int = 50, *, outputs: int = 1, replicas: tuple[int, ...] = (), seed: int = 0) -> Problem:
    """Two noisy ridges off the origin: two hidden units fit them, and every weight is well determined."""
    X = normal(*replicas, n, 2, seed=seed) + 0.5
    first = 2 * torch.tanh(1.5 * X[..., :1] - X[..., 1:] - 0.7) + 1
    second = torch.tanh(X[..., :1] + 1.2 * X[..., 1:] + 0.5) - 1.5
    clean = torch.cat([first + second, first - second], dim=-1)[..., :outputs]
    scale = torch.tensor([0.1, 0.3], dtype=torch.float64)[:outputs]
    return Problem(X, clean + scale * normal(*replicas, n, outputs, seed=seed + 1))


def yacht(splits: int, dtype: str = "float64") -> Evaluation:
    """The first splits of the yacht table, scaled, one replica each."""
    return batch(load_table("yacht"), Specification(dtype=dtype), list(range(splits))).evaluation


def replica(problem: Problem, position: int) -> Problem:
    """One replica's rows."""
    return Problem(problem.X[position], problem.y[position])
