"""How far a run is from a fixed point, in numbers that do not depend on the scale of weights or noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.hyper.mackay import Statistics, log_change, mackay_update
from online_laplace.model.precision import Precision
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel


class Certificate(NamedTuple):
    """Four numbers that vanish together at a fixed point of OL and LM, and nowhere else. Each is (…).

    ‖w − v*‖ / ‖v*‖; ‖∇ℓ_f‖ relative to its two terms; the largest |Δ log α| or |Δ log β| that one more MacKay
    update would make; and L_h − L_f = ½ ‖∇ℓ_f‖², in nats. Gradients are measured in the norm of H⁻¹. In the
    plain norm they cannot vanish: the last bit of a weight moves the gradient by ε times the largest
    eigenvalue of H, which a large β makes larger than any tolerance, while it moves the loss by nothing.
    """

    distance: Tensor
    gradient: Tensor
    hyper_change: Tensor
    gap: Tensor

    def below(self, tolerance: float) -> Tensor:
        """Whether all four are below `tolerance`: (…) of bool."""
        return torch.stack(self).abs().amax(0) < tolerance


def certify(
    tangent: TangentModel, hyper: Hyper, H: Precision, seen: Statistics, newton_step: Tensor
) -> Certificate:
    """The certificate at w, given −H⁻¹∇ℓ_f(w) (…, d_w), the step to v*."""
    # What is pruned is out of the problem, once its weights are zero.
    alive = torch.where(tangent.w == 0, hyper.alive, 1.0)
    gradient, newton_step = tangent.gradient(hyper) * alive, newton_step * alive
    decay = hyper.weight_precision * tangent.w
    to_prior = H.solve(decay)
    squared = -(gradient * newton_step).sum(-1)
    # The gradient is the prior's pull less the data's, and so are their solutions.
    of_prior = (decay * to_prior).sum(-1)
    of_data = ((decay - gradient) * (to_prior + newton_step)).sum(-1)
    terms = of_prior.abs().sqrt() + of_data.abs().sqrt()
    return Certificate(
        distance=_share(newton_step.norm(dim=-1), (tangent.w + newton_step).norm(dim=-1)),
        gradient=_share(squared.abs().sqrt(), terms),
        hyper_change=log_change(hyper, mackay_update(hyper, seen)),
        gap=0.5 * squared,
    )


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole, and nothing of nothing is nothing."""
    return torch.where(part == 0, part, part / whole)
