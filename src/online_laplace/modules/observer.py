"""Looks at a module's rows: what a batch, or all of a loader, adds to curvature and loss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.likelihood import Likelihood
from online_laplace.model.tangent import TangentModel
from online_laplace.model.tensor_prior import TensorPrior
from online_laplace.modules.autocast import full_precision
from online_laplace.modules.batch import Inputs, pairs, row_count
from online_laplace.modules.checks import check_finite
from online_laplace.modules.first_look import check_first_rows
from online_laplace.modules.jacobian import linearise, tangent_model
from online_laplace.modules.structures import KRON, Probes, structure
from online_laplace.modules.sums import Sums
from online_laplace.modules.targets import as_targets, likelihood_of
from online_laplace.modules.view import ModuleView, Values
from online_laplace.types import Reduce


class Observer:
    """A module's view with all that is chosen about it: likelihood, prior, structure, rows in all."""

    def __init__(
        self,
        view: ModuleView,
        likelihood: str | Likelihood,
        prior: TensorPrior,
        curvature: str,
        n_data: int,
        reduce: Reduce,
    ) -> None:
        """Hold what was chosen; a likelihood by name is settled by the first outputs."""
        self.view, self.prior, self.curvature = view, prior, curvature
        self.n_data, self.reduce = n_data, reduce
        self._choice = likelihood
        self.likelihood: Likelihood | None = None
        self._met = False

    def with_curvature(self, curvature: str) -> Observer:
        """The same about another structure."""
        choice = self._choice if self.likelihood is None else self.likelihood
        return Observer(self.view, choice, self.prior, curvature, self.n_data, self.reduce)

    @property
    def by_name(self) -> bool:
        """Whether the likelihood was given by its name, so that how it predicts is ours to choose."""
        return isinstance(self._choice, str)

    def settle(self, f: Tensor) -> Likelihood:
        """The likelihood, which a name alone does not tell before the first outputs are seen."""
        if self.likelihood is None:
            self.likelihood = likelihood_of(self._choice, f.shape[-1])
        elif self.likelihood.outputs != f.shape[-1]:
            raise InputError(
                f"the module had {self.likelihood.outputs} outputs so far and has {f.shape[-1]} now"
            )
        return self.likelihood

    def rows(self, x: Inputs) -> int:
        """How many rows a batch has. Raises InputError for none, and for more than there are data."""
        rows = row_count(x)
        if rows == 0:
            raise InputError("the batch is empty: there are no rows to learn from")
        if rows > self.n_data:
            raise InputError(
                f"n_data is {self.n_data:,}, but one batch has {rows:,} rows: n_data is the number of all "
                "training rows"
            )
        return rows

    @full_precision
    def meet(self, x: Inputs) -> None:
        """Refuse, at the first batch that is seen, what only a pass through the module can tell."""
        if not self._met:
            check_first_rows(self.view, x, self.curvature)
            self._met = True

    def look(self, values: Values, x: Inputs, y: Tensor, probes: Probes) -> tuple[TangentModel, Sums]:
        """The tangent model of one batch and what it adds to the sums."""
        rows = self.rows(x)
        self.meet(x)
        J = linearise(self.view, values, x, layers=self.curvature == KRON)
        likelihood = self.settle(J.f)
        tangent = tangent_model(J, as_targets(likelihood, y, J.f), likelihood, self.reduce)
        check_finite(tangent.loss, J.f.detach())
        form = structure(self.curvature, probes, all_rows=rows == self.n_data)
        return tangent, Sums.of(tangent, form(tangent, self.prior))

    def look_at_all(self, values: Values, loader: Iterable[Any], probes: Probes) -> tuple[TangentModel, Sums]:
        """The last batch's tangent model, and the sums over all rows of a loader, which must be n_data."""
        total: Sums | None = None
        for x, y in pairs(loader):
            tangent, sums = self.look(values, x, y, probes)
            total = sums if total is None else total + sums
        assert total is not None
        check_all_rows(total.rows, self.n_data)
        return tangent, total


def check_all_rows(rows: float, n_data: int) -> None:
    """Refuse a loader that gives more or fewer rows than there are. Raises InputError."""
    if round(rows) != n_data:
        raise InputError(
            f"n_data is {n_data:,}, but the loader has {round(rows):,} rows: give the number of training "
            "rows as n_data, and a loader of each of them once (drop_last=False, no sampling with "
            "replacement; for a DistributedSampler, which pads, rows that the processes can share evenly)"
        )
