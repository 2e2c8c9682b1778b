"""Training at fixed hyperparameters: the inside of offline training and of MacKay's retraining loop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import weighted
from online_laplace.train.adam import Adam, AdamState
from online_laplace.train.loop import State, where_running
from online_laplace.train.outcome import Ending
from online_laplace.types import Rows


@dataclass(frozen=True)
class DescentState(State):
    """A state that remembers Adam's moments."""

    adam: AdamState


@dataclass(frozen=True)
class Descent:
    """Adam on ℓ_f at fixed (α, β); no curvature.

    A replica is at a mode, and stops, once ‖∇ℓ_f‖ relative to its two terms is below `mode_tolerance`.
    """

    model: Model
    optimiser: Adam = Adam()
    mode_tolerance: float = 0.0

    @property
    def recordable(self) -> bool:
        return self.model.network.recordable

    def init(self, w: Tensor, hyper: Hyper, rows: Rows) -> DescentState:
        """The first weights w (…, d_w), no moments."""
        return DescentState(w, hyper, Ending.none(w), 0, self.optimiser.init(w))

    def step(self, state: DescentState, rows: Rows) -> DescentState:
        """One Adam step for the replicas that are running."""
        alive = state.hyper.alive
        gradient = self._gradient(state, rows) * alive
        step = state.step + 1
        ending = state.ending
        if self.mode_tolerance > 0:
            decay = state.hyper.weight_precision * state.w
            terms = decay.norm(dim=-1) + (decay - gradient).norm(dim=-1)
            ending = ending.converged(gradient.norm(dim=-1) < self.mode_tolerance * terms, step)
        w, adam = self.optimiser.step(state.w, gradient, state.adam)
        w = w * alive
        ending = ending.weights_lost(w, step)
        running = ending.running
        return DescentState(
            where_running(running, w, state.w), state.hyper, ending, step, adam.where(running, state.adam)
        )

    def _gradient(self, state: State, rows: Rows) -> Tensor:
        """∇ℓ_f(w) by reverse mode; replicas do not interact, so one sum serves all of them."""
        with torch.enable_grad():
            leaf = state.w.detach().requires_grad_()
            loss = weighted(state.hyper, self.model.data_loss(leaf, rows)).sum()
            (of_data,) = torch.autograd.grad(loss, leaf)
        # Other processes add gradients: there is no way back through a sum that they have part in.
        return self.model.reduce(of_data) + state.hyper.weight_precision * state.w


@dataclass(frozen=True)
class ValidatedState(DescentState):
    """A state that remembers the best weights so far, their validation RMSE (…) and their step (…)."""

    best_w: Tensor
    best_rmse: Tensor
    best_step: Tensor


@dataclass(frozen=True)
class ValidatedDescent:
    """Descent that remembers the weights of lowest RMSE on validation rows."""

    descent: Descent
    validation: Rows

    @property
    def recordable(self) -> bool:
        return self.descent.recordable

    def init(self, w: Tensor, hyper: Hyper, rows: Rows) -> ValidatedState:
        """Score the first weights."""
        state = self.descent.init(w, hyper, rows)
        never = torch.zeros_like(state.ending.step)
        return ValidatedState(**vars(state), best_w=w, best_rmse=self._rmse(w), best_step=never)

    def step(self, state: ValidatedState, rows: Rows) -> ValidatedState:
        """Descend, then keep the weights if they score better than any before."""
        new = self.descent.step(state, rows)
        score = self._rmse(new.w)
        better = score < state.best_rmse
        return ValidatedState(
            **vars(new),
            best_w=where_running(better, new.w, state.best_w),
            best_rmse=torch.where(better, score, state.best_rmse),
            best_step=torch.where(better, new.step, state.best_step),
        )

    def _rmse(self, w: Tensor) -> Tensor:
        error = self.validation.y - self.descent.model.network.forward(w, self.validation.X)
        return error.square().mean((-2, -1)).sqrt()
