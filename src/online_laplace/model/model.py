"""The model: all that is chosen before training and never changes in it, as one value handed to everybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.likelihood.base import Likelihood, Local, by_scale
from online_laplace.model.jacobian import forward_rows, linearise_rows
from online_laplace.model.network import Network
from online_laplace.model.precision import GGN, Precision, Structure
from online_laplace.model.prior import Hyper, Prior, initial_hyper, network_prior
from online_laplace.model.tangent import TangentModel, penalty, weighted
from online_laplace.types import Reduce, Rows, alone


@dataclass(frozen=True)
class Model:
    """A network, how targets follow from its outputs, which weights share a precision, and what curvature is.

    `reduce` turns a sum over the rows at hand into the sum over all rows, where several processes share them.
    """

    network: Network
    likelihood: Likelihood
    prior: Prior
    curvature: Structure
    reduce: Reduce = alone

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other."""
        if self.network.d_out != self.likelihood.outputs:
            raise InputError(
                f"the likelihood needs {self.likelihood.outputs} outputs, but the network has "
                f"{self.network.d_out}"
            )
        if self.prior.weights != self.network.d_w:
            raise InputError(
                f"the prior governs {self.prior.weights} weights, but the network has {self.network.d_w}"
            )

    @classmethod
    def of(
        cls,
        network: Network,
        likelihood: Likelihood,
        prior: str | Sequence[str],
        curvature: Structure,
        like: Tensor | None = None,
    ) -> Model:
        """A model whose prior is named (scalar, layerwise, ard) or given as a label per weight.

        Under a named one the last layer's weights of a named head of the likelihood have groups of their own.
        Its tensors have the dtype and the device of `like`, by default float64 on the CPU.
        """
        like = torch.empty(0, dtype=torch.float64) if like is None else like
        return cls(network, likelihood, network_prior(network, prior, like, likelihood.heads), curvature)

    def initial_hyper(self, w: Tensor, *, alpha: float = 1.0, beta: float = 1.0) -> Hyper:
        """Hyperparameters to start from, for the replicas of w (…, d_w); a β that is not learnt is 1."""
        scales = self.likelihood.scales
        beta = beta if scales else 1.0
        return initial_hyper(self.prior, w, alpha=alpha, beta=beta, scales=max(1, scales))

    def outputs(self, w: Tensor, rows: Rows) -> Tensor:
        """f(w, X): (…, n, k)."""
        return forward_rows(self.network, w, rows.X)

    def data_loss(self, w: Tensor, rows: Rows) -> Tensor:
        """−log p(y | f(w)) at β = 1 of the rows at hand, by precision, less its normaliser: (…, b)."""
        return self._local(self.outputs(w, rows), rows).total(max(1, self.likelihood.scales))

    def nn_loss(self, w: Tensor, rows: Rows, hyper: Hyper) -> Tensor:
        """ℓ_f(w) = −log p(y | f(w)) + ½ Σ α w², full sums, the normalisers of β and α apart: (…)."""
        return weighted(hyper, self.reduce(self.data_loss(w, rows))) + penalty(hyper, w)

    def linearise(self, w: Tensor, rows: Rows) -> TangentModel:
        """The whitened tangent model at w (…, d_w) on these rows."""
        f, J = linearise_rows(self.network, w, rows.X)
        local = self._local(f, rows)
        n = rows.size if self.reduce is alone else self.reduce(torch.as_tensor(rows.size).to(w))
        return TangentModel(w, local, J.whitened(local.root), n, self.likelihood, f, self.reduce)

    def fall(self, tangent: TangentModel, f_new: Tensor, rows: Rows) -> Tensor:
        """By how much −log p at β = 1 falls from the tangent's outputs to f_new (…, n, k): (…, b)."""
        assert tangent.f is not None
        each = self.likelihood.fall(tangent.f, f_new, rows.y)
        each = each if rows.weight is None else rows.weight.unsqueeze(-1) * each
        return self.reduce(by_scale(each, tangent.scales))

    def _local(self, f: Tensor, rows: Rows) -> Local:
        local = self.likelihood.local(f, rows.y)
        return local if rows.weight is None else local.weighted(rows.weight)

    def whitens_nothing(self, rows: Rows) -> bool:
        """Whether J̃ is J on these rows: Gaussian noise that knows of no weights."""
        one = rows.y[..., :1, :]
        return rows.weight is None and self.likelihood.local(one, one).root is None

    def ggn(self, tangent: TangentModel) -> GGN:
        """The first stage of its curvature: what depends on the weights alone."""
        return self.curvature(tangent, self.prior)

    def precision(self, tangent: TangentModel, hyper: Hyper) -> Precision:
        """Both stages at once, for those who ask for one set of hyperparameters and no other."""
        return self.ggn(tangent).at(hyper, last=True)

    def to(self, device: torch.device) -> Model:
        """The same with its tensors on another device."""
        return replace(self, prior=self.prior.to(device))
