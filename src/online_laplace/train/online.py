"""Online training: the weights and the hyperparameters move together, one step of each at a time."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from online_laplace.curvature import curvature
from online_laplace.hyper.mackay import Mean, at_mode, at_weights, mackay_update, statistics
from online_laplace.model.network import Network
from online_laplace.model.tangent import TangentModel, linearise
from online_laplace.train.adam import Adam, AdamState
from online_laplace.train.loop import State, keep
from online_laplace.train.outcome import Ending
from online_laplace.types import Hyper, Problem

MEANS: dict[str, Mean] = {"ol": at_weights, "lm": at_mode}


@dataclass(frozen=True)
class OnlineState(State):
    """A state that remembers Adam's moments and the tangent model at w, from which the next gradient comes.

    The tangent of a replica that has ended is not kept up; linearise at w to look at it.
    """

    adam: AdamState
    tangent: TangentModel


@dataclass(frozen=True)
class Online:
    """OL (`mean=at_weights`) or LM (`mean=at_mode`) with full-batch Adam."""

    network: Network
    problem: Problem
    mean: Mean
    optimiser: Adam = Adam()
    form: str = "auto"

    def init(self, w: Tensor, hyper: Hyper) -> OnlineState:
        """Linearise at the first weights w (…, d_w)."""
        tangent = linearise(self.network, w, self.problem)
        return OnlineState(w, hyper, Ending.none(w), 0, self.optimiser.init(w), tangent)

    def step(self, state: OnlineState) -> OnlineState:
        """Adam on ℓ_f, linearise, factorise, update: the order of the paper."""
        gradient = state.tangent.gradient(state.hyper)
        w, adam = self.optimiser.step(state.w, gradient, state.adam)
        tangent = linearise(self.network, w, self.problem)
        H = curvature(tangent.J, state.hyper, self.form).at(state.hyper)
        fit = self.mean(tangent, state.hyper, H)
        hyper = mackay_update(state.hyper, statistics(state.hyper, H, fit))

        step = state.step + 1
        ending = state.ending.check(step, w, hyper.alpha, hyper.beta, H.failed)
        running = ending.running
        return OnlineState(
            w=keep(running, w, state.w),
            hyper=hyper.with_values(
                keep(running, hyper.alpha, state.hyper.alpha),
                keep(running, hyper.beta, state.hyper.beta),
            ),
            ending=ending,
            step=step,
            adam=adam.where(running, state.adam),
            tangent=tangent,
        )
