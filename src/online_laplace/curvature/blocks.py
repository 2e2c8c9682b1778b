"""A block per layer: the whole curvature of each layer's weights, and nothing between layers.

H = blockdiag(β G_l + A_l) with G_l = Σ J̃_lᵀ J̃_l over rows, sums that add up over mini-batches and processes:
d_l² numbers a layer, where the whole has d_w². Layers tell of the same rows, so that an update of precisions
takes their correlation into account (`spectra.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from online_laplace.curvature.spectra import correlated
from online_laplace.model.precision import Precision, row_covariance, standard_normal
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel


def build_blocks(tangent: TangentModel, lengths: Sequence[int]) -> BlockGGN:
    """The blocks of a tangent model whose flat weights are layers of these lengths, one after another."""
    totals = [tangent.w.new_zeros(length, length) for length in lengths]
    for _, rows in tangent.J.blocks():
        for total, J in zip(totals, rows.flatten(0, 1).split(list(lengths), dim=-1), strict=True):
            total += J.mT @ J
    return BlockGGN([tangent.reduce(total) for total in totals])


class BlockGGN:
    """Stage one: G_l of every layer, in the order of the flat weights. No replica axes."""

    def __init__(self, blocks: Sequence[Tensor]) -> None:
        """Take a matrix (d_l, d_l) per layer."""
        self.blocks = tuple(blocks)

    def __add__(self, other: BlockGGN) -> BlockGGN:
        return BlockGGN([a + b for a, b in zip(self.blocks, other.blocks, strict=True)])

    def scaled(self, factor: float) -> BlockGGN:
        """The same with every row counted `factor` times."""
        return BlockGGN([factor * block for block in self.blocks])

    def diagonal(self) -> Tensor:
        """diag(J̃ᵀJ̃): (d_w,)."""
        return torch.cat([block.diagonal() for block in self.blocks])

    def at(self, hyper: Hyper, *, last: bool = False) -> BlockPrecision:
        """H by its Cholesky factors."""
        return BlockPrecision(self.blocks, hyper)

    def evidence(self, hyper: Hyper) -> BlockEvidence:
        """What an update of the precisions needs."""
        return BlockEvidence(self.blocks, hyper)


class BlockPrecision(Precision):
    """Stage two: L_l L_lᵀ = β G_l + A_l."""

    exact = False

    def __init__(self, blocks: Sequence[Tensor], hyper: Hyper) -> None:
        """Factorise every block; `failed` tells of one that has no factor."""
        self.hyper, self._lengths = hyper, [len(block) for block in blocks]
        self.alpha = hyper.weight_precision.expand(sum(self._lengths)).split(self._lengths)
        pairs = zip(blocks, self.alpha, strict=True)
        found = [torch.linalg.cholesky_ex(hyper.beta * G + torch.diag(alpha)) for G, alpha in pairs]
        self.L = [factor for factor, _ in found]
        self.failed = torch.stack([info > 0 for _, info in found]).any()

    def _each(self, b: Tensor, function: Callable[[int, Tensor], Tensor]) -> Tensor:
        """A function of every layer's part (…, d_l) of vectors b (…, d_w), put together again."""
        return torch.cat([function(t, part) for t, part in enumerate(b.split(self._lengths, dim=-1))], dim=-1)

    def solve(self, b: Tensor) -> Tensor:
        return self._each(b, lambda t, v: torch.cholesky_solve(v.unsqueeze(-1), self.L[t]).squeeze(-1))

    def log_contraction(self) -> Tensor:
        """Σ log det H_l − log det A_l."""
        pairs = zip(self.L, self.alpha, strict=True)
        return torch.stack([2 * L.diagonal().log().sum() - a.log().sum() for L, a in pairs]).sum()

    def group_gamma(self) -> Tensor:
        pairs = zip(self.L, self.alpha, strict=True)
        each = [1 - a * torch.cholesky_inverse(L).diagonal() for L, a in pairs]
        return self.hyper.prior.sum(torch.cat(each))

    def scale_gamma(self) -> Tensor:
        """There is one β: the total that the groups hold."""
        return self.group_gamma().sum(-1, keepdim=True)

    def covariance(self, J: Tensor) -> Tensor:
        return row_covariance(self._whiten(J), J.shape[-2])

    def joint_covariance(self, J: Tensor) -> Tensor:
        P = self._whiten(J)
        return P @ P.mT

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        e = standard_normal((count, sum(self._lengths)), self.L[0], generator)
        return self._each(e, lambda t, v: torch.linalg.solve_triangular(self.L[t].mT, v.mT, upper=True).mT)

    def _whiten(self, J: Tensor) -> Tensor:
        """J L⁻ᵀ: (m, k, d_w) → (m·k, d_w)."""
        rows = J.flatten(-3, -2)
        return self._each(rows, lambda t, v: torch.linalg.solve_triangular(self.L[t], v.mT, upper=False).mT)


class BlockEvidence:
    """γ and log det H where layers tell of the same rows."""

    exact = False

    def __init__(self, blocks: Sequence[Tensor], hyper: Hyper) -> None:
        """Take G_l of every layer."""
        self.hyper, self._separate = hyper, BlockPrecision(blocks, hyper)
        self.failed = self._separate.failed
        scales = [(hyper.beta / alpha).sqrt() for alpha in self._separate.alpha]
        self._scaled = [s.unsqueeze(-1) * G * s for s, G in zip(scales, blocks, strict=True)]

    @cached_property
    def _found(self) -> tuple[Tensor, Tensor]:
        return correlated([torch.linalg.eigvalsh(block).clamp(min=0) for block in self._scaled])

    def log_contraction(self) -> Tensor:
        return self._found[0]

    def group_gamma(self) -> Tensor:
        """The total γ, divided among groups as separate blocks would have it."""
        separate = self._separate.group_gamma()
        total = separate.sum()
        return separate * torch.where(total > 0, self._found[1] / total, 1.0)

    def scale_gamma(self) -> Tensor:
        return self.group_gamma().sum(-1, keepdim=True)
