"""The Cholesky factor of a positive definite matrix per replica, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from online_laplace.curvature import lapack
from online_laplace.curvature.buffers import buffer, hold
from online_laplace.curvature.device import triton_kernels
from online_laplace.curvature.kernels import gram


class Factor(ABC):
    """H = L Lᵀ for matrices H (…, d, d).

    `failed` (…) marks those that have no factor: what is computed of them means nothing, and the others are
    exact.
    """

    failed: Tensor
    inverse: Tensor  # L⁻¹ (…, d, d), zero above the diagonal

    @property
    @abstractmethod
    def order(self) -> int:
        """d."""

    @abstractmethod
    def logdet(self) -> Tensor:
        """log det H: (…)."""

    @abstractmethod
    def solve_lower(self, B: Tensor) -> Tensor:
        """L⁻¹ B: (…, d, m)."""

    @abstractmethod
    def solve_upper(self, B: Tensor) -> Tensor:
        """L⁻ᵀ B: (…, d, m)."""

    @abstractmethod
    def solve(self, b: Tensor) -> Tensor:
        """H⁻¹ b for one vector per matrix: (…, d)."""

    @abstractmethod
    def trace_inverse(self) -> Tensor:
        """Tr(H⁻¹), the squared norm of L⁻¹: (…)."""

    def whole_inverse(self, into: Tensor | None = None) -> Tensor:
        """H⁻¹ = L⁻ᵀ L⁻¹, the triangle that `gram` makes: (…, d, d), `into` a matrix where that helps."""
        return gram([self.inverse])

    def diag_inverse(self) -> Tensor:
        """The diagonal of H⁻¹, the squared column norms of L⁻¹: (…, d)."""
        return self.inverse.square().sum(-2)


def factorise(M: Tensor, diagonal: Tensor, scale: Tensor | None = None, *, take_over: bool = False) -> Factor:
    """The factor of H = scale · M + diag(diagonal), with M (…, d, d) as `gram` makes it.

    `diagonal` is (…, d) or (…, 1), `scale` (…, 1). M is left alone unless it may be taken over.
    """
    if device := triton_kernels(M):
        return InvertedFactor(*device.factorise(M, diagonal, scale))
    kept = None if take_over or not lapack.serves(M) else buffer("factor", M.shape, M)
    if take_over:
        H = M if scale is None else M.mul_(scale.unsqueeze(-1))
    elif scale is None:
        H = M.clone() if kept is None else kept.copy_(M)
    else:
        H = torch.mul(M, scale.unsqueeze(-1), out=kept)
    H.diagonal(dim1=-2, dim2=-1).add_(diagonal)
    factor = LapackFactor(H) if lapack.serves(H) else InvertedFactor(*_invert(H))
    hold("factor", H, factor)
    return factor


class LapackFactor(Factor):
    """L in the place of H, and L⁻¹ in the place of L once somebody asks for it: one matrix at any time.

    The matrix may serve another factor as soon as this one is gone: whoever needs L⁻¹ keeps the factor.

    Solving by L is more exact than multiplying by L⁻¹, so that it is best done before.
    """

    def __init__(self, H: Tensor) -> None:
        """Factorise in place where H is contiguous; above its lower triangle there must be zeros."""
        self.shape = H.shape
        self._matrix = H.reshape(-1, *H.shape[-2:])
        self._inverted = False
        lapack.cholesky_(self._matrix)
        logdet = 2 * self._matrix.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        self._logdet = logdet.reshape(H.shape[:-2])
        self.failed = self._logdet - self._logdet != 0  # of NaN and of infinity it is NaN

    @property
    def inverse(self) -> Tensor:  # type: ignore[override]
        """L⁻¹ (…, d, d)."""
        if not self._inverted:
            lapack.invert_lower_(self._matrix)
            self._inverted = True
        return self._matrix.view(self.shape)

    @property
    def order(self) -> int:
        return self.shape[-1]

    def logdet(self) -> Tensor:
        return self._logdet

    def trace_inverse(self) -> Tensor:
        return lapack.squared_norms(self.inverse.view(self._matrix.shape)).reshape(self.shape[:-2])

    def whole_inverse(self, into: Tensor | None = None) -> Tensor:
        product = self.inverse.clone() if into is None else into.copy_(self.inverse)
        lapack.transposed_product_(product.view(self._matrix.shape))
        return product

    def inverse_beside(self) -> Tensor:
        """H⁻¹ (…, d, d), the lower triangle, with L left as it is."""
        found = self._matrix.clone()
        if not self._inverted:
            lapack.invert_lower_(found)
        lapack.transposed_product_(found)
        return found.view(self.shape)

    def solve(self, b: Tensor) -> Tensor:
        solved = b.expand(*self.shape[:-2], -1).clone(memory_format=torch.contiguous_format)
        lapack.solve_(self._matrix, solved.view(-1, self.shape[-1]), inverted=self._inverted)
        return solved

    def solve_lower(self, B: Tensor) -> Tensor:
        return self._solve(B, transposed=False)

    def solve_upper(self, B: Tensor) -> Tensor:
        return self._solve(B, transposed=True)

    def _solve(self, B: Tensor, *, transposed: bool) -> Tensor:
        solved = B.expand(*self.shape[:-2], -1, -1).clone(memory_format=torch.contiguous_format)
        columns = solved.view(-1, *B.shape[-2:])
        lapack.solve_lower_(self._matrix, columns, inverted=self._inverted, transposed=transposed)
        return solved


class InvertedFactor(Factor):
    """L⁻¹ at once, from which a device answers everything by products, far faster than by solving."""

    def __init__(self, inverse: Tensor, logdet: Tensor, failed: Tensor) -> None:
        """Take what a device has computed: (…, d, d), (…) and (…)."""
        self.inverse, self._logdet, self.failed = inverse, logdet, failed

    @property
    def order(self) -> int:
        return self.inverse.shape[-1]

    def logdet(self) -> Tensor:
        return self._logdet

    def trace_inverse(self) -> Tensor:
        return torch.linalg.vector_norm(self.inverse, dim=(-2, -1)).square()

    def solve(self, b: Tensor) -> Tensor:
        """L⁻ᵀ L⁻¹ b."""
        return self.solve_upper(self.solve_lower(b.unsqueeze(-1))).squeeze(-1)

    def solve_lower(self, B: Tensor) -> Tensor:
        return self.inverse @ B

    def solve_upper(self, B: Tensor) -> Tensor:
        return self.inverse.mT @ B


def _invert(H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """L⁻¹, log det H and whether there is none, by torch's own routines, wherever H is."""
    L, info = torch.linalg.cholesky_ex(H)
    failed = info != 0
    L.diagonal(dim1=-2, dim2=-1).masked_fill_(failed.unsqueeze(-1), torch.nan)
    identity = torch.eye(H.shape[-1], dtype=H.dtype, device=H.device)
    inverse = torch.linalg.solve_triangular(L, identity.expand_as(L), upper=False)
    return inverse, 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1), failed
