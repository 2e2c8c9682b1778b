"""The kernel of a Gaussian process, how alike targets are before any is seen, and its evidence."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, lapack
from scipy.optimize import minimize

from online_laplace.data.checks import Floats

# Targets have variance one. Less noise than this is not claimed: the kernel's matrix would be singular.
LEAST_NOISE = 1e-6
# Where the parameters are expected, the standard deviation of their logarithms, and how far they may go.
LENGTH, LENGTHS = 1.0, (0.05, 300.0)  # times the root of the number of columns
SMOOTH, LINEAR, NOISE = 1.0, 0.1, 0.1
SMOOTHS, LINEARS, NOISES = (1e-3, 1e2), (1e-5, 10.0), (1e-7, 3.0)
SPREAD_OF_LENGTHS, SPREAD_OF_SCALES = 1.0, 3.0
MOST_STEPS = 60
# From this squared distance on, a smooth kernel is zero to the last digit.
FAR = 1e6


@dataclass(frozen=True)
class Kernel:
    """k(x, x') = smooth (1 + √5 r + 5/3 r²) e^(−√5 r) + linear (1 + x·x'), and independent noise.

    The first term is Matérn's of smoothness 5/2, with r² = Σ (x_j − x'_j)² / length_j², so that columns of
    great length (d_x,) hardly matter.
    """

    length: Floats
    smooth: float
    linear: float
    noise: float

    def between(self, X: Floats, Z: Floats) -> Floats:
        """k of every row of X (n, d_x) with every row of Z (m, d_x): (n, m)."""
        return self.smooth * _matern(_squared(X / self.length, Z / self.length))[0] + self.linear * (
            1 + X @ Z.T
        )

    def alone(self, X: Floats) -> Floats:
        """k of every row of X with itself: (n,)."""
        return self.smooth + self.linear * (1 + np.square(X).sum(1))


def learn_kernel(X: Floats, y: Floats, weight: Floats, seconds: float) -> Kernel:
    """The kernel under which targets y (n, k) of rows X (n, d_x), of weight (n,), are most probable."""
    began, d = time.perf_counter(), X.shape[1]
    wide = math.sqrt(d)
    start = np.log([*np.full(d, wide * LENGTH), SMOOTH, LINEAR, NOISE])
    spread = np.array([*np.full(d, SPREAD_OF_LENGTHS), *np.full(3, SPREAD_OF_SCALES)])
    ends = np.log([*[(wide * LENGTHS[0], wide * LENGTHS[1])] * d, SMOOTHS, LINEARS, NOISES])

    def of(away: Floats) -> Kernel:
        parameters = np.exp(start + spread * away)
        smooth, linear, noise = parameters[-3:].tolist()
        return Kernel(parameters[:-3], smooth, linear, LEAST_NOISE + noise)

    def loss(away: Floats) -> tuple[float, Floats]:
        found, slope = minus_log_evidence(of(away), X, y, weight)
        return found + 0.5 * float(away @ away), spread * slope + away

    def stop(_: Floats) -> None:
        if time.perf_counter() - began > seconds:
            raise StopIteration

    bounds = (ends - start[:, None]) / spread[:, None]
    settings = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "ftol": 1e-5}
    found = minimize(
        loss, np.zeros(d + 3), jac=True, method="L-BFGS-B", bounds=bounds, options=settings, callback=stop
    )
    return of(found.x)


def minus_log_evidence(kernel: Kernel, X: Floats, y: Floats, weight: Floats) -> tuple[float, Floats]:
    """−log p(y | X) of all targets (n, k), and its slope in the logarithms of the kernel's parameters.

    Without constants. A row of weight w is w equal rows: its noise is a w-th, and the others, which it
    tells, have the density of a residual of zero. The logarithm of the noise is that of what is above the
    least.
    """
    n, k = y.shape
    squared = _squared(X / kernel.length, X / kernel.length)
    matern, by_square = _matern(squared)
    products = 1 + X @ X.T
    K = kernel.smooth * matern + kernel.linear * products
    K[np.diag_indices(n)] += kernel.noise / weight
    factor, failed = lapack.dpotrf(K, lower=1, clean=0, overwrite_a=1)
    if failed:
        return math.inf, np.zeros(len(kernel.length) + 3)
    told = cho_solve((factor, True), y, check_finite=False)
    repeated = k * (float(weight.sum()) - n)
    half_log_det = k * float(np.log(factor.diagonal()).sum())
    value = half_log_det + 0.5 * float(np.sum(y * told)) + 0.5 * repeated * math.log(kernel.noise)
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    # ∂/∂K of the loss: ½ (k K⁻¹ − K⁻¹ y yᵀ K⁻¹), of which LAPACK makes the lower triangle.
    lower = np.tril(inverse)
    slope = 0.5 * (k * (lower + np.tril(lower, -1).T) - told @ told.T)
    smooth = slope * matern
    moved = slope * by_square  # per squared distance
    row = moved.sum(1)
    of_lengths = -4 * kernel.smooth * (row @ np.square(X) - np.sum(X * (moved @ X), 0)) / kernel.length**2
    of_noise = float((slope.diagonal() / weight).sum()) + 0.5 * repeated / kernel.noise
    return value, np.array(
        [
            *of_lengths,
            kernel.smooth * smooth.sum(),
            kernel.linear * np.sum(slope * products),
            (kernel.noise - LEAST_NOISE) * of_noise,
        ]
    )


def _squared(X: Floats, Z: Floats) -> Floats:
    """Squared distances of rows (n, d), (m, d): (n, m)."""
    found: Floats = np.square(X).sum(1)[:, None] + np.square(Z).sum(1) - 2 * X @ Z.T
    return np.clip(found, 0, FAR, out=found)  # below zero by rounding


def _matern(squared: Floats) -> tuple[Floats, Floats]:
    """Matérn's kernel of smoothness 5/2 at squared distances, and its derivative in them."""
    root = np.sqrt(5 * squared)
    falls = np.exp(-root)
    return (1 + root + root * root / 3) * falls, -5 / 6 * (1 + root) * falls
