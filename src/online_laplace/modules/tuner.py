"""OnlineLaplace: weight decay and noise level learnt inside the user's own training loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from online_laplace.errors import InputError, known_name
from online_laplace.likelihood import Likelihood
from online_laplace.model.prior import Hyper, initial_hyper
from online_laplace.model.tensor_prior import GPrior, PriorChoice, tensor_prior
from online_laplace.modules.autocast import full_precision
from online_laplace.modules.batch import Inputs, arguments, row_count
from online_laplace.modules.cadence import EVERY_STEP, Cadence
from online_laplace.modules.checks import (
    check_finite,
    check_mode,
    check_module,
    check_rows_apart,
    check_settings,
    is_whole,
)
from online_laplace.modules.draws import check_draws, random_states
from online_laplace.modules.learner import Learner
from online_laplace.modules.observer import Observer
from online_laplace.modules.penalty import Penalised
from online_laplace.modules.posterior import ModulePosterior
from online_laplace.modules.processes import check_meeting
from online_laplace.modules.record import Update, by_name
from online_laplace.modules.size import AUTO, check_fits, choose
from online_laplace.modules.structures import (
    USUAL_PROBES,
    WITHOUT_MATRICES,
    Probes,
    check_structure,
    chosen_names,
)
from online_laplace.modules.targets import check_likelihood, data_loss, heads_of, kind_of
from online_laplace.modules.view import ModuleView, checked_outputs, unwrapped
from online_laplace.progress import say
from online_laplace.types import Reduce, alone

# On an accelerator, the calls between two losses whose module, targets and value are looked at.
LOOK_AT_VALUES = 100


class OnlineLaplace:
    """Learns the precisions of the prior and of the noise while any optimiser trains any module.

    For each batch: `loss` is what to minimise, `update` looks at the curvature at its cadence and moves the
    precisions. `posterior` then makes predictions with error bars. The module is only ever read.

    Args:
        model: the module, (rows, …) → (rows, outputs). Parameters without requires_grad are left out.
        likelihood: "gaussian", "categorical", "bernoulli", "poisson", or a Likelihood of the core.
        n_data: how many training rows there are, in all processes together.
        curvature: "auto", which picks by size and says why on stderr, or "full", "block" (per layer),
            "kron", "diagonal", "last-layer", "matrix-free", "sampling" or "subset". The last layer is
            the one registered last, from which the outputs must come, or one for each kind of outputs; the
            others then have neither a prior nor a curvature, and the weight decay of the optimiser may act on
            them. Matrix-free is the whole curvature, of all rows (see `update_all`), and sampling the same
            estimated by draws from the posterior. Subset is a lower bound from the rows of each batch.
        prior: "scalar", one precision for all weights; "layerwise", one for each parameter tensor; the group
            of each parameter, as a mapping or function of its name; or `GPrior` of any of these.
        alpha, beta: the precisions to start from.
        cadence: when to look at the curvature. By default at every call where a batch is all the rows, else
            as `Cadence` has it.
        probes: how many random signs stand for the outputs in kron and diagonal, usually 1; None takes each
            output, at the cost of a backward pass for each (kron) or of a gradient for each row (diagonal).
            Under matrix-free and sampling, how many solves γ and the evidence are estimated from, usually
            10; under subset, how many outputs of each row are taken, usually 1.
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
        check_likelihood(likelihood, model)
        check_settings(mean, normalisation, cadence, reduce, seed)
        check_rows_apart(model)
        check_meeting(model, reduce)
        n_data, (kind, scales) = int(n_data), kind_of(likelihood)
        check = partial(
            check_structure,
            at_mode=mean == "mode",
            accept=normalisation == "accept",
            by_weight=isinstance(prior, GPrior),
            scales=scales,
            shared=reduce is not alone,
        )
        if curvature == AUTO:
            curvature, reason = choose(unwrapped(model), heads_of(likelihood), check)
            say(reason)
        self.model, self.n_data, self.curvature, self.mean = model, n_data, curvature, mean
        self.view = ModuleView(model, chosen_names(unwrapped(model), curvature, heads_of(likelihood)))
        check(curvature, self.view)
        check_fits(curvature, self.view)
        self.reduce = reduce
        like = self.view.parameters[0].detach()
        count: Any = USUAL_PROBES.get(curvature, 1) if probes == "usual" else probes
        count = int(count) if is_whole(count) else count
        signs = Probes(count, torch.Generator(like.device).manual_seed(int(seed)))
        groups = tensor_prior(self.view.tensors, prior, like)
        self._observer = Observer(self.view, likelihood, groups, curvature, n_data, reduce)
        hyper = initial_hyper(groups, like.new_empty(self.view.d_w), alpha=alpha, beta=beta)
        noise = hyper.beta.new_full((max(1, scales),), beta if scales else 1.0)
        hyper = hyper.with_values(hyper.alpha, noise)
        self._learner = Learner(hyper, n_data, mean, curvature, signs, cadence, kind)
        self._penalised: Penalised | None = None

    @property
    def hyper(self) -> Hyper:
        """The precisions as they are now: α by group, β by noise precision."""
        return self._learner.hyper

    @property
    def alpha(self) -> dict[str, float]:
        """The prior precisions by the names of their groups."""
        return by_name(self.hyper.prior.names, self.hyper.alpha)

    @property
    def beta(self) -> Tensor:
        """The noise precisions (b,); one that is not learnt is 1."""
        return self.hyper.beta

    @property
    def probes(self) -> Probes:
        """How sums over outputs are taken."""
        return self._learner.probes

    @property
    def last(self) -> Update | None:
        """The last update of the precisions; None before the first."""
        return self._learner.last

    @property
    def calls(self) -> int:
        """How many times `update` and `update_all` have been called."""
        return self._learner.calls

    @property
    def looks(self) -> int:
        """How many of these calls have looked at the curvature."""
        return self._learner.looks

    def loss(self, x: Inputs, y: Tensor, *, reduction: str = "sum") -> Tensor:
        """−log p(y | f) + ½ Σ α w² at the current precisions, estimated from a batch.

        It is ℓ_f with the normaliser of the noise, of which the weights know nothing, so that losses at
        different noise compare.
        The batch's part of the data loss is scaled to all n_data rows. With reduction="mean" all of it is
        divided by n_data, so that gradients have the size that most learning rates are meant for. Raises
        DivergedError for a loss that is no finite number; on an accelerator, which would have to be waited
        for, now and then and whenever `update` looks.
        """
        known_name("reduction", reduction, ("sum", "mean"))
        look = self.hyper.alpha.device.type == "cpu" or self.calls % LOOK_AT_VALUES == 0
        if look:
            check_mode(self.model)
            self.view.check_unchanged()
        positional, named = arguments(x)
        rows = self._observer.rows(x)
        self._observer.meet(x)
        before = random_states(self.hyper.alpha.device) if look else []
        f = checked_outputs(self.model(*positional, **named), rows).to(self.hyper.alpha.dtype)
        if look:
            check_draws(self.view, before, x)
        likelihood = self._observer.settle(f)
        data = data_loss(likelihood, f, y, self.hyper, look=look)
        loss = (self.n_data / rows) * data + self._penalty()
        if look:
            check_finite(loss.detach(), f.detach())
        return loss if reduction == "sum" else loss / self.n_data

    @full_precision
    @torch.no_grad()
    def update(self, x: Inputs, y: Tensor) -> Update | None:
        """Look at the curvature of a batch, if it is time, and move the precisions; what was done, or None.

        Raises DivergedError where that leaves the numbers that can be used; the precisions stay then.
        """
        self._learner.calls += 1
        cadence = self._settled_cadence(x)
        if not cadence.is_due(self.calls, self._learner.looked):
            return None
        self.view.check_unchanged()
        tangent, sums = self._observer.look(self.view.values(), x, y, self.probes)
        if self.curvature in WITHOUT_MATRICES and sums.rows < self.n_data:
            raise InputError(
                f"{self.curvature} curvature does not add up over batches at different weights: leave update "
                "out, and call update_all(loader) once an epoch"
            )
        return self._learner.gather(tangent, sums, cadence)

    @full_precision
    @torch.no_grad()
    def update_all(self, loader: Iterable[Any]) -> Update:
        """Move the precisions once, from the curvature of all rows of the loader at the present weights.

        It is what `update` does with all rows in one batch, and knows nothing of earlier batches. Raises
        InputError where the loader does not have n_data rows, DivergedError as `update` does.
        """
        self._learner.calls += 1
        self.view.check_unchanged()
        tangent, sums = self._observer.look_at_all(self.view.values(), loader, self.probes)
        return self._learner.move(tangent, sums)

    @full_precision
    @torch.no_grad()
    def posterior(self, loader: Iterable[Any], *, probes: int | None = None) -> ModulePosterior:
        """The Gaussian over the weights as they are now, from the curvature of all rows of the loader.

        `probes` as for the tuner, by default all outputs. Subsets tell of no posterior over the weights, and
        the diagonal one is taken. Classes of the likelihood "categorical" are predicted at a temperature that
        training rows choose, each left out in turn (full and kron): see `modules/temperature.py`.
        Raises InputError where the loader does not have n_data rows.
        """
        return ModulePosterior.of(self._observer, self.hyper, loader, replace(self.probes, count=probes))

    def state_dict(self) -> dict[str, Any]:
        """All that a later run needs to go on: tensors and plain values, for torch.save."""
        return self._learner.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave. Raises InputError for the state of another model."""
        self._learner.load(state)

    def _penalty(self) -> Tensor:
        """½ Σ α w² at the present precisions."""
        if self._penalised is None or self._penalised.hyper is not self.hyper:
            self._penalised = Penalised.of(self.hyper, self.view.parameters)
        return self._penalised()

    def _settled_cadence(self, x: Inputs) -> Cadence:
        """The cadence, by default that of full batches where the first batch is all rows."""
        if self._learner.cadence is None:
            rows = self.reduce(self.hyper.alpha.new_tensor(float(row_count(x))))
            self._learner.cadence = EVERY_STEP if round(float(rows)) == self.n_data else Cadence()
        return self._learner.cadence
