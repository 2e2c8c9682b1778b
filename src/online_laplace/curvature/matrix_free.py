"""The whole H without any matrix: products with J̃ and J̃ᵀ, conjugate gradients, random probes.

Solving is exact to the tolerance of the conjugate gradients. Traces and determinants are means over probes,
each a vector z of random signs, and come with their standard errors. With a diagonal P near diag(H), one
solve H x = P^½ z answers both:

    α_i (H⁻¹)_ii = E[α_i z_i x_i / √P_ii]                      γ_g = Σ_g (1 − α z x / √P)
    log det H    = log det P + E[zᵀ log(P^−½ H P^−½) z],       by the Lanczos matrix that the solve leaves

(Hutchinson; Golub and Meurant). Memory is a few vectors of d_w numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from online_laplace.errors import DivergedError, InputError
from online_laplace.model.precision import Precision, standard_normal
from online_laplace.model.prior import Hyper


class Operator(Protocol):
    """J̃ of some rows, as products."""

    def jvp(self, v: Tensor) -> Tensor:
        """J̃ v: (d_w,) → (n, k)."""

    def vjp(self, u: Tensor) -> Tensor:
        """J̃ᵀ u: (n, k) → (d_w,)."""


@dataclass(frozen=True)
class Settings:
    """How many probes, from which generator, and how far conjugate gradients go."""

    probes: int
    generator: torch.Generator
    iterations: int = 2000
    # Of the residual, relative; None is half of the dtype's digits.
    tolerance: float | None = None
    # Draws from the posterior in the place of random signs.
    draws: bool = False

    def __post_init__(self) -> None:
        """Refuse a number of probes of which no error can be told."""
        if self.probes < 2:
            raise InputError(f"a standard error needs at least 2 probes, not {self.probes}")

    def tolerance_in(self, dtype: torch.dtype) -> float:
        """The tolerance for numbers of this dtype."""
        return self.tolerance if self.tolerance is not None else torch.finfo(dtype).eps ** 0.5


class MatrixFreeGGN:
    """Stage one: the operators of all batches, and the diagonal of J̃ᵀJ̃ as random signs estimate it (d_w,)."""

    def __init__(self, parts: Sequence[Operator], squares: Tensor, settings: Settings) -> None:
        """Take the operators of the rows, whose sums they form."""
        self.parts, self.squares, self.settings = list(parts), squares, settings

    def __add__(self, other: MatrixFreeGGN) -> MatrixFreeGGN:
        return MatrixFreeGGN([*self.parts, *other.parts], self.squares + other.squares, self.settings)

    def diagonal(self) -> Tensor:
        """diag(J̃ᵀJ̃), as far as it is known: (d_w,)."""
        return self.squares

    def at(self, hyper: Hyper, *, last: bool = False) -> MatrixFreePrecision:
        """H as products."""
        return SampledPrecision(self, hyper) if self.settings.draws else MatrixFreePrecision(self, hyper)


class Estimate(NamedTuple):
    """What the probes say: γ by group (g,), log det H − log det A (), and their standard errors."""

    gamma: Tensor
    gamma_error: Tensor
    log_contraction: Tensor
    log_contraction_error: Tensor


class MatrixFreePrecision(Precision):
    """Stage two: H v = Σ J̃ᵀ B J̃ v + A v, preconditioned by its diagonal."""

    def __init__(self, ggn: MatrixFreeGGN, hyper: Hyper) -> None:
        """Nothing is solved yet."""
        self.hyper, self.parts, self.settings = hyper, ggn.parts, ggn.settings
        self.alpha = hyper.weight_precision.expand(len(ggn.squares))
        self.P = hyper.beta.mean() * ggn.squares + self.alpha
        self.failed = ~(self.P.isfinite() & (self.P > 0)).all()

    def product(self, v: Tensor) -> Tensor:
        """H v: (d_w,) → (d_w,)."""
        total = self.alpha * v
        for part in self.parts:
            total = total + part.vjp(self.hyper.beta * part.jvp(v))
        return total

    def solve(self, b: Tensor) -> Tensor:
        """Preconditioned conjugate gradients. Raises DivergedError where they do not arrive."""
        return self._solve(b).solution

    def _solve(self, b: Tensor) -> Solved:
        return conjugate_gradients(
            self.product, b, self.P, self.settings.tolerance_in(b.dtype), self.settings.iterations
        )

    @cached_property
    def estimate(self) -> Estimate:
        """One solve a probe, the first time that it is asked for."""
        found = [self._probe() for _ in range(self.settings.probes)]
        gamma, log = (torch.stack(part) for part in zip(*found, strict=True))
        shift = self.P.log().sum() - self.hyper.prior.log_det(self.hyper.alpha)
        error = self.settings.probes**-0.5
        return Estimate(gamma.mean(0), gamma.std(0) * error, log.mean() + shift, log.std() * error)

    def _probe(self) -> tuple[Tensor, Tensor]:
        """γ by group and log det P^−½ H P^−½ as one vector of random signs has them."""
        root = self.P.sqrt()
        z = _signs(root, self.settings.generator)
        solved = self._solve(root * z)
        values, vectors = torch.linalg.eigh(solved.lanczos)
        gamma = self.hyper.prior.sum(1 - self.alpha * z * solved.solution / root)
        return gamma, len(root) * (vectors[0].square() * values.log()).sum()

    def log_contraction(self) -> Tensor:
        """As the probes estimate it."""
        return self.estimate.log_contraction

    def group_gamma(self) -> Tensor:
        """As the probes estimate it."""
        return self.estimate.gamma

    def scale_gamma(self) -> Tensor:
        """There is one β: the total that the groups hold."""
        return self.group_gamma().sum(-1, keepdim=True)

    def covariance(self, J: Tensor) -> Tensor:
        """A solve for every row and output."""
        rows = J.flatten(-3, -2)
        solved = torch.stack([self.solve(j) for j in rows]).view(J.shape)
        return J @ solved.mT

    def joint_covariance(self, J: Tensor) -> Tensor:
        rows = J.flatten(-3, -2)
        return rows @ torch.stack([self.solve(j) for j in rows]).mT

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Sample, then optimise: for b of covariance H, H⁻¹ b has the covariance H⁻¹ H H⁻¹ = H⁻¹."""
        return torch.stack([self.solve(self._drawn(generator)) for _ in range(count)])

    def _drawn(self, generator: torch.Generator) -> Tensor:
        """J̃ᵀ B^½ e + A^½ e', whose covariance is J̃ᵀBJ̃ + A = H: (d_w,)."""
        b = self.alpha.sqrt() * standard_normal(self.alpha.shape, self.alpha, generator)
        for part in self.parts:
            like = part.jvp(torch.zeros_like(b))
            b = b + part.vjp(self.hyper.beta.sqrt() * standard_normal(like.shape, like, generator))
        return b


class SampledPrecision(MatrixFreePrecision):
    """The same with draws z = H⁻¹ b from the posterior for its estimates (Antorán et al., 2023).

    With b of covariance H both follow from one solve, M = P^−½ H P^−½ and c = P^−½ b being of covariance M:

        γ_g       = E[Σ_g z (b − α z)],  since b − α z = J̃ᵀBJ̃ z
        log det M = E[cᵀ M⁻¹ log(M) c],  by the Lanczos matrix that the solve leaves
    """

    def _probe(self) -> tuple[Tensor, Tensor]:
        b = self._drawn(self.settings.generator)
        solved = self._solve(b)
        z = solved.solution
        values, vectors = torch.linalg.eigh(solved.lanczos)
        gamma = self.hyper.prior.sum(z * (b - self.alpha * z))
        return gamma, (b.square() / self.P).sum() * (vectors[0].square() * values.log() / values).sum()


class Solved(NamedTuple):
    """H⁻¹ b, and the tridiagonal matrix (m, m) of P^−½ H P^−½ that Lanczos' iteration would have made."""

    solution: Tensor
    lanczos: Tensor


def conjugate_gradients(
    product: Callable[[Tensor], Tensor], b: Tensor, P: Tensor, tolerance: float, iterations: int
) -> Solved:
    """Solve H x = b with the diagonal preconditioner P until ‖b − H x‖ ≤ tolerance ‖b‖ in the norm of P⁻¹.

    Raises DivergedError where that takes more iterations.
    """
    x, r = torch.zeros_like(b), b.clone()
    q = r / P
    p, rq = q.clone(), float(r @ q)
    first = rq
    lengths: list[float] = []
    turns: list[float] = []
    while rq > tolerance**2 * first:
        if len(lengths) == iterations or rq != rq:
            finer = "" if b.dtype == torch.float64 else "float64, "
            raise DivergedError(
                f"conjugate gradients did not arrive in {iterations} iterations (relative residual "
                f"{(rq / first) ** 0.5:.1e}): use {finer}a looser tolerance, or another curvature"
            )
        Hp = product(p)
        length = rq / float(p @ Hp)
        x += length * p
        r -= length * Hp
        q = r / P
        before, rq = rq, float(r @ q)
        lengths.append(length)
        turns.append(rq / before)
        p = q + turns[-1] * p
    return Solved(x, _lanczos(lengths, turns, b))


def _lanczos(lengths: list[float], turns: list[float], like: Tensor) -> Tensor:
    """The matrix of Lanczos' iteration from the coefficients of conjugate gradients, in double precision."""
    m = max(1, len(lengths))
    T = torch.eye(m, dtype=torch.float64)
    for i, length in enumerate(lengths):
        T[i, i] = 1 / length + (turns[i - 1] / lengths[i - 1] if i else 0.0)
        if i + 1 < m:
            T[i, i + 1] = T[i + 1, i] = turns[i] ** 0.5 / length
    return T.to(like)


def _signs(like: Tensor, generator: torch.Generator) -> Tensor:
    drawn = torch.randint(0, 2, like.shape, generator=generator, device=generator.device)
    return (2 * drawn - 1).to(like)
