"""A lower bound of the evidence from subsets of the rows and outputs (Immer et al., 2023).

The residuals are divided into parts s, each with its rows J̃_s of J̃. With K_s = J̃_s A⁻¹ J̃_sᵀ

    log det(I + β J̃ A⁻¹ J̃ᵀ)  ≤  Σ_s log det(I + β K_s)                              (Fischer's inequality)

so that the evidence with the right side in place of the left is never above it: parts do not know what they
have in common. A few parts drawn at random, scaled to all, are an unbiased estimate of the right side. Only
kernels are kept, K_s = Σ_t K_st / α_t with one K_st (m, m) for each parameter tensor t: γ is the derivative
of the bound, γ_t = Σ_s β/α_t Tr(K_st (I + β K_s)⁻¹), at any (α, β).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.model.prior import Hyper
from online_laplace.model.tensor_prior import TensorPrior

# Parts that are remembered: with the usual decay of 0.95 those left out would count for a third.
REMEMBERED = 20


class Part(NamedTuple):
    """The kernels (tensors, m, m) of a part at α = 1, its rows, and how many times it counts ()."""

    kernels: Tensor
    rows: int
    weight: Tensor


def part_of(J: Tensor, lengths: Sequence[int]) -> Part:
    """The part that J̃ (rows, residuals of each, d_w) is about."""
    kernels = [part @ part.mT for part in J.flatten(0, 1).split(list(lengths), dim=-1)]
    return Part(torch.stack(kernels), len(J), J.new_ones(()))


class SubsetGGN:
    """Stage one: the parts that were looked at, the latest last."""

    def __init__(self, parts: Sequence[Part]) -> None:
        """Take them; of more than `REMEMBERED` the latest."""
        self.parts = tuple(parts)[-REMEMBERED:]

    def __add__(self, other: SubsetGGN) -> SubsetGGN:
        return SubsetGGN([*self.parts, *other.parts])

    def scaled(self, factor: float) -> SubsetGGN:
        """The same with every row counted `factor` times."""
        return SubsetGGN([part._replace(weight=factor * part.weight) for part in self.parts])

    @property
    def rows(self) -> float:
        """How many rows they count for."""
        return float(sum(part.weight * part.rows for part in self.parts))

    @property
    def together(self) -> int:
        """The residuals of a part."""
        return self.parts[-1].kernels.shape[-1]

    def evidence(self, hyper: Hyper, residuals: int) -> SubsetEvidence:
        """What an update needs where there are so many residuals in all."""
        return SubsetEvidence(self.parts, hyper, residuals)


class SubsetEvidence:
    """Stage two: the bound and its derivatives."""

    exact = False

    def __init__(self, parts: Sequence[Part], hyper: Hyper, residuals: int) -> None:
        """Factorise I + β K of every part; `failed` tells of one that has no factor."""
        assert isinstance(hyper.prior, TensorPrior)
        self.hyper, self._parts = hyper, parts
        self._scale = hyper.beta / hyper.prior.by_tensor(hyper.alpha)  # (tensors,)
        seen = sum(part.weight * part.kernels.shape[-1] for part in parts)
        self._share = residuals / seen
        found = [torch.linalg.cholesky_ex(self._inner(part)) for part in parts]
        self._L = [factor for factor, _ in found]
        self.failed = torch.stack([info > 0 for _, info in found]).any()

    def _inner(self, part: Part) -> Tensor:
        K = (self._scale[:, None, None] * part.kernels).sum(0)
        return K + torch.eye(len(K)).to(K)

    def log_contraction(self) -> Tensor:
        """Σ_s log det(I + β K_s), scaled to all residuals."""
        logs = [2 * p.weight * L.diagonal().log().sum() for p, L in zip(self._parts, self._L, strict=True)]
        return self._share * torch.stack(logs).sum()

    @cached_property
    def _by_tensor(self) -> Tensor:
        total = torch.zeros_like(self._scale)
        for part, L in zip(self._parts, self._L, strict=True):
            inverse = torch.cholesky_inverse(L)
            total = total + part.weight * self._scale * (part.kernels * inverse).sum((-2, -1))
        return self._share * total

    def group_gamma(self) -> Tensor:
        return self._by_tensor @ self.hyper.prior.membership

    def scale_gamma(self) -> Tensor:
        """There is one β: the total that the groups hold."""
        return self.group_gamma().sum(-1, keepdim=True)
