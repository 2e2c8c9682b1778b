"""The slow reference: one replica, dense matrices, explicit loops, densities from scipy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

from problems import Case

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dense:
    """A tangent model of one replica: f (n, k), J (n, k, d), y (n, k), α (d,) by weight, β (k,) by output."""

    w: Floats
    f: Floats
    J: Floats
    y: Floats
    alpha: Floats
    beta: Floats
    groups: list[list[int]]

    @property
    def H(self) -> Floats:
        """Σ_i Σ_o β_o j_io j_ioᵀ + diag(α), one residual at a time."""
        n, k, d = self.J.shape
        H = np.zeros((d, d))
        for j in range(d):
            H[j, j] = self.alpha[j]
        for i in range(n):
            for o in range(k):
                H += self.beta[o] * np.outer(self.J[i, o], self.J[i, o])
        return H

    @property
    def inverse(self) -> Floats:
        return np.linalg.inv(self.H)

    @property
    def condition(self) -> float:
        return float(np.linalg.cond(self.H))

    @property
    def flat(self) -> Floats:
        return self.J.reshape(-1, self.J.shape[-1])

    @property
    def noise(self) -> Floats:
        """β by residual: (n·k,)."""
        return np.tile(self.beta, len(self.y))

    def outputs(self, v: Floats) -> Floats:
        """h(v) = f + J (v − w): (n·k,)."""
        return self.f.reshape(-1) + self.flat @ (v - self.w)

    @property
    def v_star(self) -> Floats:
        """The minimiser of ℓ_h by least squares on the stacked, whitened rows; H is never formed."""
        rows = np.vstack([np.sqrt(self.noise)[:, None] * self.flat, np.diag(np.sqrt(self.alpha))])
        target = np.sqrt(self.noise) * (self.y.reshape(-1) - self.outputs(np.zeros_like(self.w)))
        v_star = np.linalg.lstsq(rows, np.concatenate([target, np.zeros_like(self.w)]), rcond=None)[0]
        return v_star

    def log_joint(self, v: Floats) -> float:
        """log p(y | h(v)) + log p(v)."""
        likelihood = norm.logpdf(self.y.reshape(-1), self.outputs(v), self.noise**-0.5).sum()
        return float(likelihood + norm.logpdf(v, 0, self.alpha**-0.5).sum())

    def laplace_evidence(self) -> float:
        """Laplace's method at w, as if w were a mode."""
        sign, logdet = np.linalg.slogdet(self.H)
        assert sign == 1
        return self.log_joint(self.w) + 0.5 * len(self.w) * np.log(2 * np.pi) - 0.5 * logdet

    def tangent_evidence(self) -> float:
        """log N(y; f − J w, B⁻¹ + J A⁻¹ Jᵀ)."""
        covariance = np.diag(1 / self.noise) + self.flat @ np.diag(1 / self.alpha) @ self.flat.T
        mean = self.outputs(np.zeros_like(self.w))
        return float(multivariate_normal(mean, covariance).logpdf(self.y.reshape(-1)))

    def elbo(self, mu: Floats) -> float:
        """E_q[log p(y, v)] + entropy of q = N(μ, H⁻¹), term by term."""
        inverse = self.inverse
        quadratic = (self.noise * np.einsum("id,de,ie->i", self.flat, inverse, self.flat)).sum()
        quadratic += (self.alpha * np.diag(inverse)).sum()
        entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * inverse)[1]
        return self.log_joint(mu) - 0.5 * quadratic + entropy

    def gamma_by_group(self) -> Floats:
        """γ_g = |g| − α_g Tr_g(H⁻¹)."""
        diagonal = np.diag(self.inverse)
        return np.array([len(g) - sum(self.alpha[j] * diagonal[j] for j in g) for g in self.groups])

    def gamma_by_output(self) -> Floats:
        """β_o Tr(H⁻¹ J_oᵀ J_o)."""
        inverse = self.inverse
        per_output = [self.J[:, o] for o in range(self.J.shape[1])]
        traces = [np.trace(inverse @ J.T @ J) for J in per_output]
        return self.beta * np.array(traces)


def dense(case: Case) -> list[Dense]:
    """One reference per replica with Gaussian noise, in order, in float64 whatever the case's dtype."""
    tangent, hyper = case.tangent, case.hyper
    J = tangent.J.whole
    d, k = J.shape[-1], J.shape[-2]
    groups = [column.nonzero().flatten().tolist() for column in hyper.prior.membership.mT]
    alpha = hyper.weight_precision.expand(*case.w.shape[:-1], d)
    beta = hyper.beta.expand(*case.w.shape[:-1], k)

    def per_replica(values, axes):
        return values.double().numpy().reshape(-1, *values.shape[values.ndim - axes :])

    arrays = zip(
        per_replica(tangent.w, 1),
        per_replica(tangent.f, 2),
        per_replica(J, 3),
        per_replica(case.rows.y.expand_as(tangent.f), 2),
        per_replica(alpha, 1),
        per_replica(beta, 1),
        strict=True,
    )
    return [Dense(*parts, groups) for parts in arrays]
