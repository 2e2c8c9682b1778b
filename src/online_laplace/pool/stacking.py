"""Weights of a mixture's parts, from what each says of rows that it was not trained on."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

# The weights converge slowly once they are good, and what the last iterations add is fitted to these rows:
# more of them did not help other rows on any of the development tables.
ITERATIONS = 100

# How much heavier than all rows together the demand is that weights sum to one.
SUM_TO_ONE = 1e4


def density_weights(
    log_density: Tensor, weight: Tensor | None = None, iterations: int = ITERATIONS
) -> Tensor:
    """The weights (…, c), which sum to one, of highest mean log Σ_c weight_c p_c over rows.

    `log_density` (…, n, c) are the parts' log densities of rows that they have not seen, `weight` (…, n) how
    much each row counts. By EM, from equal weights: no iteration lowers the mean. A part that has no number
    for some row gets no weight.
    """
    c = log_density.shape[-1]
    unusable = log_density.isnan().any(-2, keepdim=True)
    log_density = log_density.masked_fill(unusable, -torch.inf)
    counts = torch.ones_like(log_density[..., 0]) if weight is None else weight
    counts = (counts / counts.sum(-1, keepdim=True)).unsqueeze(-1)
    # Beside the best part of a row, which keeps some weight as long as it is the best of any, what is beyond
    # the range of numbers is nothing.
    density = (log_density - log_density.amax(-1, keepdim=True)).exp()
    weights = torch.full_like(density[..., 0, :], 1 / c).unsqueeze(-2)
    for _ in range(iterations):
        of_mixture = (weights * density).sum(-1, keepdim=True)
        weights = weights * (counts / of_mixture * density).sum(-2, keepdim=True)
    return weights.squeeze(-2)


def squared_error_weights(
    errors: Tensor, weight: Tensor | None = None, prior: Tensor | None = None, prior_rows: float = 0.0
) -> Tensor:
    """The weights (…, c), not negative, which sum to one, of least Σ (Σ_c weight_c error_c)².

    `errors` (…, n, c) are those of the parts' means; `weight` (…, n) says how much each row counts. With
    `prior` weights (…, c) the sum is that and prior_rows · |weights − prior|²: errors being in units of the
    best part's, about as if so many rows had been seen before. By non-negative least squares, in which one
    more row, far heavier than all others, asks for the sum. A part that has no number for some row, or whose
    numbers have no square, gets no weight.
    """
    *replicas, n, c = errors.shape
    root = errors.new_ones(n) if weight is None else weight.sqrt()
    A = (root.unsqueeze(-1) * errors).reshape(-1, n, c).cpu().numpy()
    before = np.zeros((len(A), c)) if prior is None else prior.reshape(-1, c).cpu().numpy()
    known, found = prior_rows**0.5, []
    for each, expected in zip(A, before, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = np.linalg.norm(each, axis=0)
        usable = np.isfinite(sizes)
        each = np.where(usable, each, 0)
        # The least error is no larger than that of the best part: one that is far off has no say in what is
        # heavy, or the others would lose their digits. And a part may have no errors.
        heavy = SUM_TO_ONE * max(float(sizes[usable].min()), known, 1.0)
        rows = np.vstack([each, known * np.diag(usable), heavy * usable[None]])
        weights, _ = nnls(rows, np.concatenate([np.zeros(n), known * expected, [heavy]]))
        found.append(weights / weights.sum())
    return torch.from_numpy(np.stack(found)).to(errors).reshape(*replicas, c)
