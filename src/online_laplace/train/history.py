"""What a person looks at while a run goes on and after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.curvature import precision
from online_laplace.evidence import elbo, laplace_evidence, posterior_mode
from online_laplace.hyper.mackay import at_weights, log_change, mackay_update, statistics
from online_laplace.model.network import Network
from online_laplace.model.tangent import linearise
from online_laplace.posterior.metrics import Scores, score
from online_laplace.posterior.predictive import Posterior, Units
from online_laplace.types import Hyper, Problem


@dataclass(frozen=True)
class Evaluation:
    """Where scores are taken: training rows, test rows (if any), and the units to take them in."""

    train: Problem
    test: Problem | None
    units: Units


class Certificate(NamedTuple):
    """Four numbers that vanish together at a fixed point of OL and LM, and nowhere else. Each is (…).

    `‖w − v*‖ / ‖v*‖`; ‖∇ℓ_f‖ relative to its two terms; the largest |Δ log α| or |Δ log β| that one more
    MacKay update would make; and L_h − L_f, in nats.
    """

    distance: Tensor
    gradient: Tensor
    hyper_change: Tensor
    gap: Tensor

    def below(self, tolerance: float) -> Tensor:
        """Whether all four are below `tolerance`: (…) of bool."""
        return torch.stack(self).abs().amax(0) < tolerance


class Info(NamedTuple):
    """One look at a run. Every tensor has the replicas' shape (…); α, β and γ one axis more."""

    alpha: Tensor
    beta: Tensor
    gamma: Tensor
    laplace_evidence: Tensor
    tangent_evidence: Tensor
    distance: Tensor
    gradient_norm: Tensor
    certificate: Certificate
    train: Scores
    test: Scores | None


def observe(network: Network, w: Tensor, hyper: Hyper, where: Evaluation) -> Info:
    """Everything of interest at weights w and hyperparameters M, from one fresh linearisation."""
    tangent = linearise(network, w, where.train)
    H = precision(tangent.J, hyper)
    posterior = Posterior(network, w, hyper, H)
    v_star = posterior_mode(tangent, hyper, H)
    seen = statistics(hyper, H, at_weights(tangent, hyper, H))
    gradient = tangent.gradient(hyper)
    decay = hyper.weight_precision * w
    distance = (w - v_star).norm(dim=-1)
    below, above = laplace_evidence(tangent, hyper, H), elbo(tangent, hyper, H, v_star)
    del tangent  # scores need no J but that of a few rows at a time

    def scores(problem: Problem) -> Scores:
        predictive = posterior.predict(problem.X).to_units(where.units)
        return score(predictive, where.units.mean + where.units.std * problem.y)

    return Info(
        alpha=hyper.alpha,
        beta=hyper.beta,
        gamma=seen.gamma,
        laplace_evidence=below,
        tangent_evidence=above,
        distance=distance,
        gradient_norm=gradient.norm(dim=-1),
        certificate=Certificate(
            distance=distance / v_star.norm(dim=-1),
            gradient=gradient.norm(dim=-1) / (decay.norm(dim=-1) + (decay - gradient).norm(dim=-1)),
            hyper_change=log_change(hyper, mackay_update(hyper, seen)),
            gap=above - below,
        ),
        train=scores(where.train),
        test=None if where.test is None else scores(where.test),
    )


@dataclass
class History:
    """The looks taken, in order of their steps."""

    steps: list[int] = field(default_factory=list)
    infos: list[Info] = field(default_factory=list)

    def append(self, step: int, info: Info) -> None:
        """Keep one look."""
        self.steps.append(step)
        self.infos.append(info)

    def trace(self, read: Callable[[Info], Tensor]) -> Tensor:
        """One quantity through time: (T, …). `history.trace(lambda info: info.test.rmse)`."""
        return torch.stack([read(info) for info in self.infos])
