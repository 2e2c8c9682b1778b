"""The precisions, and all that the next update of them needs beside the module itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from online_laplace.curvature.kronecker import KroneckerGGN
from online_laplace.curvature.matrix_free import MatrixFreePrecision
from online_laplace.curvature.spectra import Spectra
from online_laplace.curvature.subset import SubsetGGN
from online_laplace.errors import InputError
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel
from online_laplace.model.tensor_prior import ScaledPrior, TensorPrior
from online_laplace.modules.cadence import EVERY_STEP, Cadence, limited
from online_laplace.modules.record import Update, by_name
from online_laplace.modules.step import Step, check_step, take_step
from online_laplace.modules.structures import Probes
from online_laplace.modules.sums import Sums


@dataclass(eq=False)
class Learner:
    """Gathers what looks find, and moves the precisions by it at a cadence.

    `looked` is the call of the last look, `refreshed` the look of the last eigenvalues, whose `shapes` are
    kept. `likelihood` is the name of its kind.
    """

    hyper: Hyper
    n_data: int
    mean: str
    curvature: str
    probes: Probes
    cadence: Cadence | None
    likelihood: str
    calls: int = 0
    looks: int = 0
    looked: int = 0
    refreshed: int = 0
    sums: Sums | None = None
    shapes: Spectra | None = None
    last: Update | None = None

    def gather(self, tangent: TangentModel, sums: Sums, cadence: Cadence) -> Update | None:
        """Add what a batch says to what earlier ones left, and move the precisions if that is enough."""
        if self.sums is not None and cadence.decay > 0:
            before = self.sums.scaled(cadence.decay) if cadence.decay < 1 else self.sums
            sums = before + sums
        if cadence.decay == 1 and sums.rows < self.n_data:
            self.sums, self.looks, self.looked = sums, self.looks + 1, self.calls
            return None
        return self.move(tangent, sums, cadence, fresh=sums.rows == self.n_data == float(tangent.n))

    def move(
        self, tangent: TangentModel, sums: Sums, cadence: Cadence = EVERY_STEP, *, fresh: bool = True
    ) -> Update:
        """Take the step that the sums lead to; `fresh` where they are those of all rows at these weights."""
        before = self._with_prior(sums)
        stale = self.shapes is None or cadence.is_stale(self.looks, self.refreshed)
        shapes = self.shapes
        if stale and isinstance(sums.ggn, KroneckerGGN):
            shapes = sums.ggn.shapes()
        step = take_step(before, tangent, sums, self.n_data, self.mean, shapes)
        hyper, held_back = limited(before, step.hyper, cadence.limit)
        check_step(self.calls, tangent.w, hyper, step)
        # Nothing above has changed this object, so that what fails leaves it as it was.
        if stale:
            self.shapes, self.refreshed = shapes, self.looks
        self.hyper, self.sums = hyper, sums if 0 < cadence.decay < 1 else None
        self.looks, self.looked = self.looks + 1, self.calls
        self.last = self._record(sums, step, hyper, held_back, fresh)
        return self.last

    def _with_prior(self, sums: Sums) -> Hyper:
        """The precisions under the prior that goes with these sums: a g-prior follows the curvature."""
        if not isinstance(self.hyper.prior, ScaledPrior):
            return self.hyper
        return replace(self.hyper, prior=self.hyper.prior.seen(sums.ggn.diagonal() / sums.rows))

    def _record(
        self, sums: Sums, step: Step, hyper: Hyper, held_back: tuple[str, ...], fresh: bool
    ) -> Update:
        names, H = hyper.prior.names, step.H
        estimate = H.estimate if isinstance(H, MatrixFreePrecision) else None
        subset = sums.ggn if isinstance(sums.ggn, SubsetGGN) else None
        return Update(
            call=self.calls,
            alpha=by_name(names, hyper.alpha),
            gamma=by_name(names, step.seen.gamma),
            beta=hyper.beta.tolist(),
            evidence=float(step.evidence),
            structure=self.curvature,
            exact=H.exact and fresh and estimate is None,
            rows=sums.rows if subset is None else subset.rows,
            n_data=self.n_data,
            probes=None if H.exact and estimate is None else self.probes.count,
            held_back=held_back,
            pruned=tuple(name for name, gone in by_name(names, hyper.pruned).items() if gone),
            evidence_error=None if estimate is None else 0.5 * float(estimate.log_contraction_error),
            gamma_error=None if estimate is None else by_name(names, estimate.gamma_error),
            together=None if subset is None else subset.together,
        )

    def state(self) -> dict[str, Any]:
        """All that a later run needs to go on: tensors and plain values by name."""
        prior = self.hyper.prior
        assert isinstance(prior, TensorPrior)
        return {
            "likelihood": self.likelihood,
            "groups": list(prior.names),
            "sizes": list(prior.lengths),
            "n_data": self.n_data,
            "curvature": self.curvature,
            "alpha": self.hyper.alpha,
            "beta": self.hyper.beta,
            "relative": prior.relative if isinstance(prior, ScaledPrior) else None,
            "calls": self.calls,
            "looks": self.looks,
            "looked": self.looked,
            "refreshed": self.refreshed,
            "sums": None if self.sums is None else self.sums.state(),
            "shapes": None if self.shapes is None else list(self.shapes),
            "generator": self.probes.generator.get_state(),
            "cadence": None if self.cadence is None else asdict(self.cadence),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave. Raises InputError for the state of something else."""
        own = self.state()
        if not isinstance(state, Mapping) or (lost := [name for name in own if name not in state]):
            what = f"it has no {lost[0]}" if isinstance(state, Mapping) else f"it is a {type(state).__name__}"
            raise InputError(f"this is not what state_dict gave: {what}")
        for name in ("likelihood", "groups", "sizes", "n_data", "curvature"):
            if state[name] != own[name]:
                verb = "are" if isinstance(own[name], list) else "is"
                raise InputError(
                    f"the state is of another run: its {name} {verb} {state[name]}, not {own[name]}"
                )
        if (state["relative"] is None) != (own["relative"] is None):
            raise InputError("the state is of another run: one of the two has a g-prior, the other has not")
        like, prior = self.hyper.alpha, self.hyper.prior
        for name, count in (("alpha", len(like)), ("beta", len(self.hyper.beta))):
            if state[name].shape != (count,):
                raise InputError(
                    f"the state is of another run: {name} is {state[name].numel()} precisions, not {count}"
                )
        if isinstance(prior, ScaledPrior):
            prior = replace(prior, relative=state["relative"].to(like).clone())
        # Copied, since what is given may be what another object goes on with.
        self.hyper = Hyper(state["alpha"].to(like).clone(), state["beta"].to(like).clone(), prior)
        self.shapes = None
        if state["shapes"] is not None:
            self.shapes = Spectra(*(part.to(like) for part in state["shapes"]))
        self.sums = None if state["sums"] is None else Sums.from_state(state["sums"], like)
        self.calls, self.looks = int(state["calls"]), int(state["looks"])
        self.looked, self.refreshed = int(state["looked"]), int(state["refreshed"])
        self.cadence = None if state["cadence"] is None else Cadence(**state["cadence"])
        self.probes.generator.set_state(state["generator"].cpu())
