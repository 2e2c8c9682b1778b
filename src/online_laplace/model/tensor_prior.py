"""A prior over whole parameter tensors: groups without a matrix of weights by groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from online_laplace.errors import InputError, known_name
from online_laplace.model.network import TensorSlot
from online_laplace.model.prior import Prior

PRIORS = ("scalar", "layerwise")

# A name of PRIORS, or the group of each parameter by its name.
Groups = str | Mapping[str, str] | Callable[[str], str]


@dataclass(frozen=True)
class GPrior:
    """Precisions α times what the rows say of each weight: the mean of (J̃ᵀJ̃)_jj over them (g-prior).

    Where a layer's scale is arbitrary, as before a normalisation layer, multiplying its weights by c divides
    their part of J by c and this precision by c²: the prior, and the evidence, stay the same function.
    """

    groups: Groups = "scalar"


PriorChoice = Groups | GPrior


@dataclass(frozen=True)
class TensorPrior(Prior):
    """A prior whose groups are whole tensors; `membership` (tensors, g) has a row per tensor, not weight."""

    lengths: tuple[int, ...] = ()

    @property
    def weights(self) -> int:
        """The number of weights that it governs."""
        return sum(self.lengths)

    def by_tensor(self, alpha: Tensor) -> Tensor:
        """One value per group (…, g) → one per tensor."""
        return alpha @ self.membership.mT

    def expand(self, alpha: Tensor) -> Tensor:
        """One value per group (…, g) → one per weight (…, d_w); a single group is left to broadcast."""
        if len(self) == 1:
            return alpha
        each = self.by_tensor(alpha)
        return torch.cat(
            [each[..., i : i + 1].expand(*each.shape[:-1], n) for i, n in enumerate(self.lengths)], dim=-1
        )

    def sum(self, values: Tensor) -> Tensor:
        """One value per weight (…, d_w) → the sum over each group (…, g)."""
        if len(self) == 1:
            return values.sum(-1, keepdim=True)
        return (
            torch.stack([part.sum(-1) for part in values.split(self.lengths, dim=-1)], -1) @ self.membership
        )

    def to(self, device: torch.device) -> TensorPrior:
        """The same prior with its tensors on another device."""
        return replace(self, sizes=self.sizes.to(device), membership=self.membership.to(device))


@dataclass(frozen=True)
class ScaledPrior(TensorPrior):
    """A tensor prior whose weights have the precisions α times `relative` (d_w,), one number a weight."""

    relative: Tensor = field(default_factory=lambda: torch.ones(()))

    @property
    def uniform(self) -> bool:
        """Never, whatever the groups are."""
        return False

    def precisions(self, alpha: Tensor) -> Tensor:
        """The diagonal of A for the precisions (…, g): (…, d_w)."""
        return self.expand(alpha) * self.relative

    def norm(self, v: Tensor) -> Tensor:
        """vᵀ A v of each group at α = 1, for weights (…, d_w): (…, g)."""
        return self.sum(self.relative * v.square())

    def log_det(self, alpha: Tensor) -> Tensor:
        """log det A for the precisions (…, g): (…)."""
        return super().log_det(alpha) + self.relative.log().sum(-1)

    def seen(self, curvature: Tensor) -> ScaledPrior:
        """The prior that goes with the mean diagonal (d_w,) of the rows' curvature.

        A weight that no row has seen has the mean of its tensor; in a tensor that no row has seen, one.
        """
        parts = []
        for part in curvature.split(self.lengths):
            mean = part.mean()
            unseen = torch.where(mean > 0, mean, torch.ones_like(mean))
            parts.append(torch.where(part > 0, part, unseen))
        return replace(self, relative=torch.cat(parts))

    def to(self, device: torch.device) -> ScaledPrior:
        """The same prior with its tensors on another device."""
        return replace(
            self,
            sizes=self.sizes.to(device),
            membership=self.membership.to(device),
            relative=self.relative.to(device),
        )


def tensor_prior(tensors: Sequence[TensorSlot], choice: PriorChoice, like: Tensor) -> TensorPrior:
    """The prior of a named choice, or of a group per parameter name, in the dtype of `like`.

    scalar: one group. layerwise: one per parameter tensor. Raises InputError for a name without a group.
    """
    groups = choice.groups if isinstance(choice, GPrior) else choice
    labels = [_label(slot.name, groups) for slot in tensors]
    names = tuple(dict.fromkeys(labels))
    membership = like.new_zeros(len(labels), len(names))
    for row, label in enumerate(labels):
        membership[row, names.index(label)] = 1
    lengths = tuple(slot.size for slot in tensors)
    sizes = membership.mT @ like.new_tensor(lengths)
    if isinstance(choice, GPrior):
        return ScaledPrior(names, sizes, membership, lengths, like.new_ones(sum(lengths)))
    return TensorPrior(names, sizes, membership, lengths)


def _label(name: str, choice: Groups) -> str:
    if isinstance(choice, Mapping):
        if name not in choice:
            raise InputError(f"the prior names no group for the parameter {name}")
        return str(choice[name])
    if callable(choice):
        return str(choice(name))
    known_name("prior", choice, PRIORS)
    return "all" if choice == "scalar" else name
