"""Online training by Gauss-Newton: the curvature that tunes the hyperparameters also moves the weights.

v* − w is a Gauss-Newton direction (Foresee and Hagan, 1997). Damped as Levenberg and Marquardt do, with
H + λI = Jᵀ B J + (A + λI): adding λ to every prior precision damps any curvature without its knowing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.curvature import GGN, Precision, curvature
from online_laplace.evidence import laplace_evidence
from online_laplace.hyper.mackay import Mean, mackay_update, statistics
from online_laplace.model.network import Network, without_autograd
from online_laplace.model.tangent import (
    TangentModel,
    jacobian_vector,
    linearise,
    quadratic_loss,
    vector_jacobian,
)
from online_laplace.train.loop import keep, keep_hyper
from online_laplace.train.trajectory import OnlineState
from online_laplace.types import Hyper, Problem

# How far along a step the second derivative is probed, and the longest bend, both relative to the step.
PROBE = 0.1
LARGEST_BEND = 0.1875
# How many units in the last place of the loss a change of it must exceed to mean anything.
ROUNDING = 64


@dataclass(frozen=True)
class GaussNewtonState(OnlineState):
    """A state that remembers the tangent model and curvature at w, and each replica's damping λ (…).

    `growth` (…) is the factor by which the next rejection raises λ.
    """

    tangent: TangentModel
    ggn: GGN
    damping: Tensor
    growth: Tensor


@dataclass(frozen=True)
class GaussNewton:
    """OL (`mean=at_weights`) or LM (`mean=at_mode`) with damped Gauss-Newton steps.

    Replicas accept and reject on their own; no accepted step raises the loss. Each accepted step is followed
    by `updates` of the hyperparameters.
    """

    network: Network
    problem: Problem
    mean: Mean
    form: str = "auto"
    updates: int = 1
    initial_damping: float = 1.0

    @property
    def recordable(self) -> bool:
        """Not: where every replica refuses its step there is nothing to linearise."""
        return False

    def init(self, w: Tensor, hyper: Hyper) -> GaussNewtonState:
        """Linearise at the first weights w (…, d_w)."""
        start = OnlineState.start(w, hyper)
        tangent = linearise(self.network, w, self.problem)
        damping = torch.full_like(w[..., 0], self.initial_damping)
        return GaussNewtonState(
            **vars(start),
            tangent=tangent,
            ggn=curvature(tangent.J, hyper, self.form),
            damping=damping,
            growth=torch.full_like(damping, 2.0),
        )

    def step(self, state: GaussNewtonState) -> GaussNewtonState:
        """Propose; accept where the loss falls; update the hyperparameters of those that moved."""
        with without_autograd(self.network):
            return self._step(state)

    def _step(self, state: GaussNewtonState) -> GaussNewtonState:
        proposal = self._propose(state)
        step = state.step + 1
        ending = state.ending.curvature_failed(proposal.failed, step)
        ending = ending.check(step, proposal.straight, state.hyper.alpha, state.hyper.beta)
        running = ending.running
        accepted = running & (proposal.gain > 0)
        state = replace(_adapt(state, running, proposal.gain), step=step, ending=ending)
        if accepted.any():
            state = self._move(state, accepted, proposal.w)
        return state

    def _propose(self, state: GaussNewtonState) -> Proposal:
        """The damped step w − (H + λI)⁻¹ ∇ℓ_f, bent along the curve of f, and how the loss takes it."""
        tangent, hyper, damping = state.tangent, state.hyper, state.damping
        H = state.ggn.at(hyper.with_values(hyper.alpha + damping.unsqueeze(-1), hyper.beta))
        straight = H.newton_step(tangent, hyper)
        move = straight + self._bend(tangent, hyper, H, straight)
        w = state.w + move
        residual = self.problem.y - self.network.forward(w, self.problem.X)
        # ℓ(w) − ℓ(w') as products of differences and sums: near a mode the losses agree to the last digit.
        before = tangent.residual
        misfit = (hyper.beta * ((before - residual) * (before + residual)).sum(-2)).sum(-1)
        fall = misfit - (hyper.weight_precision * move * (state.w + w)).sum(-1)
        predicted = damping * straight.square().sum(-1) - (tangent.gradient(hyper) * straight).sum(-1)
        # A fall that the loss cannot resolve in its dtype is neither good nor bad: take the step.
        rounding = ROUNDING * torch.finfo(w.dtype).eps * quadratic_loss(hyper, before, state.w)
        unresolved = (predicted < rounding) & (fall.abs() <= rounding)
        return Proposal(w, straight, torch.where(unresolved, 1.0, fall / predicted), H.failed)

    def _bend(self, tangent: TangentModel, hyper: Hyper, H: Precision, straight: Tensor) -> Tensor:
        """Geodesic acceleration (Transtrum and Sethna, 2012): −½ (H + λI)⁻¹ Jᵀ B f'' along the step.

        It follows a curved valley round its bends for one more forward pass and one more solve. A correction
        that is not small beside the step itself is not trusted.
        """
        ahead = self.network.forward(tangent.w + PROBE * straight, self.problem.X)
        along = jacobian_vector(tangent.J, straight)
        second = 2 / PROBE * ((ahead - tangent.f) / PROBE - along)
        bend = -0.5 * H.solve(vector_jacobian(tangent.J, hyper.beta.unsqueeze(-2) * second))
        trusted = bend.norm(dim=-1) <= LARGEST_BEND * straight.norm(dim=-1)
        return keep(trusted, bend, torch.zeros_like(bend))

    def _move(self, state: GaussNewtonState, accepted: Tensor, proposed: Tensor) -> GaussNewtonState:
        """Linearise at the accepted weights and update their hyperparameters."""
        w = keep(accepted, proposed, state.w)
        tangent = linearise(self.network, w, self.problem)
        ggn = curvature(tangent.J, state.hyper, self.form)
        H = ggn.at(state.hyper)
        hyper = mackay_update(state.hyper, statistics(state.hyper, H, self.mean(tangent, state.hyper, H)))
        for _ in range(self.updates - 1):
            again = ggn.at(hyper)
            hyper = mackay_update(hyper, statistics(hyper, again, self.mean(tangent, hyper, again)))
        hyper = keep_hyper(accepted, hyper, state.hyper)
        ending = state.ending.check(state.step, w, hyper.alpha, hyper.beta, H.failed & accepted)
        moved = accepted & ending.running
        evidence = laplace_evidence(tangent, state.hyper, H)
        return replace(
            state,
            w=w,
            hyper=keep_hyper(moved, hyper, state.hyper),
            ending=ending,
            best=state.best.update(moved, state.step, w, state.hyper, evidence),
            tangent=tangent,
            ggn=ggn,
        )


class Proposal(NamedTuple):
    """New weights, the step to them before its bend, and how the loss takes it.

    `gain` (…) is the fall of the loss as a share of the predicted one; `failed` (…) where H had no factor.
    """

    w: Tensor
    straight: Tensor
    gain: Tensor
    failed: Tensor


def _adapt(state: GaussNewtonState, running: Tensor, gain: Tensor) -> GaussNewtonState:
    """Nielsen's rule: shrink λ smoothly with the gain, grow it ever faster while steps are refused."""
    better = gain > 0
    shrink = (1 - (2 * gain - 1) ** 3).clamp(min=1 / 3)
    damping = state.damping * torch.where(better, shrink, state.growth)
    growth = torch.where(better, 2.0, 2 * state.growth)
    return replace(
        state,
        damping=torch.where(running, damping, state.damping),
        growth=torch.where(running, growth, state.growth),
    )
