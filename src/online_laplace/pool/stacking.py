"""Weights of a mixture's parts, from what each says of rows that it was not trained on."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# The weights converge slowly once they are good: more iterations change the density by less than it is known.
ITERATIONS = 500


def density_weights(log_density: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """The weights (…, c), which sum to one, of highest mean log Σ_c weight_c p_c over rows.

    `log_density` (…, n, c) are the parts' log densities of rows that they have not seen. By EM, from equal
    weights: no iteration lowers the mean.
    """
    c = log_density.shape[-1]
    log_weights = torch.full_like(log_density[..., 0, :], -math.log(c))
    for _ in range(iterations):
        share = torch.softmax(log_weights.unsqueeze(-2) + log_density, dim=-1)
        log_weights = share.mean(-2).log()
    return log_weights.exp()


def squared_error_weights(means: Tensor, y: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """The weights (…, c), not negative, which sum to one, of least Σ (y − Σ_c weight_c mean_c)².

    `means` (…, n, c), `y` (…, n). By Frank and Wolfe's steps towards the best single part, each as long as
    pays: exact line search, no step size to choose.
    """
    weights = torch.full_like(means[..., 0, :], 1 / means.shape[-1])
    for _ in range(iterations):
        predicted = (means @ weights.unsqueeze(-1)).squeeze(-1)
        slope = (means.mT @ (predicted - y).unsqueeze(-1)).squeeze(-1)
        best = torch.nn.functional.one_hot(slope.argmin(-1), weights.shape[-1]).to(weights)
        move = (means @ (best - weights).unsqueeze(-1)).squeeze(-1)
        squared = move.square().sum(-1).clamp(min=torch.finfo(move.dtype).tiny)  # where there is no way to go
        length = ((y - predicted) * move).sum(-1) / squared
        weights = weights + length.clamp(0, 1).unsqueeze(-1) * (best - weights)
    return weights
