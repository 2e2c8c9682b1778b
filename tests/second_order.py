"""An independent account of any likelihood: densities of torch.distributions, derivatives of torch.func.

One replica at a time, dense matrices, no whitening.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch import distributions as dist
from torch.func import jacrev, vmap

from online_laplace.likelihood import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Poisson,
    StudentT,
    VaryingGaussian,
)
from online_laplace.model.mlp import MLP
from online_laplace.model.precision import Structure
from online_laplace.types import Rows
from problems import Case, make_model, normal, replica

OfTarget = Callable[[Tensor, Tensor], Tensor]

LIKELIHOODS: dict[str, Likelihood] = {
    "Gaussian": Gaussian(),
    "Gaussian of two outputs": Gaussian(2, 1),
    "Gaussian with a β per output": Gaussian(2, 2),
    "varying Gaussian": VaryingGaussian(),
    "varying Gaussian of two targets": VaryingGaussian(2),
    "varying Gaussian over a floor": VaryingGaussian(floor=0.3),
    "varying Gaussian over a floor for each target": VaryingGaussian(2, floor=(0.0, 0.3)),
    "Student's t": StudentT(),
    "Student's t of two targets over a floor": StudentT(2, floor=0.2),
    "Student's t over a floor for each target": StudentT(2, floor=(0.2, 0.0)),
    "counts": Poisson(),
    "counts of two kinds": Poisson(2),
    "counts about their own means": Poisson(2, rates=(3.0, 0.2)),
    "one logit": Bernoulli(),
    "two classes": Categorical(2),
    "three classes": Categorical(3),
}


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def targets_for(likelihood: Likelihood, *shape: int, seed: int) -> Tensor:
    """Targets (…, n, targets) that a likelihood can have made."""
    if isinstance(likelihood, Poisson):
        return torch.poisson((normal(*shape, likelihood.targets, seed=seed) + 0.5).exp(), _seeded(seed))
    if isinstance(likelihood, Bernoulli):
        return (normal(*shape, 1, seed=seed) > 0).to(torch.float64)
    if isinstance(likelihood, Categorical):
        generator = torch.Generator().manual_seed(seed)
        return torch.eye(likelihood.classes, dtype=torch.float64)[
            torch.randint(likelihood.classes, shape, generator=generator)
        ]
    return normal(*shape, likelihood.targets, seed=seed)


def likelihood_case(
    likelihood: Likelihood,
    n: int,
    curvature: Structure,
    *,
    prior: str = "scalar",
    replicas: tuple[int, ...] = (),
    hidden: tuple[int, ...] = (3,),
    seed: int = 0,
) -> Case:
    """A small network under a likelihood, at random weights, α and β."""
    network = MLP(2, hidden, likelihood.outputs)
    model = make_model(network, prior, likelihood=likelihood, curvature=curvature)
    rows = Rows(normal(*replicas, n, 2, seed=seed), targets_for(likelihood, *replicas, n, seed=seed + 1))
    w = normal(*replicas, network.d_w, seed=seed + 2)
    start = model.initial_hyper(w)
    alpha = normal(*start.alpha.shape, seed=seed + 3).tanh().exp()
    beta = normal(*start.beta.shape, seed=seed + 4).tanh().exp() if likelihood.scales else start.beta
    return Case(model, rows, w, start.with_values(alpha, beta))


def log_density(likelihood: Likelihood, f: Tensor, y: Tensor, beta: Tensor) -> Tensor:
    """log p(y | f) with every constant, summed over rows."""
    if isinstance(likelihood, Gaussian):
        return dist.Normal(f, beta.rsqrt(), validate_args=False).log_prob(y).sum()
    if isinstance(likelihood, VaryingGaussian):
        mean, s = f[..., : likelihood.targets], f[..., likelihood.targets :]
        sigma = (torch.tensor(likelihood.floor, dtype=s.dtype) + s.exp()).sqrt()
        return dist.Normal(mean, sigma, validate_args=False).log_prob(y).sum()
    if isinstance(likelihood, StudentT):
        mean, s, t = f.split(likelihood.targets, dim=-1)
        sigma, nu = (torch.tensor(likelihood.floor, dtype=s.dtype) + s.exp()).sqrt(), 4 + 4 * t.exp()
        return dist.StudentT(nu, mean, sigma, validate_args=False).log_prob(y).sum()
    if isinstance(likelihood, Poisson):
        return (
            dist.Poisson(f.exp() * f.new_tensor(likelihood.rates or (1.0,)), validate_args=False)
            .log_prob(y)
            .sum()
        )
    if isinstance(likelihood, Bernoulli):
        return dist.Bernoulli(logits=f, validate_args=False).log_prob(y).sum()
    return dist.Categorical(logits=f, validate_args=False).log_prob(y.argmax(-1)).sum()


def curvature_in_outputs(likelihood: Likelihood, f: Tensor, y: Tensor, beta: Tensor) -> Tensor:
    """The Hessian of −log p in the outputs of each row; of varying noise its mean over y: (n, k, k).

    For the location of a t it is that of the parabola in μ with its top at y that touches −log p.
    """

    def score(outputs: Tensor, target: Tensor) -> Tensor:
        return jacrev(lambda g: log_density(likelihood, g, target, beta))(outputs)

    def second(outputs: Tensor, target: Tensor) -> Tensor:
        return -jacrev(lambda g: score(g, target))(outputs)

    if not isinstance(likelihood, VaryingGaussian | StudentT):
        return torch.stack([second(outputs, target) for outputs, target in zip(f, y, strict=True)])
    expected = torch.stack([expected_over_targets(likelihood, outputs, score, second) for outputs in f])
    if isinstance(likelihood, StudentT):
        k = likelihood.targets
        pull = torch.stack([score(outputs, target)[:k] for outputs, target in zip(f, y, strict=True)])
        expected[:, :k, :k] = torch.diag_embed(pull / (y - f[:, :k]))
    return expected


def expected_over_targets(
    likelihood: VaryingGaussian | StudentT, outputs: Tensor, score: OfTarget, second: OfTarget
) -> Tensor:
    """The mean of −∂² log p over the targets that the likelihood expects: (k, k)."""
    mean, s = outputs[: likelihood.targets], outputs[likelihood.targets : 2 * likelihood.targets]
    sigma = (torch.tensor(likelihood.floor, dtype=s.dtype) + s.exp()).sqrt()
    if isinstance(likelihood, VaryingGaussian):
        # Gauss-Hermite quadrature: the Hessian is a quadratic in each target, for which five points are
        # exact, the same for all targets: no term holds two of them.
        points, weights = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(5))
        parts = [p * second(outputs, mean + sigma * x) for x, p in zip(points, weights, strict=True)]
        return torch.stack(parts).sum(0) / weights.sum()
    # The sinh-sinh rule follows tails of any power. Fisher's information as the mean square of the score:
    # torch's second derivative of log Γ has nine digits.
    nu = 4 + 4 * outputs[2 * likelihood.targets :].exp()
    x = torch.linspace(-4, 4, 161, dtype=torch.float64)[:, None]
    inner = 0.5 * torch.pi * x.sinh()
    r, measure = inner.sinh(), inner.cosh() * x.cosh()
    weight = measure * dist.StudentT(nu, validate_args=False).log_prob(r).exp()
    weight = (weight / weight.sum(0)).repeat(1, 3)
    scores = vmap(score, in_dims=(None, 0))(outputs, mean + sigma * r)
    information = torch.einsum("pi,pj,pi->ij", scores, scores, weight)
    # two targets have nothing in common, but the same r was taken for both
    return information * torch.eye(likelihood.targets, dtype=torch.float64).repeat(3, 3)


@dataclass(frozen=True)
class SecondOrder:
    """One replica: weights, α by weight (d,), log p(y | f), its gradient and the GGN in the weights."""

    w: Tensor
    alpha: Tensor
    log_likelihood: Tensor
    data_gradient: Tensor
    ggn: Tensor

    @property
    def gradient(self) -> Tensor:
        """∇(−log p(y | f(w)) + ½ Σ α w²)."""
        return self.data_gradient + self.alpha * self.w

    @property
    def H(self) -> Tensor:
        return self.ggn + torch.diag(self.alpha)

    @property
    def v_star(self) -> Tensor:
        return self.w - torch.linalg.solve(self.H, self.gradient)

    @property
    def log_joint(self) -> Tensor:
        """log p(y | f) + log N(w; 0, A⁻¹)."""
        return self.log_likelihood + dist.Normal(0, self.alpha.rsqrt()).log_prob(self.w).sum()

    @property
    def laplace_evidence(self) -> Tensor:
        two_pi = torch.tensor(2 * torch.pi, dtype=torch.float64)
        return self.log_joint + 0.5 * len(self.w) * two_pi.log() - 0.5 * torch.logdet(self.H)

    @property
    def gamma(self) -> Tensor:
        """By weight: 1 − α (H⁻¹)_jj."""
        return 1 - self.alpha * torch.linalg.inv(self.H).diagonal()


def second_order(case: Case) -> list[SecondOrder]:
    """One account per replica of a case with no or one axis of replicas."""
    if case.w.ndim > 1:
        parts = [
            Case(
                case.model,
                replica(case.rows, r),
                case.w[r],
                case.hyper.with_values(case.hyper.alpha[r], case.hyper.beta[r]),
            )
            for r in range(len(case.w))
        ]
        return [each for part in parts for each in second_order(part)]
    likelihood, network, (X, y) = case.model.likelihood, case.network, (case.rows.X, case.rows.y)
    beta = case.hyper.beta

    def outputs(w: Tensor) -> Tensor:
        return network.forward(w, X)

    def minus_log(w: Tensor) -> Tensor:
        return -log_density(likelihood, outputs(w), y, beta)

    J, f = jacrev(outputs)(case.w), outputs(case.w)
    curvature = curvature_in_outputs(likelihood, f, y, beta)
    return [
        SecondOrder(
            case.w,
            case.hyper.prior.membership @ case.hyper.alpha,
            -minus_log(case.w),
            torch.func.grad(minus_log)(case.w),
            torch.einsum("nkd,nkl,nle->de", J, curvature, J),
        )
    ]


def stacked(values: list[Tensor], case: Case) -> Tensor:
    """One value per replica in the shape of the case's replicas."""
    return torch.stack(values).reshape((*case.w.shape[:-1], *values[0].shape))
