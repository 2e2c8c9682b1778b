"""The form and temperature of a named network's probabilities, by the rows that its members left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from online_laplace.estimators.fitted.networks import FittedNetworks
from online_laplace.likelihood import Categorical
from online_laplace.pool.classes import choose
from online_laplace.pool.folds import NONE, LeftOut

# Where no row was left out nothing can be chosen. On the tables that the defaults were chosen on, no form of
# one network was best everywhere; this one is never far too sure.
UNCHOSEN = "probit"


def choose_predictive(networks: FittedNetworks, form: str) -> FittedNetworks:
    """The networks with the form ("auto" for any) and temperature that suit the rows they were not shown.

    Where no row was left out it is the named form, or `UNCHOSEN`, at temperature one.
    """
    chosen = (UNCHOSEN if form == "auto" else form, 1.0)
    weight = networks.rows.weight
    if weight is not None and weight.ndim == 2 and bool((weight == 0).any()):
        chosen = _by_rows_left_out(networks, form)
    likelihood = networks.model.likelihood
    assert isinstance(likelihood, Categorical)
    model = replace(networks.model, likelihood=replace(likelihood, form=chosen[0], temperature=chosen[1]))
    kept = {c: replace(posterior, model=model) for c, posterior in networks._posteriors.items()}
    return replace(networks, model=model, _posteriors=kept)


def _by_rows_left_out(networks: FittedNetworks, form: str) -> tuple[str, float]:
    weight = networks.rows.weight
    assert weight is not None
    # A row counts in the choice as much as where it is seen.
    rows = replace(networks.rows, weight=weight.amax(0))
    unseen = (weight == 0).cpu().numpy()
    fold = np.where(unseen.any(0), unseen.argmax(0), NONE)
    left_out = LeftOut.of(fold, [[m] for m in range(len(weight))], rows.X)
    each = len(networks) // len(weight)
    outputs = [
        posterior.outputs(rows.X[left_out.outside[c // each]])
        for c, posterior in enumerate(networks.posteriors())
    ]
    # (members · each, b, …) → (members, each, b, …)
    f, covariance = (torch.stack(v).unflatten(0, (-1, each)) for v in zip(*outputs, strict=True))
    y = rows.y[left_out.outside].unsqueeze(1).expand_as(f)
    return choose({"f": f, "covariance": covariance, "y": y}, rows, left_out, form).choice
