"""Class probabilities of logits that are known up to a Gaussian: four ways to the mean of a softmax.

For f ~ N(f, Σ) at a row, the mean of softmax(f) has no closed form. A constant added to all logits of a row
changes no probability, and data say nothing about it: every form leaves it out, of f and of Σ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

CLOSED = ("plug-in", "probit", "bridge")
FORMS = (*CLOSED, "monte-carlo")

# Half the draws of "monte-carlo", the others being their mirror images, and their seed: the same for every
# row and call, so that predictions are repeatable and comparable.
PAIRS = 128
SEED = 0

# What the draws of some rows take at a time: 32 MiB.
CHUNK_NUMBERS = 2**22


def log_probabilities(form: str, f: Tensor, covariance: Tensor, temperature: float = 1.0) -> Tensor:
    """log p (…, m, k) of logits f (…, m, k) with covariance (…, m, k, k); p^(1/T), normalised."""
    centred = f - f.mean(-1, keepdim=True)
    log_p = _FORMS[form](centred, _without_constant(covariance))
    return tempered(log_p, temperature)


def tempered(log_p: Tensor, temperature: float) -> Tensor:
    """log p^(1/T), normalised: sharper below T = 1, flatter above."""
    return log_p if temperature == 1 else (log_p / temperature).log_softmax(-1)


def _without_constant(covariance: Tensor) -> Tensor:
    """P Σ P with P = I − 11ᵀ/k: the covariance of the logits less their mean."""
    rows = covariance - covariance.mean(-1, keepdim=True)
    return rows - rows.mean(-2, keepdim=True)


def _variance(covariance: Tensor) -> Tensor:
    """The diagonal, where rounding can leave less than zero."""
    return covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0)


def _plug_in(f: Tensor, covariance: Tensor) -> Tensor:
    """softmax(f): as if the weights were known."""
    return f.log_softmax(-1)


def _probit(f: Tensor, covariance: Tensor) -> Tensor:
    """softmax(f / √(1 + π/8 var f)): MacKay's approximation, logit by logit."""
    return (f / (1 + math.pi / 8 * _variance(covariance)).sqrt()).log_softmax(-1)


def _bridge(f: Tensor, covariance: Tensor) -> Tensor:
    """The mean of the Dirichlet that the Gaussian stands for in logits: Hobbhahn, Kristiadi, Hennig (2022).

    a_i = (1 − 2/k + e^(f_i) Σ_j e^(−f_j) / k²) / Σ_ii, and p = a / Σ a; through logarithms, since a logit
    may be large.
    """
    k = f.shape[-1]
    peak = f + torch.logsumexp(-f, dim=-1, keepdim=True) - 2 * math.log(k)
    spread = torch.log(_variance(covariance).clamp(min=torch.finfo(f.dtype).tiny))
    offset = torch.full_like(peak, math.log(1 - 2 / k)) if k > 2 else torch.full_like(peak, -torch.inf)
    return (torch.logaddexp(peak, offset) - spread).log_softmax(-1)


def _monte_carlo(f: Tensor, covariance: Tensor) -> Tensor:
    """The mean over draws of f and their mirror images, for some rows at a time."""
    generator = torch.Generator().manual_seed(SEED)
    e = torch.randn(PAIRS, f.shape[-1], generator=generator, dtype=torch.float64, device="cpu").to(f)
    size = max(1, CHUNK_NUMBERS // (2 * PAIRS * f[..., :1, :].numel()))
    parts = zip(f.split(size, dim=-2), covariance.split(size, dim=-3), strict=True)
    return torch.cat([_mean_of_draws(e, *part) for part in parts], dim=-2)


def _mean_of_draws(e: Tensor, f: Tensor, covariance: Tensor) -> Tensor:
    # The symmetric root: that of eigenvectors alone depends on their signs, which the last bit decides.
    values, vectors = torch.linalg.eigh(covariance)
    root = (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mT
    # Rows last and classes first: along a last axis of a few classes a softmax takes many times as long.
    moved = torch.einsum("sj,...mij->...ism", e, root).contiguous()
    middle = f.mT.unsqueeze(-2)
    each = torch.cat([middle + moved, middle - moved], dim=-2).log_softmax(-3)
    return torch.logsumexp(each, dim=-2).mT - math.log(2 * PAIRS)


_FORMS = {"plug-in": _plug_in, "probit": _probit, "bridge": _bridge, "monte-carlo": _monte_carlo}
