"""Which weights share a prior precision: one group, one per tensor, one per input (ARD), or any grouping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from online_laplace.errors import InputError, known_name
from online_laplace.model.network import Network
from online_laplace.types import Hyper

STRUCTURES = ("scalar", "layerwise", "ard")


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

    def to(self, device: torch.device) -> Prior:
        """The same prior with its tensors on another device."""
        return replace(self, sizes=self.sizes.to(device), membership=self.membership.to(device))

    def expand(self, alpha: Tensor) -> Tensor:
        """One value per group (…, g) → one per weight (…, d_w); a single group is left to broadcast."""
        return alpha if len(self) == 1 else alpha @ self.membership.mT

    def log_det(self, alpha: Tensor) -> Tensor:
        """log det A for the precisions (…, g): (…)."""
        return (self.sizes * alpha.log()).sum(-1)

    def sum(self, values: Tensor) -> Tensor:
        """One value per weight (…, d_w) → the sum over each group (…, g)."""
        return values.sum(-1, keepdim=True) if len(self) == 1 else values @ self.membership


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


def weight_labels(network: Network, structure: str) -> list[str]:
    """The group of every weight under a named structure.

    scalar: one group. layerwise: one per parameter tensor. ard: one per input, holding its fan-out in the
    first weight matrix, and one per remaining tensor.
    """
    known_name("prior", structure, STRUCTURES)
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
    network: Network,
    w: Tensor,
    *,
    prior: str | Sequence[str] = "scalar",
    alpha: float = 1.0,
    beta: float = 1.0,
    beta_per_output: bool = False,
) -> Hyper:
    """Hyperparameters to start from, shaped to the replicas of `w` (…, d_w).

    `prior` is a structure's name or a label per weight. Raises InputError for a non-positive precision.
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not (0 < value < float("inf")):
            raise InputError(f"initial {name} must be a positive, finite precision, not {value}")
    labels = weight_labels(network, prior) if isinstance(prior, str) else list(prior)
    if len(labels) != network.d_w:
        raise InputError(f"the grouping has {len(labels)} labels for {network.d_w} weights")
    groups = group_prior(labels, w)
    replicas = w.shape[:-1]
    outputs = network.d_out if beta_per_output else 1
    return Hyper(w.new_full((*replicas, len(groups)), alpha), w.new_full((*replicas, outputs), beta), groups)
