"""Observations of a run: everything of interest at one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from online_laplace.evidence import laplace_evidence
from online_laplace.hyper.mackay import at_weights, statistics
from online_laplace.model.model import Model
from online_laplace.model.precision import GGN, Precision
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel
from online_laplace.train.certificate import Certificate, certify
from online_laplace.types import Rows


class Scored(NamedTuple):
    """Scores, themselves NamedTuples of tensors (…), on training and test rows, where they were taken."""

    train: Any = None
    test: Any = None


# How well the posterior N(w, H⁻¹) predicts.
Score = Callable[[Tensor, Hyper, Precision], Scored]


class Info(NamedTuple):
    """One observation of a run. Every tensor has the replicas' shape (…); α, β and γ one axis more."""

    alpha: Tensor
    beta: Tensor
    gamma: Tensor
    laplace_evidence: Tensor
    tangent_evidence: Tensor
    distance: Tensor
    gradient_norm: Tensor
    certificate: Certificate
    train: Any
    test: Any


class Linearised(NamedTuple):
    """A tangent model with the first stage of its curvature."""

    tangent: TangentModel
    ggn: GGN


def observe(
    model: Model,
    w: Tensor,
    hyper: Hyper,
    rows: Rows,
    score: Score | None = None,
    there: Linearised | None = None,
) -> Info:
    """Everything of interest at weights w and hyperparameters M, from one linearisation, `there` or fresh.

    L_h is L_f + ½ ∇ℓ_fᵀ H⁻¹ ∇ℓ_f, and v* the end of the step −H⁻¹ ∇ℓ_f: with a curvature that is not the
    whole of H, what that curvature makes of them.
    """
    if there is None:
        tangent = model.linearise(w, rows)
        H = model.precision(tangent, hyper)
    else:
        tangent, H = there.tangent, there.ggn.at(hyper)
    step = H.newton_step(tangent, hyper)
    below = laplace_evidence(tangent, hyper, H)
    seen = statistics(tangent, hyper, H, at_weights(tangent, hyper, H))
    certificate = certify(tangent, hyper, H, seen, step)
    gradient_norm = tangent.gradient(hyper).norm(dim=-1)
    del tangent, there  # scores need no J but that of a few rows at a time
    scored = Scored() if score is None else score(w, hyper, H)
    return Info(
        alpha=hyper.alpha,
        beta=hyper.beta,
        gamma=seen.gamma,
        laplace_evidence=below,
        tangent_evidence=below + certificate.gap,
        distance=step.norm(dim=-1),
        gradient_norm=gradient_norm,
        certificate=certificate,
        train=scored.train,
        test=scored.test,
    )
