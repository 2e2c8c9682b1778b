"""Small problems for the tests: drawn by hypothesis, simulated, or cut from a table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from online_laplace.curvature import dual, exact, layered, primal, spectral
from online_laplace.curvature.layer_kernels import separable
from online_laplace.data import Scaler, load_table, paper_splits
from online_laplace.data.scaling import Affine
from online_laplace.likelihood import Gaussian, Likelihood
from online_laplace.model.jacobian import written_out
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.network import Network
from online_laplace.model.precision import Precision, Structure
from online_laplace.model.prior import Hyper, network_prior
from online_laplace.model.tangent import TangentModel
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.observe import Score, Scored
from online_laplace.types import Rows

ACTIVATION_NAMES = ("tanh", "relu", "gelu", "silu")

LIKE = torch.empty(0, dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A model, its weights, some data and hyperparameters; leading axes are replicas."""

    model: Model
    rows: Rows
    w: Tensor
    hyper: Hyper

    @property
    def network(self) -> Network:
        return self.model.network

    @property
    def tangent(self) -> TangentModel:
        return self.model.linearise(self.w, self.rows)

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The exact curvatures that can hold these hyperparameters."""
        by_layers = (layered,) if separable(self.tangent.J, self.hyper.prior) else ()
        return (primal, dual, *by_layers, *((spectral,) if self.hyper.scalar else ()))

    def precisions(self) -> dict[str, Precision]:
        return {each.name: each(self.tangent, self.hyper.prior).at(self.hyper) for each in self.structures}

    def to(self, dtype: torch.dtype) -> Case:
        prior = self.hyper.prior
        prior = replace(prior, sizes=prior.sizes.to(dtype), membership=prior.membership.to(dtype))
        return Case(
            replace(self.model, prior=prior),
            Rows(self.rows.X.to(dtype), self.rows.y.to(dtype)),
            self.w.to(dtype),
            Hyper(self.hyper.alpha.to(dtype), self.hyper.beta.to(dtype), prior),
        )


def make_model(
    network: Network,
    prior: str | list[str] = "scalar",
    *,
    per_output: bool = False,
    curvature: Structure = exact,
    likelihood: Likelihood | None = None,
    like: Tensor = LIKE,
) -> Model:
    """A model with Gaussian noise, of one β or one per output, unless another likelihood is given."""
    k = network.d_out
    noise = Gaussian(targets=k, scales=k if per_output else 1)
    return Model(network, likelihood or noise, network_prior(network, prior, like), curvature)


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
    per_output: bool = False,
    curvature: Structure = exact,
    log_range: float = 1.0,
    seed: int = 0,
) -> Case:
    """Random data and weights; each α and β its own number within e^±log_range."""
    X = normal(*replicas, n, network.d_in, seed=seed)
    y = normal(*replicas, n, network.d_out, seed=seed + 1)
    w = normal(*replicas, network.d_w, seed=seed + 2)
    model = make_model(network, prior, per_output=per_output, curvature=curvature)
    start = model.initial_hyper(w)
    alpha = (log_range * torch.tanh(normal(*start.alpha.shape, seed=seed + 3))).exp()
    beta = (log_range * torch.tanh(normal(*start.beta.shape, seed=seed + 4))).exp()
    return Case(model, Rows(X, y), w, start.with_values(alpha, beta))


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
        per_output=not scalar and draw(st.booleans()),
        log_range=draw(st.sampled_from([0.0, 1.0, 2.0])),
        seed=seed,
    )


def wave(n: int = 40, *, replicas: tuple[int, ...] = (), noise: float = 0.1, seed: int = 0) -> Rows:
    """A smooth, noisy function of two inputs: something a small network can learn."""
    X = normal(*replicas, n, 2, seed=seed)
    clean = torch.sin(2 * X[..., :1]) + 0.5 * X[..., 1:]
    return Rows(X, clean + noise * normal(*replicas, n, 1, seed=seed + 1))


def ridges(n: int = 50, *, outputs: int = 1, replicas: tuple[int, ...] = (), seed: int = 0) -> Rows:
    """Two noisy ridges off the origin: two hidden units fit them, and every weight is well determined."""
    X = normal(*replicas, n, 2, seed=seed) + 0.5
    first = 2 * torch.tanh(1.5 * X[..., :1] - X[..., 1:] - 0.7) + 1
    second = torch.tanh(X[..., :1] + 1.2 * X[..., 1:] + 0.5) - 1.5
    clean = torch.cat([first + second, first - second], dim=-1)[..., :outputs]
    scale = torch.tensor([0.1, 0.3], dtype=torch.float64)[:outputs]
    return Rows(X, clean + scale * normal(*replicas, n, outputs, seed=seed + 1))


@dataclass(frozen=True)
class Splits:
    """Splits of a table, scaled by their training rows, one replica each, and the units of the target."""

    train: Rows
    test: Rows
    units: Affine[Tensor]


def yacht(splits: int, dtype: torch.dtype = torch.float64) -> Splits:
    """The first splits of the yacht table."""
    return table_splits("yacht", splits, dtype)


def table_splits(name: str, splits: int, dtype: torch.dtype = torch.float64) -> Splits:
    """The first splits of a table."""
    table = load_table(name)
    y = table.y[:, None]
    drawn = paper_splits(len(y), splits)
    inputs, targets = ([Scaler.fit(a[split.train]) for split in drawn] for a in (table.X, y))

    def rows(which: str) -> Rows:
        parts = list(zip(inputs, targets, [getattr(split, which) for split in drawn], strict=True))
        X = np.stack([scaler.transform(table.X[chosen]) for scaler, _, chosen in parts])
        scaled = np.stack([scaler.transform(y[chosen]) for _, scaler, chosen in parts])
        return Rows(torch.from_numpy(X).to(dtype), torch.from_numpy(scaled).to(dtype))

    units = [scaler.tensors(torch.empty(0, dtype=dtype)) for scaler in targets]
    mean, std = (torch.stack([getattr(each, part) for each in units]) for part in ("mean", "std"))
    return Splits(rows("train"), rows("test"), Affine(mean, std))


def replica(rows: Rows, position: int) -> Rows:
    """One replica's rows."""
    return Rows(rows.X[position], rows.y[position])


def unit_scale(outputs: int = 1) -> Affine[Tensor]:
    """Units that change nothing."""
    one = torch.ones(1, outputs, dtype=torch.float64)
    return Affine(0 * one, one)


def scoring(model: Model, train: Rows, test: Rows | None, units: Affine[Tensor]) -> Score:
    """The scores of the posterior on training and test rows, in the units of the target."""

    def score(w: Tensor, hyper: Hyper, H: Precision) -> Scored:
        posterior = Posterior(model, w, hyper, H)

        def of(rows: Rows):
            return posterior.predict(rows.X).to_units(units).score(units.inverse(rows.y))

        return Scored(of(train), None if test is None else of(test))

    return score


def linearised(network: Network, w: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """f (…, n, k) and all of J (…, n, k, d_w)."""
    f, J = network.linearise(w, X)
    return f, written_out(J)
