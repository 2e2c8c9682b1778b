"""Rows that a member does not see, and what is chosen by how well it predicts them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from online_laplace.estimators.fitted import FittedNetworks
from online_laplace.likelihood import Categorical
from online_laplace.pool.classes import TEMPERATURES
from online_laplace.predictive.forms import FORMS, log_probabilities, tempered

# Where no row was left out nothing can be chosen. On the tables that the defaults were chosen on, no form of
# one network was best everywhere; this one is never far too sure.
UNCHOSEN = "probit"


@dataclass(frozen=True)
class LeftOut:
    """Rows that a member did not see, as its c networks see them: f (c, m, k) and its covariance."""

    f: Tensor
    covariance: Tensor
    y: Tensor
    weight: Tensor

    def log_probabilities(self, form: str) -> Tensor:
        """Those of each network, (c, m, k), at temperature one."""
        return log_probabilities(form, self.f, self.covariance)


def choose_predictive(networks: FittedNetworks, form: str) -> FittedNetworks:
    """The networks with the form ("auto" for any) and temperature that suit the rows they were not shown.

    Every row's class is predicted by the networks that left it out; the choice has the highest mean log
    probability. Where no row was left out it is the named form, or `UNCHOSEN`, at temperature one.
    """
    chosen, temperature = UNCHOSEN if form == "auto" else form, 1.0
    parts = _left_out(networks)
    if parts:
        scores: dict[tuple[str, float], float] = {}
        for one in FORMS if form == "auto" else (form,):
            log_p = [part.log_probabilities(one) for part in parts]
            scores |= {(one, T): _score(parts, log_p, T) for T in TEMPERATURES}
        # Of equals the temperature nearest to one.
        chosen, temperature = max(scores, key=lambda key: (scores[key], -abs(math.log(key[1]))))
    likelihood = networks.model.likelihood
    assert isinstance(likelihood, Categorical)
    model = replace(networks.model, likelihood=replace(likelihood, form=chosen, temperature=temperature))
    kept = {c: replace(posterior, model=model) for c, posterior in networks._posteriors.items()}
    return replace(networks, model=model, _posteriors=kept)


def _left_out(networks: FittedNetworks) -> list[LeftOut]:
    """What each member makes of the rows that it did not see; nothing where every member saw all."""
    rows = networks.rows
    if rows.weight is None or rows.weight.ndim == 1:
        return []
    each = len(networks) // len(rows.weight)
    # A row counts in the choice as much as where it is seen.
    weight = rows.weight.amax(0)
    found: list[LeftOut] = []
    outputs: list[tuple[Tensor, Tensor]] = []
    for c, posterior in enumerate(networks.posteriors()):
        unseen = torch.nonzero(rows.weight[c // each] == 0).squeeze(-1)
        if len(unseen) == 0:
            continue
        outputs.append(posterior.outputs(rows.X[unseen]))
        if len(outputs) == each:
            f, covariance = (torch.stack(parts) for parts in zip(*outputs, strict=True))
            found.append(LeftOut(f, covariance, rows.y[unseen], weight[unseen]))
            outputs = []
    return found


def _score(parts: list[LeftOut], log_p: list[Tensor], temperature: float) -> float:
    """The mean log probability of all rows left out, each under the mixture of its member's networks."""
    total = count = 0.0
    for part, each in zip(parts, log_p, strict=True):
        mixed = torch.logsumexp(tempered(each, temperature), dim=0) - math.log(len(each))
        total += float((part.weight * (part.y * mixed).sum(-1)).sum())
        count += float(part.weight.sum())
    return total / count
