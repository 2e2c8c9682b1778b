"""Student's t noise, whose scale and degrees of freedom are outputs of the network too: for gross errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.likelihood.base import Local, WithoutScale, standard_normal
from online_laplace.likelihood.floor import (
    Floor,
    check_floor,
    expected_variance,
    floor_like,
    learnt_share,
    log_variance,
    log_variance_change,
)
from online_laplace.predictive import freedom
from online_laplace.predictive.series import log_excess
from online_laplace.predictive.student import StudentPredictive


@dataclass(frozen=True)
class StudentT(WithoutScale):
    """y = μ + σ T, T of Student's t with ν degrees of freedom; outputs f = (μ, s, t), all means first.

    σ² = floor + e^s and ν = 4 + 4 e^t; s and t are best constants of the network. So ν > 4, where variance
    and kurtosis are finite, and t = 0 is ν = 8. A gross error has little pull at any ν. Were ν free to fall
    to 1, good rows that are hard to fit would be taken for errors too, and would never be fitted.

    With r = (y − μ)/σ, u = 1/ν, q = u r² and C of `freedom.log_constant`,
    −log p = C(ν) + ½ log π + ½ log σ² + ½ (ν + 1) log(1 + q).
    The Hessian is not positive at a gross error. For μ its place takes λ/σ² with λ = (1 + u)/(1 + q), the
    weight of a row in EM, where a t is a Gaussian whose precision is Gamma distributed. The parabola in μ of
    that curvature touches −log p and is nowhere below it, and a row that is far off neither pulls nor holds
    back. (Fisher's (ν + 1)/((ν + 3) σ²), the same for all rows, holds back those that are to be fitted yet.)
    For (s, t) it is Fisher's information (Lange, Little and Taylor, 1989), at floor 0
    [ν/(2(ν + 3)), −ν'/((ν + 1)(ν + 3)); ·, ν'² I_νν] with ν' = dν/dt = ν − 4. In its Cholesky factor stands
    ν'² (I_νν − 2/(ν (ν + 1)² (ν + 3))) = (u (1 − 4u))² D with D of `freedom.curvature`.
    A factor u (1 − 4u) is common to all that t does, and leaves z: it is a number for every t.
    """

    targets: int = 1
    floor: Floor = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no floor."""
        check_floor(self.floor, self.targets)

    @property
    def outputs(self) -> int:
        return 3 * self.targets

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(name for name in ("", "scale", "freedom") for _ in range(self.targets))

    @property
    def constants(self) -> int:
        return 2 * self.targets

    def local(self, f: Tensor, y: Tensor) -> Local:
        """Gradient by gradient, over its own part of the root; see the class."""
        r, s, t = self._standardised(f, y)
        u, rest = _inverse_freedom(t)  # 1/ν and 1 − 4/ν
        square = r.square()
        q = u * square
        D = freedom.curvature(u).sqrt()
        weight = ((1 + u) / (1 + q)).sqrt()
        of_mean = r * weight
        of_s = (square - 1) / (1 + q) * ((1 + 3 * u) / 2).sqrt()
        slope = 0.5 * (freedom.slope(u) + square / (1 + q) - square.square() * log_excess(q))
        shared = -math.sqrt(2) / ((1 + u) * (1 + 3 * u).sqrt())  # what t has in common with s
        z = torch.cat([of_mean, of_s, (slope - shared * of_s) / D], dim=-1)
        log_sigma2 = log_variance(s, self.floor)
        diagonal = [
            weight * (-0.5 * log_sigma2).exp(),
            learnt_share(s, self.floor) / (2 * (1 + 3 * u)).sqrt(),
            u * rest * D,
        ]
        root = torch.diag_embed(torch.cat(diagonal, dim=-1))
        k = self.targets
        root[..., 2 * k :, k : 2 * k] = torch.diag_embed(u * rest * shared)
        # ½ (ν + 1) log(1 + q) = ½ (1 + u) r² log(1 + q)/q, which has a value at ν = ∞
        ratio = torch.where(q > 0, torch.log1p(q) / torch.where(q > 0, q, 1), 1)
        loss = freedom.log_constant(u) + 0.5 * (math.log(math.pi) + log_sigma2 + (1 + u) * square * ratio)
        return Local(z, root, loss.sum(-1))

    def fall(self, f: Tensor, f_new: Tensor, y: Tensor) -> Tensor:
        """Term by term: of C, of log σ², and of ½ (ν + 1) log(1 + q) with q' − q from the steps alone."""
        r, s, t = self._standardised(f, y)
        r_new, s_new, t_new = self._standardised(f_new, y)
        steps = (f_new - f).split(self.targets, dim=-1)
        widening = log_variance_change(s, steps[1], self.floor)
        step_r = r * (-0.5 * widening).expm1() - steps[0] * (-0.5 * log_variance(s_new, self.floor)).exp()
        (u, rest), (u_new, _) = _inverse_freedom(t), _inverse_freedom(t_new)
        relative = rest * steps[2].expm1()  # (ν' − ν)/ν
        q, q_new = u * r.square(), u_new * r_new.square()
        step_q = u_new * step_r * (r + r_new) - q * relative / (1 + relative)
        log_change = torch.log1p(step_q / (1 + q))
        of_power = -0.5 * ((1 + 1 / u) * log_change + relative / u * torch.log1p(q_new))
        return freedom.constant_fall(u, relative) - 0.5 * widening + of_power

    @property
    def mean_is_output(self) -> bool:
        return True

    @property
    def recordable(self) -> bool:  # SciPy has the cumulative distribution, and the CPU alone
        return False

    def sample(self, f: Tensor, beta: Tensor, generator: torch.Generator) -> Tensor:
        """A Gaussian over the root of a mean of squares, χ²/ν."""
        mean, s, t = f.split(self.targets, dim=-1)
        half = 0.5 / _inverse_freedom(t)[0]
        squares = torch._standard_gamma(half, generator=generator) / half
        sigma = (floor_like(s, self.floor) + s.exp()).sqrt()
        return mean + sigma * standard_normal(mean, generator) * squares.rsqrt()

    def predict(self, f: Tensor, covariance: Tensor, beta: Tensor) -> StudentPredictive:
        """Location μ with the variance that the weights leave it, σ² as expected, e^(s + ½ var s) at floor 0.

        ν is that of the mean of t.
        """
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        mean, s, t = f.split(self.targets, dim=-1)
        of_mean, of_s, _ = variance.split(self.targets, dim=-1)
        u, _ = _inverse_freedom(t)
        return StudentPredictive(mean, of_mean, expected_variance(s, of_s, self.floor), 1 / u)

    def _standardised(self, f: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """r = (y − μ)/σ, s and t, each (…, n, targets)."""
        mean, s, t = f.split(self.targets, dim=-1)
        return (y - mean) * (-0.5 * log_variance(s, self.floor)).exp(), s, t


def _inverse_freedom(t: Tensor) -> tuple[Tensor, Tensor]:
    """1/ν and 1 − 4/ν for ν = 4 + 4 e^t."""
    return 0.25 * torch.sigmoid(-t), torch.sigmoid(t)
