"""The kernel of a Gaussian process, how alike targets are before any is seen, and its evidence."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
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

    @classmethod
    def expected(cls, features: int) -> Kernel:
        """What is expected before any target is seen."""
        return cls(np.full(features, math.sqrt(features) * LENGTH), SMOOTH, LINEAR, LEAST_NOISE + NOISE)

    def between(self, X: Floats, Z: Floats) -> Floats:
        """k of every row of X (n, d_x) with every row of Z (m, d_x): (n, m)."""
        root = _root(X / self.length, Z / self.length)
        found = _polynomial(root)
        found *= np.exp(np.negative(root, out=root), out=root)
        found *= self.smooth
        line = X @ Z.T
        line += 1
        line *= self.linear
        found += line
        return found

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
    root = _root(X / kernel.length, X / kernel.length)
    falls = np.exp(-root)
    matern = falls * _polynomial(root)
    root += 1
    root *= falls
    by_square = root  # of Matérn's kernel the derivative in r², times −6/5
    products = X @ X.T
    products += 1
    K = kernel.linear * products
    K += kernel.smooth * matern
    K[np.diag_indices(n)] += kernel.noise / weight
    # torch's, since SciPy's would hold up other threads, which learn other members.
    factor, failed = torch.linalg.cholesky_ex(torch.from_numpy(K))
    if failed:
        return math.inf, np.zeros(len(kernel.length) + 3)
    inverse = torch.cholesky_inverse(factor).numpy()
    told = inverse @ y
    repeated = k * (float(weight.sum()) - n)
    half_log_det = k * float(factor.diagonal().log().sum())
    value = half_log_det + 0.5 * float(np.sum(y * told)) + 0.5 * repeated * math.log(kernel.noise)
    slope = k * inverse  # ∂/∂K of the loss: ½ (k K⁻¹ − K⁻¹ y yᵀ K⁻¹)
    slope -= told @ told.T
    slope *= 0.5
    by_square *= slope
    row = by_square.sum(1)
    of_lengths = row @ np.square(X) - np.sum(X * (by_square @ X), 0)
    of_lengths *= 10 / 3 * kernel.smooth / kernel.length**2
    of_noise = float((slope.diagonal() / weight).sum()) + 0.5 * repeated / kernel.noise
    return value, np.array(
        [
            *of_lengths,
            kernel.smooth * np.vdot(slope, matern),
            kernel.linear * np.vdot(slope, products),
            (kernel.noise - LEAST_NOISE) * of_noise,
        ]
    )


def _root(X: Floats, Z: Floats) -> Floats:
    """√5 r of every row of X (n, d) and of Z (m, d), which are divided by the lengths: (n, m).

    From r² = |x|² + |z|² − 2 x·z as one product, since passes over (n, m) numbers are what takes time.
    """
    x, z = np.square(X).sum(1), np.square(Z).sum(1)
    found: Floats = np.column_stack([X, x, np.ones(len(X))]) @ np.vstack([-2 * Z.T, np.ones(len(Z)), z])
    np.clip(found, 0, FAR, out=found)  # below zero by rounding
    found *= 5
    return np.sqrt(found, out=found)


def _polynomial(root: Floats) -> Floats:
    """1 + s + s²/3 at s = √5 r."""
    found: Floats = root / 3
    found += 1
    found *= root
    found += 1
    return found
