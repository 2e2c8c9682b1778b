"""The prior over the weights, and the hyperparameters: which weights share a precision, and what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from online_laplace.errors import InputError, known_name
from online_laplace.model.network import CONSTANTS, DERIVED, Network, TensorSlot

PRIORS = ("scalar", "layerwise", "ard")


@dataclass(frozen=True)
class Prior:
    """A partition of the d_w weights into named groups, each with its own α.

    `membership` (d_w, g) holds a one in row j, column g when weight j belongs to group g. A product with it
    sums within groups; unlike a scatter it is deterministic on every device and batches over replicas.
    """

    names: tuple[str, ...]
    sizes: Tensor
    membership: Tensor

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.names)

    @property
    def weights(self) -> int:
        """The number of weights that it governs."""
        return self.membership.shape[0]

    @property
    def uniform(self) -> bool:
        """Whether all weights have one and the same precision."""
        return len(self) == 1

    def to(self, device: torch.device) -> Prior:
        """The same prior with its tensors on another device."""
        return replace(self, sizes=self.sizes.to(device), membership=self.membership.to(device))

    @cached_property
    def columns(self) -> Tensor:
        """Which group each weight is in: (d_w,)."""
        return self.membership.argmax(-1)

    @cached_property
    def _axes(self) -> dict[TensorSlot, str]:
        """Found out once: a step must not wait for a device."""
        return {}

    def axis(self, tensor: TensorSlot) -> str:
        """What the groups within a matrix (out, in) or a vector (out,) follow: "in", "out" or "both".

        "one" where there is a single group.
        """
        if tensor not in self._axes:
            groups = tensor.read(self.columns).reshape(tensor.shape[0], -1)
            by_in, by_out = bool((groups == groups[:1]).all()), bool((groups == groups[:, :1]).all())
            found = {(True, True): "one", (True, False): "in", (False, True): "out", (False, False): "both"}
            self._axes[tensor] = found[by_in, by_out]
        return self._axes[tensor]

    def expand(self, alpha: Tensor) -> Tensor:
        """One value per group (…, g) → one per weight (…, d_w); a single group is left to broadcast."""
        return alpha if len(self) == 1 else alpha @ self.membership.mT

    def precisions(self, alpha: Tensor) -> Tensor:
        """The diagonal of A for the precisions (…, g): (…, d_w), or (…, 1) where it is `uniform`."""
        return self.expand(alpha)

    def norm(self, v: Tensor) -> Tensor:
        """vᵀ A v of each group at α = 1, for weights (…, d_w): (…, g)."""
        return self.sum(v.square())

    def log_det(self, alpha: Tensor) -> Tensor:
        """log det A for the precisions (…, g): (…)."""
        return (self.sizes * alpha.log()).sum(-1)

    def sum(self, values: Tensor) -> Tensor:
        """One value per weight (…, d_w) → the sum over each group (…, g)."""
        return values.sum(-1, keepdim=True) if len(self) == 1 else values @ self.membership


def pruned_precision(dtype: torch.dtype) -> float:
    """The α of a group that is pruned: it stands for infinity.

    What a group with such an α adds to any sum is below the rounding of its dtype, so that a model with a
    pruned group, whose weights are zero, is the model without that group; and every formula still holds.
    """
    return float(torch.finfo(dtype).eps ** -1.25)


@dataclass(frozen=True)
class Hyper:
    """The hyperparameters M: prior precisions α (…, g), noise precisions β (…, 1) or (…, k).

    `prior` says which weights each α governs. All values are precisions. A likelihood that learns no β has
    one that stays at 1.
    """

    alpha: Tensor
    beta: Tensor
    prior: Prior = field(metadata=DERIVED)

    @property
    def weight_precision(self) -> Tensor:
        """The diagonal of A, one precision per weight: (…, d_w), or (…, 1) where all are equal."""
        return self.prior.precisions(self.alpha)

    @property
    def scalar(self) -> bool:
        """Whether both precisions are single numbers, so that one decomposition serves all their values."""
        return self.prior.uniform and self.beta.shape[-1] == 1

    @property
    def pruned(self) -> Tensor:
        """Which groups are out of the problem: (…, g) of bool."""
        return self.alpha >= pruned_precision(self.alpha.dtype)

    @property
    def alive(self) -> Tensor:
        """Zero for the weights of pruned groups, one for all others: (…, d_w), or (…, 1) for one group."""
        return self.prior.expand((~self.pruned).to(self.alpha.dtype))

    def to(self, device: torch.device) -> Hyper:
        """The same hyperparameters on another device."""
        return Hyper(self.alpha.to(device), self.beta.to(device), self.prior.to(device))

    def with_values(self, alpha: Tensor, beta: Tensor) -> Hyper:
        """The same structure with other values."""
        return replace(self, alpha=alpha, beta=beta)

    def where(self, mask: Tensor, other: Hyper) -> Hyper:
        """These values for the replicas of `mask` (…), those of `other` elsewhere."""
        chosen = mask.unsqueeze(-1)
        alpha = torch.where(chosen, self.alpha, other.alpha)
        return self.with_values(alpha, torch.where(chosen, self.beta, other.beta))


def network_prior(
    network: Network, structure: str | Sequence[str], like: Tensor, heads: Sequence[str] = ()
) -> Prior:
    """The prior of a named structure, or of a label per weight, in the dtype and on the device of `like`.

    Under a named structure, the weights of the last layer that belong to a named head, one of `heads` that is
    not "", have groups of their own: "<head> weight" and "<head> bias", or "<head>" where it is a constant.
    Given labels stay as they are.
    """
    labels = weight_labels(network, structure, heads) if isinstance(structure, str) else list(structure)
    if len(labels) != network.d_w:
        raise InputError(f"the grouping has {len(labels)} labels for {network.d_w} weights")
    return group_prior(labels, like)


def group_prior(labels: Sequence[str], like: Tensor) -> Prior:
    """The prior of a user-given grouping: `labels` names, weight by weight, the group it belongs to."""
    names = tuple(dict.fromkeys(labels))
    if not names:
        raise InputError("a prior needs at least one weight to govern")
    column = {name: position for position, name in enumerate(names)}
    columns = torch.tensor([column[label] for label in labels], device=like.device)
    membership = torch.zeros(len(labels), len(names), dtype=like.dtype, device=like.device)
    membership[torch.arange(len(labels), device=like.device), columns] = 1
    return Prior(names, membership.sum(0), membership)


def weight_labels(network: Network, structure: str, heads: Sequence[str] = ()) -> list[str]:
    """The group of every weight under a named structure.

    scalar: one group. layerwise: one per parameter tensor. ard: one per input, holding its fan-out in the
    first weight matrix, and one per remaining tensor. All but the weights of named heads.
    """
    known_name("prior", structure, PRIORS)
    labels = _structured(network, structure)
    if any(heads):
        if len(heads) != network.d_out:
            raise InputError(f"{len(heads)} heads were named for {network.d_out} outputs")
        last = network.tensors[-1]
        constants = last.shape[0] if last.name == CONSTANTS else 0
        varying = network.d_out - constants
        for tensor in _last_layer(network.tensors[:-1] if constants else network.tensors, varying):
            kind = " bias" if len(tensor.shape) == 1 else " weight"
            _label_heads(labels, tensor, heads[:varying], kind)
        if constants:
            _label_heads(labels, last, heads[varying:], "")
    return labels


def _label_heads(labels: list[str], tensor: TensorSlot, heads: Sequence[str], kind: str) -> None:
    """Name the rows of a tensor, one an output, that belong to a named head."""
    each = tensor.size // len(heads)
    for position, head in enumerate(heads):
        start = tensor.start + position * each
        if head:
            labels[start : start + each] = [head + kind] * each


def _last_layer(tensors: Sequence[TensorSlot], outputs: int) -> list[TensorSlot]:
    """The last weight tensor with a row for each output, and the bias after it where there is one."""
    *_, before, last = (None, *tensors)
    pair = [before, last] if before is not None and len(last.shape) == 1 else [last]
    if len(pair[0].shape) < 2 or any(tensor.shape[0] != outputs for tensor in pair):
        raise InputError(
            f"the likelihood names heads, but {pair[0].name} of shape {tuple(pair[0].shape)} has no row for "
            f"each of {outputs} outputs: give the prior as a label per weight"
        )
    return pair


def _structured(network: Network, structure: str) -> list[str]:
    if structure == "scalar":
        return ["all"] * network.d_w
    labels = [tensor.name for tensor in network.tensors for _ in range(tensor.size)]
    if structure == "ard":
        first = network.tensors[0]
        if len(first.shape) != 2:
            raise InputError(
                f"the ard prior needs a first tensor of shape (units, inputs); "
                f"{first.name} has shape {tuple(first.shape)}"
            )
        units, inputs = first.shape
        labels[: first.size] = [f"input {i}" for i in range(inputs)] * units
    return labels


def initial_hyper(
    prior: Prior, w: Tensor, *, alpha: float = 1.0, beta: float = 1.0, scales: int = 1
) -> Hyper:
    """Hyperparameters to start from, shaped to the replicas of `w` (…, d_w).

    Raises InputError for a non-positive precision.
    """
    given: dict[str, Any] = {"alpha": alpha, "beta": beta}
    for name, value in given.items():
        is_number = isinstance(value, int | float | Tensor)
        if not is_number or not 0 < value < float("inf"):
            raise InputError(f"initial {name} must be a positive, finite precision, not {value}")
    replicas = w.shape[:-1]
    return Hyper(w.new_full((*replicas, len(prior)), alpha), w.new_full((*replicas, scales), beta), prior)
