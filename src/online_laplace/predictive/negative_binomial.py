"""The negative binomial distribution: a Poisson count whose rate is Gamma distributed.

By its mean m and the squared coefficient of variation v of the rate, whose shape is a = 1/v. v = 0 is
Poisson's own: no function here takes a difference that loses its digits as a grows.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor

from online_laplace.predictive.series import exp_excess

# Stirling's series of log x! in 1/x, by powers of 1/x²; from `LARGE` on it has all digits.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
LARGE = 16.0

# Below so little of v m, no number of the cdf differs from Poisson's: a count 40 standard deviations off is
# (40² m) ½ v times as likely as there.
POISSON = 1e-19
# Where shape and count are both above it, scipy's Beta function fails; a Gaussian is 10⁻⁸ off.
GAUSSIAN = 1e15


def log_probability(y: Tensor, log_mean: Tensor, v: Tensor) -> Tensor:
    """log P(Y = y), broadcast; −∞ where y is no count, NaN where it is no number.

    As Loader's (2000) of the binomial: with s(x) the remainder of Stirling's formula, d = (y − m)/(1 + v m)
    and φ(t) = t − log(1 + t), it is
    s(a + y) − s(a) − s(y) − a φ(v d) − y φ(−d/y) − ½ log(2π y (1 + v y)).
    """
    y, log_mean, v = torch.broadcast_tensors(y, log_mean, v)
    m = log_mean.exp()
    some = y.clamp(min=1)  # none is apart
    growth = torch.log1p(v * some) - torch.log1p(v * m)  # log of (1 + v y)/(1 + v m)
    apart = (some - m) / (1 + v * m)
    of_rate = _excess(v * apart, growth)
    of_count = _excess(-apart / some, log_mean - some.log() + growth)
    deviance = torch.where(v > 0, of_rate / v, 0) + some * of_count
    remainder = _remainder(1 / v + some) - _remainder(1 / v) - _remainder(some)
    log_p = remainder - deviance - 0.5 * (2 * math.pi * some * (1 + v * some)).log()
    x = v * m
    none = -m * torch.where(x > 0, torch.log1p(x) / x, 1)
    counted = (y >= 0) & (y == y.floor()) & y.isfinite()
    log_p = torch.where(counted, torch.where(y > 0, log_p, none), -torch.inf)
    return torch.where(y.isnan(), y, log_p)


def cdf(y: Tensor, mean: Tensor, v: Tensor) -> Tensor:
    """P(Y ≤ y), broadcast: the regularised incomplete Beta function I_p(a, ⌊y⌋ + 1) at p = 1/(1 + v m).

    torch has none: computed in float64 on the CPU.
    """
    each = torch.broadcast_tensors(y.floor() + 1, mean, v)
    n, m, v_ = (one.detach().cpu().double().numpy() for one in each)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        x, a = v_ * m, 1 / v_
        p, q = 1 / (1 + x), x / (1 + x)
        steps = (n - 0.5 - m) / np.sqrt(m + x * m)
    found = np.where(n <= 0, 0.0, np.nan)  # a y that is no number has none
    poisson = (n > 0) & (x < POISSON)
    gaussian = (n > GAUSSIAN) & (a > GAUSSIAN) & ~poisson
    beta = (n > 0) & ~poisson & ~gaussian
    # By whichever of p and 1 − p has digits. (Not by `where=`, with which scipy writes beyond its arrays.)
    small, large = beta & (x < 1), beta & (x >= 1)
    found[poisson] = special.gammaincc(n[poisson], m[poisson])
    found[gaussian] = special.ndtr(steps[gaussian])
    found[small] = special.betaincc(n[small], a[small], q[small])
    found[large] = special.betainc(a[large], n[large], p[large])
    return torch.as_tensor(found, device="cpu").to(each[1])


def _excess(t: Tensor, log: Tensor) -> Tensor:
    """t − log(1 + t), where `log` is log(1 + t) for a t that is not small."""
    return exp_excess(torch.where(t.abs() < 0.5, torch.log1p(t), log))


def _remainder(x: Tensor) -> Tensor:
    """log Γ(x + 1) − (x + ½) log x + x − ½ log 2π, x > 0; zero at infinity."""
    u = 1 / x.clamp(min=LARGE)
    series = torch.zeros_like(u)
    for c in reversed(_STIRLING):
        series = series * u.square() + c
    small = x.clamp(max=LARGE)
    whole = torch.lgamma(small + 1) - (small + 0.5) * small.log() + small - 0.5 * math.log(2 * math.pi)
    return torch.where(x < LARGE, whole, u * series)
