"""γ and the evidence from the eigenvalues of the diagonal blocks of H, blocks that tell of the same rows.

In the space of the outputs the curvature of block b is a kernel K_b. With k_b the eigenvalues of K_b / α_b

    log det(I + Σ K_b / α_b)  ≤  Σ_b Σ_i log(1 + k_bi)        each block as if it were the only one (Fischer)
                              ≥  Σ_i log(1 + s_i)             s_i = Σ_b k_bi, each spectrum in falling order

the second since the eigenvalues of a sum are majorised by the sum of the ordered ones (Ky Fan). The upper end
counts what several layers can explain once for every layer: its γ was up to 3 times the exact one where that
could be computed (`benchmarks/overlap.py`). Layers of one network see the same rows through similar kernels,
so that the lower end is close, unless the rows determine nearly all weights, which then share nothing. What
is taken lies between the two, at φ² from the lower end, φ being the part of the weights that is determined.
It says little of which block holds how much: the total is divided as the blocks would have it alone.

Kronecker factors err upwards besides, which the lower end makes good. From the true blocks of all tensors, a
correlation just below one between their eigenvectors of equal rank (`correlated`) gave the exact total to
within 0.1 in log on average, over seventeen problems of these kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from online_laplace.model.prior import Hyper
from online_laplace.model.tensor_prior import TensorPrior

# Between the eigenvectors of equal rank of two layers.
CORRELATION = 0.98


# Ranks are taken one by one up to about twice this, from there in bins of this part of themselves.
FINENESS = 256


class Spectra(NamedTuple):
    """The eigenvalues of several blocks in falling order: their means (blocks, bins) over bins of ranks.

    `counts` (blocks, bins) says how many ranks of a block a bin holds: where the block has ended, none. All
    blocks have the same bins, one rank wide at first, so that a network of any size is a small matrix.
    """

    values: Tensor
    counts: Tensor

    @classmethod
    def of(cls, blocks: Sequence[Tensor]) -> Spectra:
        """Those of the eigenvalues of each block, in any order and shape."""
        edges = torch.tensor(_edges(max(block.numel() for block in blocks)), device=blocks[0].device)
        values, counts = [], []
        for block in blocks:
            ends = edges.clamp(max=block.numel())
            # The sums of the j smallest, from which any bin's sum is a difference that keeps its digits.
            sums = pad(block.flatten().sort().values.double().cumsum(0), (1, 0))
            below = sums[block.numel() - ends]
            counts.append(ends.diff().to(block))
            # No less than nothing, whatever a sum in parts on an accelerator makes of its rounding.
            values.append(((below[:-1] - below[1:]).clamp(min=0) / counts[-1].clamp(min=1)).to(block))
        return cls(torch.stack(values), torch.stack(counts))

    def times(self, scale: Tensor) -> Spectra:
        """Every block's eigenvalues times a number of its own, scale (blocks,)."""
        return self._replace(values=scale.unsqueeze(-1) * self.values)

    def together(self) -> tuple[Tensor, Tensor]:
        """s, the values of all blocks summed rank by rank, and the ranks of every bin: (bins,) each."""
        widths = self.counts.amax(0)
        return (self.counts * self.values).sum(0) / widths, widths


def _edges(ranks: int) -> list[int]:
    """Where bins begin, from rank 0 on; the last is the end."""
    edges = [0]
    while edges[-1] < ranks:
        edges.append(min(ranks, edges[-1] + max(1, edges[-1] // FINENESS)))
    return edges


class SpectralEvidence:
    """What an update of the precisions needs of H, from the eigenvalues of one block per parameter tensor."""

    exact = False

    def __init__(self, spectra: Spectra, hyper: Hyper) -> None:
        """Take the eigenvalues of every tensor's block of J̃ᵀJ̃; α is the same within a tensor."""
        assert isinstance(hyper.prior, TensorPrior)
        self.hyper = hyper
        self.k = spectra.times(hyper.beta / hyper.prior.by_tensor(hyper.alpha))
        self.failed = ~(self.k.values.isfinite() & (self.k.values >= 0)).all()

    @cached_property
    def _alone(self) -> Tensor:
        """γ of every tensor as if the others were known."""
        return (self.k.counts * (self.k.values / (1 + self.k.values))).sum(-1)

    @cached_property
    def _apart(self) -> Tensor:
        """φ²: how far the blocks are from sharing all that they can, 0 to 1."""
        return (self._alone.sum() / self.k.counts.sum()).square()

    @cached_property
    def overlap(self) -> Tensor:
        """The part of γ, counted block by block, that is left where shared parts are counted once: ()."""
        (s, widths), alone = self.k.together(), self._alone.sum()
        together = torch.where(alone > 0, (widths * (s / (1 + s))).sum() / alone, 1.0)
        return torch.lerp(together, torch.ones_like(together), self._apart)

    def log_contraction(self) -> Tensor:
        """Between Σ log(1 + s) and Σ log(1 + k)."""
        s, widths = self.k.together()
        alone = (self.k.counts * self.k.values.log1p()).sum()
        return torch.lerp((widths * s.log1p()).sum(), alone, self._apart)

    def group_gamma(self) -> Tensor:
        """Each tensor's own γ times the overlap, summed over groups."""
        return (self.overlap * self._alone) @ self.hyper.prior.membership

    def scale_gamma(self) -> Tensor:
        """There is one β: the total that the groups hold."""
        return self.group_gamma().sum(-1, keepdim=True)


def correlated(spectra: Sequence[Tensor], rho: float = CORRELATION) -> tuple[Tensor, Tensor]:
    """The log contraction and γ of blocks whose eigenvectors of one rank have correlation ρ in the outputs.

    At rank i the blocks are the matrix I + √k ((1 − ρ) I + ρ 11ᵀ) √k, whose determinant is that of a diagonal
    1 + q, q = (1 − ρ) k, times 1 + T, T = Σ t, t = ρ k / (1 + q). γ is its derivative by log k. ρ = 0 is the
    upper bound above, ρ = 1 the lower one.
    """
    ranks = max(k.numel() for k in spectra)
    k = torch.stack([pad(s.flatten().sort(descending=True).values, (0, ranks - s.numel())) for s in spectra])
    q = (1 - rho) * k
    t = rho * k / (1 + q)
    T = t.sum(0)
    gamma = (q / (1 + q)).sum() + (t / ((1 + q) * (1 + T))).sum()
    return q.log1p().sum() + T.log1p().sum(), gamma
