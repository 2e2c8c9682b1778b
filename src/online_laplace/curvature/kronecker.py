"""Kronecker factors: the curvature of each parameter tensor as a product of two small matrices.

For a layer with inputs a and whitened gradients g at its outputs, its weights' block of J̃ᵀJ̃ is
Σ (g gᵀ) ⊗ (a aᵀ) over rows and positions. Taken as if inputs and gradients were independent it is
L ⊗ R / count with L = Σ g gᵀ and R = Σ a aᵀ, sums that add up over mini-batches and processes. What lies
between different tensors is left out. With L = U diag(l) Uᵀ and R = V diag(r) Vᵀ,

    H = Σ β L ⊗ R / count + α I = (U ⊗ V) diag(β l rᵀ / count + α) (U ⊗ V)ᵀ,

from which everything follows at any (α, β). A bias is a layer whose input is one: its block is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from online_laplace.curvature.spectra import Spectra, SpectralEvidence
from online_laplace.model.precision import Precision, row_covariance, standard_normal
from online_laplace.model.prior import Hyper
from online_laplace.model.tensor_prior import TensorPrior

# Factors of up to so many rows are decomposed together with others of their size.
TOGETHER_UP_TO = 1024


@dataclass(frozen=True)
class Basis:
    """Eigenvectors of both factors; None is the identity, for a factor that is diagonal."""

    left: Tensor | None
    right: Tensor | None

    def into(self, values: Tensor) -> Tensor:
        """Uᵀ X V for values X (…, o, i)."""
        values = values if self.left is None else self.left.mT @ values
        return values if self.right is None else values @ self.right

    def back(self, values: Tensor) -> Tensor:
        """U X Vᵀ for values X (…, o, i)."""
        values = values if self.left is None else self.left @ values
        return values if self.right is None else values @ self.right.mT


@dataclass(frozen=True)
class Factors:
    """One tensor's block L ⊗ R / count: L (o, o) and R (i, i), or their diagonals (o,) and (i,)."""

    left: Tensor
    right: Tensor
    count: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> Factors:
        """The same function of each of the three."""
        return Factors(function(self.left), function(self.right), function(self.count))

    def decompose(self) -> tuple[Basis, Tensor]:
        """The eigenvectors and the eigenvalues (o, i) of the block."""
        (left, U), (right, V) = _eigen(self.left), _eigen(self.right)
        return Basis(U, V), torch.outer(left, right) / self.count


class KroneckerGGN:
    """Stage one: the factors of every tensor, in the order of the flat weights. No replica axes."""

    def __init__(self, blocks: Sequence[Factors]) -> None:
        """Take a block per tensor."""
        self.blocks = tuple(blocks)

    # In torch's operations on lists of tensors: one launch for all of a network's.
    def __add__(self, other: KroneckerGGN) -> KroneckerGGN:
        return _grouped(torch._foreach_add(self._parts, other._parts))

    def scaled(self, factor: float) -> KroneckerGGN:
        """The same with every row counted `factor` times."""
        return _grouped(torch._foreach_mul(self._parts, factor))

    @property
    def _parts(self) -> list[Tensor]:
        return [part for block in self.blocks for part in (block.left, block.right, block.count)]

    def at(self, hyper: Hyper, *, last: bool = False) -> KroneckerPrecision:
        """H in the eigenbasis of its factors."""
        basis, values = zip(*(block.decompose() for block in self.blocks), strict=True)
        return KroneckerPrecision(basis, values, hyper)

    def shapes(self) -> Spectra:
        """How the trace of every block is divided among its eigenvalues, which costs far more to know."""
        found = _all_eigenvalues([factor for block in self.blocks for factor in (block.left, block.right)])
        shares = [_shares(values) for values in found]
        pairs = zip(shares[::2], shares[1::2], strict=True)
        return Spectra.of([torch.outer(left, right) for left, right in pairs])

    def evidence(self, hyper: Hyper, shapes: Spectra) -> SpectralEvidence:
        """γ and log det H from eigenvalues alone, of shapes that may be those of earlier factors."""
        return SpectralEvidence(shapes.times(self._traces()), hyper)

    def _traces(self) -> Tensor:
        """Those of all blocks, Tr L Tr R / count: (tensors,)."""
        sides = [side for block in self.blocks for side in (block.left, block.right)]
        diagonals = [side if side.ndim == 1 else side.diagonal() for side in sides]
        lengths = torch.tensor([len(d) for d in diagonals], device=diagonals[0].device)
        # One operation for all of them, since there may be many.
        sums = torch.segment_reduce(torch.cat(diagonals), "sum", lengths=lengths).view(-1, 2)
        return sums.prod(-1) / torch.stack([block.count for block in self.blocks])


class KroneckerPrecision(Precision):
    """Stage two: the eigenvalues β l rᵀ / count and α of every tensor."""

    exact = False

    def __init__(self, basis: Sequence[Basis], values: Sequence[Tensor], hyper: Hyper) -> None:
        """Weigh the eigenvalues by β; α is the same within a tensor."""
        assert isinstance(hyper.prior, TensorPrior)
        self.hyper, self.basis, self.values = hyper, tuple(basis), tuple(values)
        self.data = [hyper.beta * value for value in values]  # (o, i) each
        self.alpha = hyper.prior.by_tensor(hyper.alpha)
        self.h = [data + alpha for data, alpha in zip(self.data, self.alpha, strict=True)]
        self.failed = ~torch.stack([(h.isfinite() & (h > 0)).all() for h in self.h]).all()

    @cached_property
    def overlap(self) -> Tensor:
        """The part of γ that is left where what several blocks say of one thing is counted once: ()."""
        return SpectralEvidence(Spectra.of(self.values), self.hyper).overlap

    @cached_property
    def _lengths(self) -> list[int]:
        return [h.numel() for h in self.h]

    def _each(self, b: Tensor, function: Callable[[int, Tensor], Tensor]) -> Tensor:
        """A function of every tensor's own part (…, o, i) of vectors b (…, d_w), put together again."""
        parts = b.split(self._lengths, dim=-1)
        done = [function(t, part.unflatten(-1, self.h[t].shape)).flatten(-2) for t, part in enumerate(parts)]
        return torch.cat(done, dim=-1)

    def solve(self, b: Tensor) -> Tensor:
        return self._each(b, lambda t, v: self.basis[t].back(self.basis[t].into(v) / self.h[t]))

    def log_contraction(self) -> Tensor:
        """Σ log(1 + data / α)."""
        parts = [(data / a).log1p().sum() for data, a in zip(self.data, self.alpha, strict=True)]
        return torch.stack(parts).sum()

    def group_gamma(self) -> Tensor:
        """Data / h, summed over tensors and then over groups."""
        each = torch.stack([(data / h).sum() for data, h in zip(self.data, self.h, strict=True)])
        return each @ self.hyper.prior.membership

    def scale_gamma(self) -> Tensor:
        """There is one β: the total that the groups hold."""
        return self.group_gamma().sum(-1, keepdim=True)

    def covariance(self, J: Tensor) -> Tensor:
        return row_covariance(self._whiten(J), J.shape[-2])

    def joint_covariance(self, J: Tensor) -> Tensor:
        P = self._whiten(J)
        return P @ P.mT

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        e = standard_normal((count, sum(self._lengths)), self.h[0], generator)
        return self._each(e, lambda t, v: self.basis[t].back(v * self.h[t].rsqrt()))

    def _whiten(self, J: Tensor) -> Tensor:
        """J (U ⊗ V) h^−½: (m, k, d_w) → (m·k, d_w)."""
        return self._each(J.flatten(-3, -2), lambda t, v: self.basis[t].into(v) * self.h[t].rsqrt())


def _grouped(parts: Sequence[Tensor]) -> KroneckerGGN:
    """The blocks whose left and right factors and counts follow each other."""
    return KroneckerGGN([Factors(*parts[i : i + 3]) for i in range(0, len(parts), 3)])


def _eigen(factor: Tensor) -> tuple[Tensor, Tensor | None]:
    """Eigenvalues and vectors; of a sum of squares they are not negative, whatever rounding says."""
    if factor.ndim == 1:
        return factor, None
    found = _converged(torch.linalg.eigh, factor)
    if found is None:
        return factor.new_full(factor.shape[:1], torch.nan), torch.eye(len(factor)).to(factor)
    return found[0].to(factor).clamp(min=0), found[1].to(factor)


def _all_eigenvalues(factors: Sequence[Tensor]) -> list[Tensor]:
    """The eigenvalues of every factor, in a fraction of the time of vectors.

    Small ones of one size go together: on an accelerator each costs mostly the wait for many short steps.
    """
    found: dict[int, Tensor] = {t: f for t, f in enumerate(factors) if f.ndim == 1}
    sizes: dict[int, list[int]] = {}
    for t, factor in enumerate(factors):
        if factor.ndim > 1:
            sizes.setdefault(len(factor), []).append(t)
    for size, places in sizes.items():
        for some in [places] if size <= TOGETHER_UP_TO else [[place] for place in places]:
            values = _converged(torch.linalg.eigvalsh, torch.stack([factors[t] for t in some]))
            if values is None:
                found |= {t: _eigenvalues(factors[t]) for t in some}
            else:
                found |= dict(zip(some, values.to(factors[0]).clamp(min=0).unbind(), strict=True))
    return [found[t] for t in range(len(factors))]


def _eigenvalues(factor: Tensor) -> Tensor:
    """Those of one factor; NaN where there are none."""
    found = _converged(torch.linalg.eigvalsh, factor)
    return factor.new_full(factor.shape[:1], torch.nan) if found is None else found.to(factor).clamp(min=0)


def _converged(routine: Callable[[Tensor], Any], factor: Tensor) -> Any:
    """What a routine finds; None for what is not finite, of which there is nothing, and `failed` tells it."""
    # In single precision the routine may not converge for a factor of low rank, as few rows have: it says so,
    # or leaves NaN. CUDA's takes three times as long for small matrices in single precision as in double.
    double = factor.is_cuda and factor.shape[-1] <= TOGETHER_UP_TO
    for dtype in dict.fromkeys((torch.float64 if double else factor.dtype, torch.float64)):
        try:
            found = routine(factor.to(dtype))
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            continue
        values = found if isinstance(found, Tensor) else found[0]
        if values.isfinite().all():
            return found
    return None


def _shares(values: Tensor) -> Tensor:
    """Parts of their sum; of nothing, equal ones."""
    total = values.sum()
    return torch.where(total == 0, 1 / len(values), values / total)
