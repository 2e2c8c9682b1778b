"""The structures of curvature that a module can have, by name: which weights, which matrix, at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from online_laplace.curvature import diagonal, exact, primal
from online_laplace.curvature.blocks import BlockGGN, build_blocks
from online_laplace.curvature.diagonal import DiagonalGGN
from online_laplace.curvature.kronecker import KroneckerGGN
from online_laplace.curvature.matrix_free import MatrixFreeGGN, Settings
from online_laplace.curvature.subset import SubsetGGN, part_of
from online_laplace.errors import InputError, known_name
from online_laplace.memory import limits
from online_laplace.model.precision import GGN, Structure
from online_laplace.model.prior import Prior
from online_laplace.model.tangent import TangentModel
from online_laplace.model.tensor_prior import ScaledPrior
from online_laplace.modules.checks import is_whole, normalisations
from online_laplace.modules.jacobian import ModuleJacobian, RowsOperator
from online_laplace.modules.last_layer import last_names
from online_laplace.modules.layers import check_layers, factors
from online_laplace.modules.rows import row_jacobian
from online_laplace.modules.view import ModuleView

FULL, BLOCK, DIAGONAL, KRON = "full", "block", "diagonal", "kron"
LAST_LAYER, MATRIX_FREE, SAMPLING, SUBSET = "last-layer", "matrix-free", "sampling", "subset"
NAMES = (FULL, BLOCK, KRON, DIAGONAL, LAST_LAYER, MATRIX_FREE, SAMPLING, SUBSET)

# Those made of products with J alone, of all rows.
WITHOUT_MATRICES = (MATRIX_FREE, SAMPLING)

# How many probes by default: one vector of signs a batch, of which many are averaged, or solves of one look.
USUAL_PROBES = {MATRIX_FREE: 10, SAMPLING: 10}


@dataclass(frozen=True)
class Probes:
    """How a sum over outputs is taken: all of them where `count` is None, else by so many random signs.

    Where the outputs are sampled, so are the positions of large convolutions.
    """

    count: int | None
    generator: torch.Generator

    def __post_init__(self) -> None:
        """Refuse a number that is none."""
        if self.count is not None and not (is_whole(self.count) and self.count >= 1):
            raise InputError(
                f"probes must be a whole number of at least 1, or None for all outputs, not {self.count!r}"
            )

    def columns(self, J: ModuleJacobian) -> Iterator[Tensor]:
        """Vectors (n, k) in the outputs, whose outer products sum to the curvature there.

        With random signs u, E[(root u)(root u)ᵀ] = root rootᵀ, row by row.
        """
        f = J.f.detach()
        if self.count is None:
            for position in range(f.shape[-1]):
                one = torch.zeros_like(f)
                one[:, position] = 1
                yield J.unwhitened(one)
        else:
            for _ in range(self.count):
                yield J.unwhitened(self.signs(f) * self.count**-0.5)

    def outputs(self, root: Tensor | None, like: Tensor) -> Tensor:
        """Columns of the roots (n, k, k), `count` different ones a row, or all: (n, count, k)."""
        n, k = like.shape
        if root is None:
            root = torch.eye(k, dtype=like.dtype, device=like.device).expand(n, k, k)
        if self.count is None or self.count >= k:
            return root.mT
        order = torch.rand((n, k), generator=self.generator, device=self.generator.device).argsort(-1)
        chosen = order[:, : self.count].to(like.device)
        return root.mT.gather(1, chosen.unsqueeze(-1).expand(-1, -1, k))

    def offset(self) -> tuple[float, float] | None:
        """Where the positions of convolutions that are looked at begin; None where all of them are."""
        if self.count is None:
            return None
        drawn = torch.rand(2, generator=self.generator, device=self.generator.device).tolist()
        return drawn[0], drawn[1]

    def signs(self, like: Tensor) -> Tensor:
        """±1 with equal probability, in the shape of `like`."""
        drawn = torch.randint(0, 2, like.shape, generator=self.generator, device=self.generator.device)
        return (2 * drawn - 1).to(like)


def chosen_names(module: nn.Module, name: str, heads: int) -> list[str] | None:
    """The parameters that a structure is about; None for all. Raises InputError for an unknown name.

    `heads` is how many outputs have kinds, and with these layers, of their own.
    """
    known_name("curvature", name, ("auto", *NAMES))
    return last_names(module, heads) if name == LAST_LAYER else None


def check_structure(
    name: str,
    view: ModuleView,
    *,
    at_mode: bool,
    accept: bool,
    by_weight: bool,
    scales: int = 1,
    shared: bool = False,
) -> None:
    """Refuse what a structure cannot handle, each with what can. Raises InputError.

    That is layers, priors `by_weight`, several noise precisions (`scales`), and rows that processes share.
    """
    if scales > 1 and name not in (FULL, DIAGONAL, LAST_LAYER):
        raise InputError(
            f"{name} curvature is for one noise precision, and there are {scales}: use scales=1 in the "
            "Gaussian likelihood, or full, diagonal or last-layer curvature"
        )
    if shared and name in (SUBSET, *WITHOUT_MATRICES):
        raise InputError(
            f"{name} curvature is for one process: leave reduce out, or use kron, block, diagonal, full or "
            "last-layer curvature"
        )
    if at_mode and name not in (FULL, LAST_LAYER, *WITHOUT_MATRICES):
        raise InputError(
            f"the mode of the tangent model needs the whole curvature, and {name} is not: use "
            "curvature='full', 'last-layer' or 'matrix-free', or mean='weights'"
        )
    if by_weight and name in (KRON, SUBSET):
        raise InputError(
            f"the g-prior has a precision for every weight, and {name} curvature has one for each tensor: "
            "use curvature='full', 'block', 'diagonal', 'last-layer' or 'matrix-free', or prior='layerwise'"
        )
    found = normalisations(view.module)
    if found and name != LAST_LAYER and not (at_mode or accept):
        raise InputError(
            f"{found[0]}{f' and {len(found) - 1} more' if len(found) > 1 else ''} makes the outputs "
            "independent of the scale of the weights before it, so that these are no mode of the posterior, "
            "and the evidence at them is wrong (Antorán et al., 2022). Use curvature='full' with "
            "mean='mode', which takes the tangent model at its own optimum; or curvature='last-layer'; or "
            "normalisation='accept' to go on as if they were a mode"
        )
    if name == KRON:
        check_layers(view)


def structure(name: str, probes: Probes, *, all_rows: bool) -> Structure:
    """How a structure is built from one batch; `all_rows` where that is all there are."""
    if name == KRON:
        return Structure(KRON, lambda tangent, prior: build_kron(tangent, probes), exact=False)
    if name == DIAGONAL:
        return Structure(DIAGONAL, lambda tangent, prior: build_diagonal(tangent, prior, probes), exact=False)
    if name == BLOCK:
        return Structure(BLOCK, lambda tangent, prior: build_layers(tangent), exact=False)
    if name in WITHOUT_MATRICES:
        return Structure(name, lambda tangent, prior: build_matrix_free(tangent, prior, probes, name))
    if name == SUBSET:
        return Structure(SUBSET, lambda tangent, prior: build_subset(tangent, probes), exact=False)

    def build(tangent: TangentModel, prior: Prior) -> GGN:
        # The dual form of mini-batches does not add up, and has no diagonal for a g-prior.
        form = exact if all_rows and not isinstance(prior, ScaledPrior) else primal
        return form(_in_memory(tangent), prior)

    return Structure(name, build)


def build_kron(tangent: TangentModel, probes: Probes) -> KroneckerGGN:
    """Kronecker factors of the layers that the recorded pass saw."""
    J = tangent.J
    assert isinstance(J, ModuleJacobian)
    blocks = factors(J.view, J.values, J.seen, J.f, probes.columns(J), probes.offset())
    return KroneckerGGN([block.map(tangent.reduce) for block in blocks])


def layer_lengths(view: ModuleView) -> list[int]:
    """How many weights each layer has, a layer being the module that owns them, in the flat order."""
    owners = groupby(view.tensors, key=lambda slot: slot.name.rpartition(".")[0])
    return [sum(slot.size for slot in slots) for _, slots in owners]


def build_layers(tangent: TangentModel) -> BlockGGN:
    """A block per layer."""
    J = tangent.J
    assert isinstance(J, ModuleJacobian)
    return build_blocks(tangent, layer_lengths(J.view))


def build_diagonal(tangent: TangentModel, prior: Prior, probes: Probes) -> GGN:
    """Sums of squares: of every row's gradient, or, E[(J̃ᵀu)²] = diag(J̃ᵀJ̃), by random signs u."""
    if probes.count is None:
        return diagonal(tangent, prior)
    total = tangent.w.new_zeros(tangent.scales, len(tangent.w))
    for _ in range(probes.count):
        u = probes.signs(tangent.z)
        parts = [u] if tangent.scales == 1 else [u * one for one in torch.eye(tangent.scales).to(u)]
        for row, part in enumerate(parts):
            total[row] += tangent.J.vjp(part).square() / probes.count
    return DiagonalGGN(tangent.reduce(total))


def build_subset(tangent: TangentModel, probes: Probes) -> Any:
    """The kernels of a batch's rows, each with some of its outputs."""
    J = tangent.J
    assert isinstance(J, ModuleJacobian)
    along = probes.outputs(J.root, J.f.detach())
    return SubsetGGN([part_of(row_jacobian(J.view, J.values, J.X, along), J.view.lengths)])


def build_matrix_free(tangent: TangentModel, prior: Prior, probes: Probes, name: str) -> MatrixFreeGGN:
    """The rows of a batch as an operator, and the diagonal as one vector of signs estimates it.

    A g-prior is made of the diagonal, and gets the diagonal itself, row by row.
    """
    J = tangent.J
    assert isinstance(J, ModuleJacobian)
    if isinstance(prior, ScaledPrior):
        squares = J.squares(1).squeeze(0)
    else:
        squares = J.vjp(probes.signs(tangent.z)).square()
    settings = Settings(
        USUAL_PROBES[name] if probes.count is None else probes.count, probes.generator, draws=name == SAMPLING
    )
    return MatrixFreeGGN([RowsOperator(J.view, J.values, J.X, J.root)], squares, settings)


def _in_memory(tangent: TangentModel) -> TangentModel:
    """The tangent model with all of J where it is small or has fewer rows than weights, as in the core."""
    J = tangent.J
    assert isinstance(J, ModuleJacobian)
    n, k, d = J.shape
    small = n * k * d * J.f.element_size() <= limits(J.f.device)[0]
    if not small and n * k >= d:
        return tangent
    return TangentModel(
        tangent.w, tangent.local, J.collected(), tangent.n, tangent.likelihood, tangent.f, tangent.reduce
    )
