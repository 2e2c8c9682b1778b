"""Online training: the weights and the hyperparameters move together, one step of each at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from online_laplace.evidence import laplace_evidence
from online_laplace.hyper.mackay import Mean, at_mode, at_weights, mackay_update, statistics
from online_laplace.model.model import Model
from online_laplace.model.network import without_autograd
from online_laplace.model.prior import Hyper
from online_laplace.train.adam import Adam, AdamState
from online_laplace.train.loop import where_running
from online_laplace.train.trajectory import OnlineState
from online_laplace.train.tree import REBUILT
from online_laplace.types import Rows

MEANS: dict[str, Mean] = {"ol": at_weights, "lm": at_mode}


@dataclass(frozen=True)
class AdamOnlineState(OnlineState):
    """A state that remembers Adam's moments and ∇ℓ_f at w (…, d_w), which comes from the last step's J.

    The gradient of a replica that has ended is not kept up.
    """

    adam: AdamState
    gradient: Tensor = field(metadata=REBUILT)


@dataclass(frozen=True)
class Online:
    """OL (`mean=at_weights`) or LM (`mean=at_mode`) with Adam."""

    model: Model
    mean: Mean
    optimiser: Adam = Adam()

    @property
    def recordable(self) -> bool:
        return self.model.network.recordable

    def init(self, w: Tensor, hyper: Hyper, rows: Rows) -> AdamOnlineState:
        """Linearise at the first weights w (…, d_w)."""
        start = OnlineState.start(w, hyper)
        gradient = self.model.linearise(w, rows).gradient(hyper)
        return AdamOnlineState(**vars(start), adam=self.optimiser.init(w), gradient=gradient)

    def step(self, state: AdamOnlineState, rows: Rows) -> AdamOnlineState:
        """Adam on ℓ_f, linearise, factorise, update: the order of the paper."""
        with without_autograd(self.model.network):
            return self._step(state, rows)

    def _step(self, state: AdamOnlineState, rows: Rows) -> AdamOnlineState:
        w, adam = self.optimiser.step(state.w, state.gradient, state.adam)
        w = w * state.hyper.alive
        tangent = self.model.linearise(w, rows)
        H = self.model.precision(tangent, state.hyper)
        fit = self.mean(tangent, state.hyper, H)
        hyper = mackay_update(state.hyper, statistics(tangent, state.hyper, H, fit), prune=True)

        step = state.step + 1
        ending = state.ending.check(step, w, hyper, misfit=tangent.misfit, failed=H.failed)
        running = ending.running
        best = state.best.update(running, step, w, state.hyper, laplace_evidence(tangent, state.hyper, H))
        w, hyper = where_running(running, w, state.w), hyper.where(running, state.hyper)
        return AdamOnlineState(
            w=w,
            hyper=hyper,
            ending=ending,
            step=step,
            best=best,
            snapshots=state.snapshots,
            adam=adam.where(running, state.adam),
            gradient=tangent.gradient(hyper),
        )
