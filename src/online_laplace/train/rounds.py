"""Online Laplace by first-order steps: rounds of Adam, and an update of the precisions after each.

For networks whose curvature is too dear to be asked for at every step, or of which a part is asked for alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from online_laplace.hyper.mackay import at_weights, mackay_update, statistics
from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent, DescentState
from online_laplace.train.loop import where_running
from online_laplace.types import Rows

# Steps of a round, and a rate that falls by two thirds in ten of them.
ROUND = 20
OPTIMISER = Adam(lr=0.01, decay=0.995)


@dataclass(frozen=True)
class Rounds:
    """OL: a step of this procedure is a round of so many `steps` of Adam on ℓ_f, and MacKay's update."""

    model: Model
    optimiser: Adam = OPTIMISER
    steps: int = ROUND

    @property
    def recordable(self) -> bool:
        """No: a round is long, and to start its kernels costs little beside them."""
        return False

    def init(self, w: Tensor, hyper: Hyper, rows: Rows) -> DescentState:
        """The first weights w (…, d_w), no moments."""
        return self._descent.init(w, hyper, rows)

    def step(self, state: DescentState, rows: Rows) -> DescentState:
        """Descend at the precisions that there are, then look at the curvature and update them."""
        moved = state
        for _ in range(self.steps):
            moved = self._descent.step(moved, rows)
        tangent = self.model.linearise(moved.w, rows)
        H = self.model.precision(tangent, state.hyper)
        seen = statistics(tangent, state.hyper, H, at_weights(tangent, state.hyper, H))
        hyper = mackay_update(state.hyper, seen)
        step = state.step + 1
        ending = state.ending.check(step, moved.w, hyper, misfit=tangent.misfit, failed=H.failed)
        return replace(
            moved,
            w=where_running(ending.running, moved.w, state.w),
            hyper=hyper.where(ending.running, state.hyper),
            ending=ending,
            step=step,
        )

    @property
    def _descent(self) -> Descent:
        return Descent(self.model, self.optimiser)
