"""Many networks' posteriors as one program: at a few rows, to call each takes longer than to compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.distribution import Component
from online_laplace.types import Rows

# Rows up to which networks go together; beyond, one network's matrices stay near the processor.
FEW_ROWS = 32

# Numbers of J that are written out at a time while factors are made.
NUMBERS_AT_A_TIME = 2**24


def stack_posteriors(model: Model, w: Tensor, hyper: Hyper, rows: Sequence[Rows]) -> Iterator[Posterior]:
    """The posteriors of networks w (c, d_w) on their rows, as many to a stack as memory should hold at once.

    All rows share X and y; each network has its own weights of them, or none has.
    """
    first = rows[0]
    at_a_time = max(1, NUMBERS_AT_A_TIME // (first.n * model.network.d_out * model.network.d_w))
    for start in range(0, len(w), at_a_time):
        chosen = slice(start, min(start + at_a_time, len(w)))
        some = rows[chosen]
        weight = None if first.weight is None else torch.stack([_weight(one) for one in some])
        shared = Rows(first.X.expand(len(some), -1, -1), first.y.expand(len(some), -1, -1), weight)
        own = hyper.with_values(hyper.alpha[chosen], hyper.beta[chosen])
        yield Posterior.of(model, w[chosen], own, shared)


def _weight(rows: Rows) -> Tensor:
    assert rows.weight is not None
    return rows.weight


def predict_each(stack: Posterior, X: Tensor) -> Iterator[Component]:
    """What each network of a stack predicts at the rows of X (m, d_x)."""
    f, covariance = stack.outputs(X.expand(len(stack.w), -1, -1))
    for i in range(len(f)):
        yield stack.model.likelihood.predict(f[i], covariance[i], stack.hyper.beta[i])
