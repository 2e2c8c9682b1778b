"""How a run ends, replica by replica: converged, step limit, diverged, or not positive definite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.model.prior import Hyper
from online_laplace.types import Count

CONVERGED = "converged"
STEP_LIMIT = "step limit"
DIVERGED = "diverged"
NOT_POSITIVE_DEFINITE = "not positive definite"

ADVICE = (
    "keep the weights of best evidence, use a single prior precision, stop earlier or, with Adam, lower the "
    "learning rate"
)

# From the best end to the worst.
SEVERITY = (CONVERGED, STEP_LIMIT, NOT_POSITIVE_DEFINITE, DIVERGED)

# What a replica's code says; 0 is a replica that is still running.
_CONVERGED_CODE = 1
_CURVATURE_CODE = 2
_WEIGHTS_CODE = 3
_QUANTITIES = {_WEIGHTS_CODE: "the weights", 4: "alpha", 5: "beta", 6: "the likelihood of the targets"}


@dataclass(frozen=True)
class Outcome:
    """The end of one replica: its kind, the step it came at, and what to do about it."""

    kind: str
    step: int
    detail: str = ""

    def __str__(self) -> str:
        """The kind, with the detail where there is one."""
        return f"{self.kind}: {self.detail}" if self.detail else self.kind

    @property
    def failed(self) -> bool:
        """Whether it left numbers that cannot be used."""
        return SEVERITY.index(self.kind) > SEVERITY.index(STEP_LIMIT)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of several."""
    return max(outcomes, key=lambda outcome: SEVERITY.index(outcome.kind))


class Ending(NamedTuple):
    """Which replicas have ended, why and when. Tensors (…), so that a step never waits for the device."""

    code: Tensor
    step: Tensor

    @classmethod
    def none(cls, w: Tensor) -> Ending:
        """Every replica of w (…, d_w) is running."""
        running = torch.zeros(w.shape[:-1], dtype=torch.int64, device=w.device)
        return cls(running, running.clone())

    @property
    def running(self) -> Tensor:
        """Which replicas go on: (…) of bool."""
        return self.code == 0

    @property
    def failed(self) -> Tensor:
        """Which replicas ended with numbers that cannot be used: (…) of bool."""
        return self.code > _CONVERGED_CODE

    def mark(self, code: int | Tensor, where: Tensor, step: Count) -> Ending:
        """End the running replicas of `where` with `code`; those that ended earlier keep their reason."""
        new = where & self.running
        return Ending(torch.where(new, code, self.code), torch.where(new, step, self.step))

    def converged(self, where: Tensor, step: Count) -> Ending:
        """End the replicas that met the tolerance."""
        return self.mark(_CONVERGED_CODE, where, step)

    def curvature_failed(self, where: Tensor, step: Count) -> Ending:
        """End the replicas whose H had no Cholesky factor."""
        return self.mark(_CURVATURE_CODE, where, step)

    def weights_lost(self, w: Tensor, step: Count) -> Ending:
        """End the replicas whose weights are no longer numbers."""
        return self.mark(_WEIGHTS_CODE, ~_finite(w), step)

    def check(
        self,
        step: Count,
        w: Tensor,
        hyper: Hyper,
        *,
        misfit: Tensor | None = None,
        failed: Tensor | None = None,
    ) -> Ending:
        """End the replicas whose numbers are no longer usable, naming the first that was not.

        `misfit` (…, b) is ‖z‖², which overflows where a target has no probability left; `failed` (…) marks
        those whose H had no factor.
        """
        code = torch.where(resolvable(hyper.beta).all(-1), 0, 5)
        if misfit is not None:
            code = torch.where(_finite(misfit), code, 6)
        code = torch.where(resolvable(hyper.alpha).all(-1), code, 4)
        if failed is not None:
            code = torch.where(failed, _CURVATURE_CODE, code)
        code = torch.where(_finite(w), code, _WEIGHTS_CODE)
        return self.mark(code, code > 0, step)

    def outcomes(self, last_step: Count, dtype: torch.dtype) -> list[Outcome]:
        """One outcome per replica, in order; those still running ended at `last_step`."""
        steps = torch.where(self.running, last_step, self.step)
        pairs = zip(self.code.reshape(-1).tolist(), steps.reshape(-1).tolist(), strict=True)
        return [_outcome(code, step, dtype) for code, step in pairs]


def _finite(w: Tensor) -> Tensor:
    """Whether all weights are numbers; half the operations of isfinite. Shape (…)."""
    return (w - w == 0).all(-1)


def resolvable(precision: Tensor) -> Tensor:
    """Whether a precision is one that its dtype can still tell apart from zero and from infinity.

    Inputs and target are of order one. A precision below ε leaves weights of order 1/√ε, and one above ε^−3/2
    is beyond that of a pruned group: nothing computed from either means anything.
    """
    epsilon = torch.finfo(precision.dtype).eps
    return precision.clamp(epsilon, epsilon**-1.5) == precision


def _outcome(code: int, step: int, dtype: torch.dtype) -> Outcome:
    if code == 0:
        return Outcome(STEP_LIMIT, step)
    if code == _CONVERGED_CODE:
        return Outcome(CONVERGED, step)
    if code == _CURVATURE_CODE:
        advice = "use float64" if dtype == torch.float32 else ADVICE
        return Outcome(
            NOT_POSITIVE_DEFINITE,
            step,
            f"H could not be factorised in {_name(dtype)} at step {step}; {advice}",
        )
    what = f"{_QUANTITIES[code]} left the numbers that {_name(dtype)} resolves"
    return Outcome(DIVERGED, step, f"{what} at step {step}; {ADVICE}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
