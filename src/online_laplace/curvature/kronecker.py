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

import torch
from torch import Tensor

from online_laplace.model.precision import Precision, row_covariance, standard_normal
from online_laplace.model.prior import Hyper
from online_laplace.model.tensor_prior import TensorPrior


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

    def __add__(self, other: Factors) -> Factors:
        """The sums over the rows of both."""
        return Factors(self.left + other.left, self.right + other.right, self.count + other.count)

    def map(self, function: Callable[[Tensor], Tensor]) -> Factors:
        """The same function of each of the three."""
        return Factors(function(self.left), function(self.right), function(self.count))

    def decompose(self) -> tuple[Basis, Tensor]:
        """The eigenvectors and the eigenvalues (o, i) of the block."""
        (left, U), (right, V) = _eigen(self.left), _eigen(self.right)
        return Basis(U, V), torch.outer(left, right) / self.count

    def seen_from(self, basis: Basis) -> Tensor:
        """Its diagonal (o, i) in another basis: the eigenvalues, where the basis is its own."""
        left = _diagonal_in(self.left, basis.left)
        return torch.outer(left, _diagonal_in(self.right, basis.right)) / self.count


class KroneckerGGN:
    """Stage one: the factors of every tensor, in the order of the flat weights. No replica axes.

    With a `basis`, that of earlier factors, the block is taken as diagonal in it: a product in the place of
    an eigendecomposition, which costs far more, and good for as long as the eigenvectors have hardly turned.
    """

    def __init__(self, blocks: Sequence[Factors], basis: Sequence[Basis] | None = None) -> None:
        """Take a block per tensor."""
        self.blocks, self.basis = tuple(blocks), None if basis is None else tuple(basis)

    def __add__(self, other: KroneckerGGN) -> KroneckerGGN:
        return KroneckerGGN([a + b for a, b in zip(self.blocks, other.blocks, strict=True)])

    def scaled(self, factor: float) -> KroneckerGGN:
        """The same with every row counted `factor` times."""
        return KroneckerGGN([block.map(lambda part: factor * part) for block in self.blocks])

    def seen_from(self, basis: Sequence[Basis]) -> KroneckerGGN:
        """The same in the basis of earlier factors."""
        return KroneckerGGN(self.blocks, basis)

    def at(self, hyper: Hyper, *, last: bool = False) -> KroneckerPrecision:
        """H in the eigenbasis of its factors, or in the given one."""
        if self.basis is None:
            basis, values = zip(*(block.decompose() for block in self.blocks), strict=True)
        else:
            basis = self.basis
            values = tuple(b.seen_from(own) for b, own in zip(self.blocks, basis, strict=True))
        return KroneckerPrecision(basis, values, hyper)


class KroneckerPrecision(Precision):
    """Stage two: the eigenvalues β l rᵀ / count and α of every tensor."""

    exact = False

    def __init__(self, basis: Sequence[Basis], values: Sequence[Tensor], hyper: Hyper) -> None:
        """Weigh the eigenvalues by β; α is the same within a tensor."""
        assert isinstance(hyper.prior, TensorPrior)
        self.hyper, self.basis = hyper, tuple(basis)
        self.data = [hyper.beta * value for value in values]  # (o, i) each
        self.alpha = hyper.prior.by_tensor(hyper.alpha)
        self.h = [data + alpha for data, alpha in zip(self.data, self.alpha, strict=True)]
        self.failed = ~torch.stack([(h.isfinite() & (h > 0)).all() for h in self.h]).all()

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


def _eigen(factor: Tensor) -> tuple[Tensor, Tensor | None]:
    """Eigenvalues and vectors; of a sum of squares they are not negative, whatever rounding says."""
    if factor.ndim == 1:
        return factor, None
    # In single precision the routine may not converge for a factor of low rank, as few rows have.
    for dtype in dict.fromkeys((factor.dtype, torch.float64)):
        try:
            values, vectors = torch.linalg.eigh(factor.to(dtype))
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            continue
        return values.to(factor).clamp(min=0), vectors.to(factor)
    # There are none of what is not finite, which `failed` then tells.
    return factor.new_full(factor.shape[:1], torch.nan), torch.eye(len(factor)).to(factor)


def _diagonal_in(factor: Tensor, vectors: Tensor | None) -> Tensor:
    """The diagonal of Uᵀ F U."""
    if vectors is None:
        return factor
    return (vectors * (factor @ vectors)).sum(0).clamp(min=0)
