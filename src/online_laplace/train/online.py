"""Online training: the weights and the hyperparameters move together, one step of each at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from online_laplace.curvature import precision
from online_laplace.evidence import laplace_evidence
from online_laplace.hyper.mackay import Mean, at_mode, at_weights, mackay_update, statistics
from online_laplace.model.network import Network, without_autograd
from online_laplace.model.tangent import linearise
from online_laplace.train.adam import Adam, AdamState
from online_laplace.train.loop import keep, keep_hyper
from online_laplace.train.trajectory import OnlineState
from online_laplace.train.tree import REBUILT
from online_laplace.types import Hyper, Problem

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
    """OL (`mean=at_weights`) or LM (`mean=at_mode`) with full-batch Adam."""

    network: Network
    problem: Problem
    mean: Mean
    optimiser: Adam = Adam()
    form: str = "auto"

    @property
    def recordable(self) -> bool:
        """As far as the network is."""
        return self.network.recordable

    def init(self, w: Tensor, hyper: Hyper) -> AdamOnlineState:
        """Linearise at the first weights w (…, d_w)."""
        start = OnlineState.start(w, hyper)
        gradient = linearise(self.network, w, self.problem).gradient(hyper)
        return AdamOnlineState(**vars(start), adam=self.optimiser.init(w), gradient=gradient)

    def step(self, state: AdamOnlineState) -> AdamOnlineState:
        """Adam on ℓ_f, linearise, factorise, update: the order of the paper."""
        with without_autograd(self.network):
            return self._step(state)

    def _step(self, state: AdamOnlineState) -> AdamOnlineState:
        w, adam = self.optimiser.step(state.w, state.gradient, state.adam)
        tangent = linearise(self.network, w, self.problem)
        H = precision(tangent.J, state.hyper, self.form)
        fit = self.mean(tangent, state.hyper, H)
        hyper = mackay_update(state.hyper, statistics(state.hyper, H, fit))

        step = state.step + 1
        ending = state.ending.check(step, w, hyper.alpha, hyper.beta, H.failed)
        running = ending.running
        best = state.best.update(running, step, w, state.hyper, laplace_evidence(tangent, state.hyper, H))
        w, hyper = keep(running, w, state.w), keep_hyper(running, hyper, state.hyper)
        return AdamOnlineState(
            w=w,
            hyper=hyper,
            ending=ending,
            step=step,
            best=best,
            trail=state.trail,
            adam=adam.where(running, state.adam),
            gradient=tangent.gradient(hyper),
        )
