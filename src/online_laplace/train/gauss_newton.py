"""Online training by Gauss-Newton: the curvature that tunes the hyperparameters also moves the weights.

v* − w is a Gauss-Newton direction (Foresee and Hagan, 1997). Damped as Levenberg and Marquardt do, with
H + λI = Jᵀ B J + (A + λI): adding λ to every prior precision damps any curvature without its knowing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.evidence import laplace_evidence
from online_laplace.hyper.mackay import Mean, mackay_update, statistics
from online_laplace.likelihood.base import by_scale
from online_laplace.model.model import Model
from online_laplace.model.network import has_factors, without_autograd
from online_laplace.model.precision import GGN, Precision
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel, weighted
from online_laplace.train.loop import where_running
from online_laplace.train.replicas import divisible, mapped_whole, put, take, where, without_caches
from online_laplace.train.trajectory import OnlineState
from online_laplace.train.tree import HELD
from online_laplace.types import Rows

# How far along a step the second derivative is probed, and the longest bend, both relative to the step.
PROBE = 0.1
LARGEST_BEND = 0.1875
# How many units in the last place of the loss, and of the outputs it is computed from, a change of the loss
# must exceed to mean anything.
ROUNDING = 32
OUTPUT_ROUNDING = 4


@dataclass(frozen=True)
class GaussNewtonState(OnlineState):
    """A state that remembers the tangent model and curvature at w, and each replica's damping λ (…).

    `growth` (…) is the factor by which the next rejection raises λ.
    """

    tangent: TangentModel = field(metadata=HELD)
    ggn: GGN = field(metadata=HELD)
    damping: Tensor
    growth: Tensor

    @property
    def recordable(self) -> bool:
        """Not where J is made block by block from weights of its own."""
        return mapped_whole(self.tangent, self.ggn)


@dataclass(frozen=True)
class GaussNewton:
    """OL (`mean=at_weights`) or LM (`mean=at_mode`) with damped Gauss-Newton steps.

    Replicas accept and reject on their own; no accepted step raises the loss. At every `update_every`-th step
    an accepted one is followed by an update of the hyperparameters. A `predicated` step is the same sequence
    of operations whoever moves, as steps on a CUDA device always are.
    """

    model: Model
    mean: Mean
    update_every: int = 1
    initial_damping: float = 1.0
    predicated: bool = False

    @property
    def recordable(self) -> bool:
        """Where a network has its Jacobian by factors: to linearise in vain costs little then."""
        return self.model.network.recordable and has_factors(self.model.network)

    def init(self, w: Tensor, hyper: Hyper, rows: Rows) -> GaussNewtonState:
        """Linearise at the first weights w (…, d_w)."""
        start = OnlineState.start(w, hyper)
        tangent = self.model.linearise(w, rows)
        damping = torch.full_like(w[..., 0], self.initial_damping)
        return GaussNewtonState(
            **vars(start),
            tangent=tangent,
            ggn=self.model.ggn(tangent),
            damping=damping,
            growth=torch.full_like(damping, 2.0),
        )

    def step(self, state: GaussNewtonState, rows: Rows) -> GaussNewtonState:
        """Propose; accept where the loss falls; update the hyperparameters of those that moved."""
        with without_autograd(self.model.network):
            return self._step(state, rows)

    def _step(self, state: GaussNewtonState, rows: Rows) -> GaussNewtonState:
        predicated = self.predicated or (state.w.is_cuda and self.recordable and state.recordable)
        if predicated:
            state = replace(state, tangent=without_caches(state.tangent))
        proposal = self._propose(state, rows)
        step = state.step + 1
        ending = state.ending.curvature_failed(proposal.failed, step)
        ending = ending.check(step, proposal.straight, state.hyper, misfit=state.tangent.misfit)
        running = ending.running
        accepted = running & (proposal.gain > 0)
        state = replace(_adapt(state, running, proposal.gain), step=step, ending=ending)
        if predicated:
            return self._move(state, accepted, proposal.w, self._predicated(state, accepted, proposal))
        if accepted.any():
            moved = self._move(state, accepted, proposal.w, self._arrivals(state, rows, accepted, proposal))
            state = self._without(moved, rows, moved.hyper.pruned & ~state.hyper.pruned)
        return state

    def _propose(self, state: GaussNewtonState, rows: Rows) -> Proposal:
        """The damped step w − (H + λI)⁻¹ ∇ℓ_f, bent along the curve of f, and how the loss takes it."""
        tangent, hyper, damping = state.tangent, state.hyper, state.damping
        H = state.ggn.at(hyper.with_values(hyper.alpha + damping.unsqueeze(-1), hyper.beta))
        straight = H.newton_step(tangent, hyper)
        move = straight + self._bend(tangent, rows, hyper, H, straight)
        w = (state.w + move) * hyper.alive
        move = w - state.w
        there = self.model.linearise(w, rows) if has_factors(self.model.network) else None
        f = self.model.outputs(w, rows) if there is None else there.f
        assert f is not None
        # ℓ(w) − ℓ(w') as products of differences and sums: near a mode the losses agree to the last digit.
        fall = weighted(hyper, self.model.fall(tangent, f, rows))
        fall = fall - 0.5 * (hyper.weight_precision * move * (state.w + w)).sum(-1)
        predicted = 0.5 * (damping * straight.square().sum(-1) - (tangent.gradient(hyper) * straight).sum(-1))
        # A fall that the loss cannot resolve in its dtype is neither good nor bad: take the step.
        rounding = _rounding(tangent, hyper)
        unresolved = (predicted < rounding) & (fall.abs() <= rounding)
        return Proposal(w, straight, torch.where(unresolved, 1.0, fall / predicted), H.failed, there)

    def _bend(
        self, tangent: TangentModel, rows: Rows, hyper: Hyper, H: Precision, straight: Tensor
    ) -> Tensor:
        """Geodesic acceleration (Transtrum and Sethna, 2012): −½ (H + λI)⁻¹ J̃ᵀ B rootᵀ f'' along the step.

        It follows a curved valley round its bends for one more forward pass and one more solve. A correction
        that is not small beside the step itself is not trusted.
        """
        assert tangent.f is not None
        ahead = self.model.outputs(tangent.w + PROBE * straight, rows)
        along = tangent.J.jvp(straight)
        second = 2 / PROBE * (tangent.whiten(ahead - tangent.f) / PROBE - along)
        pull = self.model.reduce(tangent.J.vjp(hyper.beta.unsqueeze(-2) * second))
        bend = -0.5 * H.solve(pull)
        trusted = bend.norm(dim=-1) <= LARGEST_BEND * straight.norm(dim=-1)
        return where_running(trusted, bend, torch.zeros_like(bend))

    def _arrivals(self, state: GaussNewtonState, rows: Rows, accepted: Tensor, proposal: Proposal) -> Arrival:
        """What is new at the accepted weights; of replicas that stay where they are nothing is computed."""
        due = bool(self._due(state))
        if accepted.all() and proposal.tangent is not None:
            return self._arrive(proposal.tangent, state.hyper, due)
        if not divisible(state.tangent, state.ggn, rows):
            w = where_running(accepted, proposal.w, state.w)
            return self._arrive(self.model.linearise(w, rows), state.hyper, due)
        chosen = torch.nonzero(accepted).squeeze(-1)
        hyper, some = state.hyper, take(rows, chosen)
        if proposal.tangent is not None:
            tangent = take(proposal.tangent, chosen)
        else:
            tangent = self.model.linearise(proposal.w[chosen], some)
        part = self._arrive(tangent, hyper.with_values(hyper.alpha[chosen], hyper.beta[chosen]), due)
        before = Arrival(state.tangent, state.ggn, hyper, accepted, state.tangent.misfit[..., 0])
        return put(before, chosen, part)

    def _predicated(self, state: GaussNewtonState, accepted: Tensor, proposal: Proposal) -> Arrival:
        """The same without asking who moves, for steps that are recorded: computed for all, kept by some."""
        assert proposal.tangent is not None
        there = self._arrive(proposal.tangent, state.hyper, due=True)
        if self.update_every > 1:
            due = torch.as_tensor(self._due(state), device=accepted.device).expand_as(accepted)
            there = there._replace(
                hyper=there.hyper.where(due, state.hyper),
                failed=there.failed & due,
                evidence=torch.where(due, there.evidence, -torch.inf),
            )
        before = Arrival(state.tangent, state.ggn, state.hyper, accepted, there.evidence)
        return where(accepted, there, before)

    def _due(self, state: GaussNewtonState) -> bool | Tensor:
        """Whether the hyperparameters are updated at this step."""
        return state.step % self.update_every == 0

    def _arrive(self, tangent: TangentModel, hyper: Hyper, due: bool) -> Arrival:
        """The curvature at new weights and, if an update is due, what it makes of the hyperparameters."""
        ggn = self.model.ggn(tangent)
        if not due:
            unknown = torch.full_like(tangent.misfit[..., 0], -torch.inf)
            return Arrival(tangent, ggn, hyper, torch.zeros_like(unknown, dtype=torch.bool), unknown)
        H = ggn.at(hyper)
        new = self._update(tangent, hyper, H)
        return Arrival(tangent, ggn, new, H.failed, laplace_evidence(tangent, hyper, H))

    def _move(
        self, state: GaussNewtonState, accepted: Tensor, proposed: Tensor, there: Arrival
    ) -> GaussNewtonState:
        """Take the accepted weights and what was found at them."""
        w = where_running(accepted, proposed, state.w)
        hyper = there.hyper.where(accepted, state.hyper)
        misfit, failed = there.tangent.misfit, there.failed & accepted
        ending = state.ending.check(state.step, w, hyper, misfit=misfit, failed=failed)
        moved = accepted & ending.running
        return replace(
            state,
            w=w,
            hyper=hyper.where(moved, state.hyper),
            ending=ending,
            best=state.best.update(moved, state.step, w, state.hyper, there.evidence),
            tangent=there.tangent,
            ggn=there.ggn,
        )

    def _without(self, state: GaussNewtonState, rows: Rows, pruned: Tensor) -> GaussNewtonState:
        """The state with the weights of groups at zero that were `pruned` (…, g) just now.

        A step that is predicated does not ask: there the next proposal puts them to zero.
        """
        if not pruned.any():
            return state
        w = state.w * state.hyper.alive
        tangent = self.model.linearise(w, rows)
        return replace(state, w=w, tangent=tangent, ggn=self.model.ggn(tangent))

    def _update(self, tangent: TangentModel, hyper: Hyper, H: Precision) -> Hyper:
        return mackay_update(hyper, statistics(tangent, hyper, H, self.mean(tangent, hyper, H)), prune=True)


def _rounding(tangent: TangentModel, hyper: Hyper) -> Tensor:
    """What rounding does to the loss: (…).

    Where the noise is small, most comes from the outputs: f is known to a few ε |f|, and β (y − f) times that
    is far larger than ε times the loss.
    """
    assert tangent.f is not None
    by_output = tangent.reduce(by_scale((tangent.slope * tangent.f).abs(), tangent.scales))
    units = ROUNDING * tangent.nn_loss(hyper).abs() + OUTPUT_ROUNDING * weighted(hyper, by_output)
    return torch.finfo(units.dtype).eps * units


class Arrival(NamedTuple):
    """New weights' tangent model and curvature, the hyperparameters updated at them, and L_f before that.

    `failed` (…) where H had no factor. Where no update was due, none was asked for, and L_f is −∞.
    """

    tangent: TangentModel
    ggn: GGN
    hyper: Hyper
    failed: Tensor
    evidence: Tensor


class Proposal(NamedTuple):
    """New weights, the step to them before its bend, and how the loss takes it.

    `gain` (…) is the fall of the loss as a share of the predicted one; `failed` (…) where H had no factor;
    `tangent` the tangent model at w, where a network has it for the price of its outputs.
    """

    w: Tensor
    straight: Tensor
    gain: Tensor
    failed: Tensor
    tangent: TangentModel | None


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
