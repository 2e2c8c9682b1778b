"""The hyperparameter objectives of one stored step, as functions of α and β."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from online_laplace.curvature.diagonal import DiagonalGGN
from online_laplace.evidence import elbo, tangent_evidence
from online_laplace.hyper.mackay import mackay_update, statistics
from online_laplace.likelihood.base import Local
from online_laplace.model.jacobian import DiagonalJacobian
from online_laplace.model.precision import Precision
from online_laplace.model.prior import Hyper, group_prior
from online_laplace.model.tangent import TangentModel
from online_laplace.protocol.profile import Unit
from online_laplace.store.results import Results, Series
from online_laplace.train.online import MEANS

# Which of the stored moments is which: before the first update, and shortly after it.
START, EARLY = 0, 1


@dataclass(frozen=True)
class OneStep:
    """A tangent model in its singular basis, with the hyperparameters that the step came with."""

    step: int
    alpha: float
    beta: float
    tangent: TangentModel

    @classmethod
    def of(cls, results: Results, table: str, procedure: str, moment: int, split: int = 0) -> OneStep | None:
        """The `moment`-th update that was stored; None where there is none, as with several α."""
        arrays = results.arrays[Unit(table, procedure, split)]
        if "update.step" not in arrays or moment >= len(arrays["update.step"]):
            return None

        def read(name: str) -> Tensor:
            return torch.from_numpy(np.atleast_1d(arrays[f"update.{name}"][moment]).astype(np.float64))

        # One axis of replicas, along which the pairs of (α, β) will lie.
        s, z, w = (read(name)[None] for name in ("singular_values", "residual", "w"))
        rows = int(read("rows").item())
        tangent = TangentModel(w, Local(z.unsqueeze(-1)), DiagonalJacobian(s), rows)
        return cls(int(read("step").item()), read("alpha").item(), read("beta").item(), tangent)

    def exact(self, alpha: Any, beta: Any) -> Series:
        """The tangent model's evidence L_h at each pair of (α, β)."""
        hyper, H = self._at(alpha, beta)
        return tangent_evidence(self.tangent, hyper, H).numpy()

    def bound(self, alpha: Any, beta: Any, procedure: str) -> Series:
        """What OL or LM climbs at this step: the mean stays where it is while α and β move."""
        mu = MEANS[procedure](self.tangent, *self._at(self.alpha, self.beta)).mu
        hyper, H = self._at(alpha, beta)
        return elbo(self.tangent, hyper, H, mu).numpy()

    def update(self, procedure: str) -> tuple[float, float]:
        """MacKay's update of α and of β."""
        hyper, H = self._at(self.alpha, self.beta)
        fit = MEANS[procedure](self.tangent, hyper, H)
        new = mackay_update(hyper, statistics(self.tangent, hyper, H, fit))
        return new.alpha.item(), new.beta.item()

    def _at(self, alpha: Any, beta: Any) -> tuple[Hyper, Precision]:
        """Hyperparameters and curvature at each pair, a replica each."""
        a, b = np.broadcast_arrays(np.atleast_1d(alpha), np.atleast_1d(beta))
        prior = group_prior(["all"] * self.tangent.w.shape[-1], self.tangent.w)
        at = [torch.from_numpy(v[:, None].astype(np.float64)) for v in (a, b)]
        hyper = Hyper(at[0], at[1], prior)
        return hyper, DiagonalGGN(self.tangent.J.squares(1), exact=True).at(hyper)
