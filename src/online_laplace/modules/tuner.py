"""OnlineLaplace: weight decay and noise level learnt inside the user's own training loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from online_laplace.curvature.kronecker import Basis, KroneckerPrecision
from online_laplace.curvature.matrix_free import MatrixFreePrecision
from online_laplace.errors import DivergedError, InputError, known_name
from online_laplace.likelihood import Likelihood
from online_laplace.model.prior import Hyper, initial_hyper
from online_laplace.model.tangent import TangentModel, weighted
from online_laplace.model.tensor_prior import PriorChoice, tensor_prior
from online_laplace.modules.batch import Inputs, arguments, pairs, row_count
from online_laplace.modules.cadence import EVERY_STEP, Cadence, Update, by_name, limited
from online_laplace.modules.checks import (
    check_finite,
    check_mode,
    check_module,
    check_repeatable,
    check_rows_apart,
)
from online_laplace.modules.jacobian import linearise, tangent_model
from online_laplace.modules.penalty import penalty
from online_laplace.modules.posterior import ModulePosterior
from online_laplace.modules.size import AUTO, check_fits, choose
from online_laplace.modules.state import Progress
from online_laplace.modules.step import check_step, take_step
from online_laplace.modules.structures import (
    KRON,
    MATRIX_FREE,
    USUAL_PROBES,
    Probes,
    check_structure,
    chosen_names,
    structure,
)
from online_laplace.modules.sums import Sums
from online_laplace.modules.targets import as_targets, check_likelihood, likelihood_of
from online_laplace.modules.view import ModuleView, Values, checked_outputs, unwrapped
from online_laplace.progress import say
from online_laplace.types import Reduce, alone

MEANS = ("weights", "mode")

# On an accelerator, the losses between two looks at the values of the targets.
LOOK_AT_TARGETS = 100


class OnlineLaplace:
    """Learns the precisions of the prior and of the noise while any optimiser trains any module.

    For each batch: `loss` is what to minimise, `update` looks at the curvature at its cadence and moves the
    precisions. `posterior` then makes predictions with error bars. The module is only ever read.

    Args:
        model: the module, (rows, …) → (rows, outputs). Parameters without requires_grad are left out.
        likelihood: "gaussian", "categorical", "bernoulli", "poisson", or a Likelihood of the core.
        n_data: how many training rows there are, in all processes together.
        curvature: "auto", which picks by size and says why on stderr, or "full", "diagonal", "kron",
            "last-layer" or "matrix-free". Under last-layer, the other layers have neither a prior nor a
            curvature; the weight decay of the optimiser may act on them. Matrix-free is the whole curvature,
            of all rows: see `update_all`.
        prior: "scalar", one precision for all weights; "layerwise", one for each parameter tensor; or the
            group of each parameter, as a mapping or function of its name.
        alpha, beta: the precisions to start from.
        cadence: when to look at the curvature. By default at every call where a batch is all the rows, else
            as `Cadence` has it.
        probes: how many random signs stand for the outputs in kron and diagonal, usually 1; None takes each
            output, at the cost of a backward pass for each (kron) or of a gradient for each row (diagonal).
            Under matrix-free, how many solves γ and the evidence are estimated from, usually 10.
        mean: "weights" (OL), or "mode" (LM), the optimum of the tangent model; it needs the whole curvature
            of all rows in one batch.
        normalisation: "refuse" modules with normalisation layers where their scale invariance would make the
            evidence wrong, or "accept" them as they are.
        reduce: turns a sum over the rows of this process into that over all processes.
        seed: of the random signs.
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: str | Likelihood,
        *,
        n_data: int,
        curvature: str = AUTO,
        prior: PriorChoice = "layerwise",
        alpha: float = 1.0,
        beta: float = 1.0,
        cadence: Cadence | None = None,
        probes: int | str | None = "usual",
        mean: str = "weights",
        normalisation: str = "refuse",
        reduce: Reduce = alone,
        seed: int = 0,
    ) -> None:
        """Look at the module, and refuse what cannot be done with it. Raises InputError."""
        check_module(model, n_data)
        check_likelihood(likelihood)
        known_name("mean", mean, MEANS)
        known_name("choice about normalisation", normalisation, ("refuse", "accept"))
        check_rows_apart(model)
        check = partial(check_structure, at_mode=mean == "mode", accept=normalisation == "accept")
        if curvature == AUTO:
            curvature, reason = choose(unwrapped(model), check)
            say(reason)
        self.model, self.n_data, self.curvature, self.mean = model, n_data, curvature, mean
        self.view = ModuleView(model, chosen_names(unwrapped(model), curvature))
        check(curvature, self.view)
        check_fits(curvature, self.view)
        self.cadence, self.reduce = cadence, reduce
        like = self.view.parameters[0].detach()
        count = USUAL_PROBES.get(curvature, 1) if isinstance(probes, str) else probes
        self.probes = Probes(count, torch.Generator(like.device).manual_seed(seed))
        self._choice = likelihood
        self._likelihood: Likelihood | None = None
        self._prior = tensor_prior(self.view.tensors, prior, like)
        self._start = (alpha, beta)
        self._hyper = initial_hyper(self._prior, like.new_empty(self.view.d_w), alpha=alpha, beta=beta)
        self._sums: Sums | None = None
        self._basis: tuple[Basis, ...] | None = None
        self.calls, self.looks, self._refreshed = 0, 0, 0
        self.last: Update | None = None

    @property
    def hyper(self) -> Hyper:
        """The precisions as they are now: α by group, β by noise precision."""
        return self._hyper

    @property
    def alpha(self) -> dict[str, float]:
        """The prior precisions by the names of their groups."""
        return by_name(self._prior.names, self._hyper.alpha)

    @property
    def beta(self) -> Tensor:
        """The noise precisions (b,); one that is not learnt is 1."""
        return self._hyper.beta

    def loss(self, x: Inputs, y: Tensor, *, reduction: str = "sum") -> Tensor:
        """ℓ_f = −log p(y | f) + ½ Σ α w² at the current precisions, estimated from a batch.

        The batch's part of the data loss is scaled to all n_data rows. With reduction="mean" all of it is
        divided by n_data, so that gradients have the size that most learning rates are meant for. Raises
        DivergedError for a loss that is no finite number.
        """
        known_name("reduction", reduction, ("sum", "mean"))
        check_mode(self.model)
        self.view.check_unchanged()
        positional, named = arguments(x)
        rows = self._checked_rows(x)
        f = checked_outputs(self.model(*positional, **named), rows).to(self._hyper.alpha.dtype)
        likelihood = self._settled(f)
        look = f.device.type == "cpu" or self.calls % LOOK_AT_TARGETS == 0
        local = likelihood.local(f, as_targets(likelihood, y, f, look=look))
        data = weighted(self._hyper, local.total(len(self._hyper.beta)))
        decay = penalty(self._prior.by_tensor(self._hyper.alpha), self.view.parameters)
        loss = (self.n_data / rows) * data + decay
        check_finite(loss.detach(), f.detach())
        return loss if reduction == "sum" else loss / self.n_data

    @torch.no_grad()
    def update(self, x: Inputs, y: Tensor) -> Update | None:
        """Look at the curvature of a batch, if it is time, and move the precisions; what was done, or None.

        Raises DivergedError where that leaves the numbers that can be used; the precisions stay then.
        """
        self.calls += 1
        cadence = self._settled_cadence(x)
        if self.calls % cadence.every:
            return None
        if self.looks == 0:
            check_repeatable(self.view, x)
        self.view.check_unchanged()
        tangent, sums = self._look(self.view.values(), x, y)
        if self.curvature == MATRIX_FREE and sums.rows < self.n_data:
            raise InputError(
                "matrix-free curvature does not add up over batches at different weights: leave update out, "
                "and call update_all(loader) once an epoch"
            )
        if self._sums is not None and cadence.decay > 0:
            sums = self._sums.scaled(cadence.decay) + sums if cadence.decay < 1 else self._sums + sums
        if cadence.decay == 1 and sums.rows < self.n_data:
            self._sums, self.looks = sums, self.looks + 1
            return None
        return self._apply(tangent, sums, cadence, fresh=sums.rows == self.n_data == float(tangent.n))

    @torch.no_grad()
    def update_all(self, loader: Iterable[Any]) -> Update:
        """Move the precisions once, from the curvature of all rows of the loader at the present weights.

        It is what `update` does with all rows in one batch, and knows nothing of earlier batches. Raises
        InputError where the loader does not have n_data rows, DivergedError as `update` does.
        """
        self.calls += 1
        self.view.check_unchanged()
        tangent, sums = self._look_at_all(self.view.values(), loader, self.probes)
        return self._apply(tangent, sums, EVERY_STEP, fresh=True)

    def _apply(self, tangent: TangentModel, sums: Sums, cadence: Cadence, *, fresh: bool) -> Update:
        """Take the step that the sums lead to; `fresh` where they are those of all rows at these weights."""
        keep = self._basis is not None and not cadence.is_stale(self.looks, self._refreshed)
        basis = self._basis if keep else None
        step = take_step(self._hyper, tangent, sums, self.n_data, self.mean, basis)
        hyper, held_back = limited(self._hyper, step.hyper, cadence.limit)
        check_step(self.calls, tangent.w, hyper, step)
        # Nothing above has changed this object, so that what fails leaves it as it was.
        if isinstance(step.H, KroneckerPrecision) and basis is None:
            self._basis, self._refreshed = step.H.basis, self.looks
        self._hyper, self._sums, self.looks = hyper, sums if 0 < cadence.decay < 1 else None, self.looks + 1
        estimate = step.H.estimate if isinstance(step.H, MatrixFreePrecision) else None
        self.last = Update(
            call=self.calls,
            alpha=self.alpha,
            gamma=by_name(self._prior.names, step.seen.gamma),
            beta=hyper.beta.tolist(),
            evidence=float(step.evidence),
            structure=self.curvature,
            exact=step.H.exact and fresh and estimate is None,
            rows=sums.rows,
            n_data=self.n_data,
            probes=None if step.H.exact and estimate is None else self.probes.count,
            held_back=held_back,
            pruned=tuple(name for name, gone in by_name(self._prior.names, hyper.pruned).items() if gone),
            evidence_error=None if estimate is None else 0.5 * float(estimate.log_contraction_error),
            gamma_error=None if estimate is None else by_name(self._prior.names, estimate.gamma_error),
        )
        return self.last

    @torch.no_grad()
    def posterior(self, loader: Iterable[Any], *, probes: int | None = None) -> ModulePosterior:
        """The Gaussian over the weights as they are now, from the curvature of all rows of the loader.

        `probes` as for the tuner, by default all outputs. Raises InputError where the loader does not have
        n_data rows.
        """
        values = self.view.snapshot()
        _, total = self._look_at_all(values, loader, replace(self.probes, count=probes))
        assert self._likelihood is not None
        H = total.ggn.at(self._hyper)
        if H.failed.any():
            raise DivergedError(
                f"the curvature could not be factorised in {self._hyper.alpha.dtype}: use float64, or "
                "curvature='kron' or 'diagonal'"
            )
        return ModulePosterior(self.view, values, self._hyper, H, self._likelihood)

    def state_dict(self) -> dict[str, Any]:
        """All that a later run needs to go on: tensors and plain values, for torch.save."""
        progress = Progress(
            self._hyper,
            self.calls,
            self.looks,
            self._refreshed,
            self._sums,
            self._basis,
            self.probes.generator,
            self.cadence,
        )
        return self._identity() | progress.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave. Raises InputError for the state of another model."""
        for name, value in self._identity().items():
            if state[name] != value:
                raise InputError(f"the state is of another run: its {name} is {state[name]}, not {value}")
        found = Progress.from_state(state, self._hyper, self.probes.generator)
        self._hyper, self._sums, self._basis = found.hyper, found.sums, found.basis
        self.calls, self.looks, self._refreshed = found.calls, found.looks, found.refreshed
        self.cadence = found.cadence

    def _identity(self) -> dict[str, Any]:
        """What a state must agree with to be one of this object's."""
        return {"groups": list(self._prior.names), "n_data": self.n_data, "curvature": self.curvature}

    def _look(
        self, values: Values, x: Inputs, y: Tensor, probes: Probes | None = None
    ) -> tuple[TangentModel, Sums]:
        """The tangent model of one batch and what it adds to the sums."""
        rows = self._checked_rows(x)
        J = linearise(self.view, values, x, layers=self.curvature == KRON)
        likelihood = self._settled(J.f)
        tangent = tangent_model(J, as_targets(likelihood, y, J.f), likelihood, self.reduce)
        check_finite(tangent.loss, J.f.detach())
        form = structure(self.curvature, probes or self.probes, all_rows=rows == self.n_data)
        return tangent, Sums.of(tangent, form(tangent, self._prior))

    def _look_at_all(
        self, values: Values, loader: Iterable[Any], probes: Probes
    ) -> tuple[TangentModel, Sums]:
        """The last batch's tangent model, and the sums over all rows of a loader, which must be n_data."""
        total: Sums | None = None
        for x, y in pairs(loader):
            tangent, sums = self._look(values, x, y, probes)
            total = sums if total is None else total + sums
        assert total is not None
        if round(total.rows) != self.n_data:
            raise InputError(
                f"n_data is {self.n_data:,}, but the loader has {round(total.rows):,} rows: give the number "
                "of training rows as n_data, and a loader of all of them (drop_last=False, no sampling with "
                "replacement)"
            )
        return tangent, total

    def _settled(self, f: Tensor) -> Likelihood:
        """The likelihood, which a name alone does not tell before the first outputs are seen."""
        if self._likelihood is None:
            self._likelihood = likelihood_of(self._choice, f.shape[-1])
            scales = self._likelihood.scales
            beta = self._start[1] if scales else 1.0
            if len(self._hyper.beta) != max(1, scales) or not scales:
                values = self._hyper.beta.new_full((max(1, scales),), beta)
                self._hyper = self._hyper.with_values(self._hyper.alpha, values)
        elif self._likelihood.outputs != f.shape[-1]:
            raise InputError(
                f"the module had {self._likelihood.outputs} outputs so far and has {f.shape[-1]} now"
            )
        return self._likelihood

    def _settled_cadence(self, x: Inputs) -> Cadence:
        """The cadence, by default that of full batches where the first batch is all rows."""
        if self.cadence is None:
            rows = self.reduce(self._hyper.alpha.new_tensor(float(row_count(x))))
            self.cadence = EVERY_STEP if round(float(rows)) == self.n_data else Cadence()
        return self.cadence

    def _checked_rows(self, x: Inputs) -> int:
        rows = row_count(x)
        if rows == 0:
            raise InputError("the batch is empty: there are no rows to learn from")
        if rows > self.n_data:
            raise InputError(
                f"n_data is {self.n_data:,}, but one batch has {rows:,} rows: n_data is the number of all "
                "training rows"
            )
        return rows
