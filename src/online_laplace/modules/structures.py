"""The structures of curvature that a module can have, by name: which weights, which matrix, at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from online_laplace.curvature import diagonal, exact, primal
from online_laplace.curvature.diagonal import DiagonalGGN
from online_laplace.curvature.kronecker import KroneckerGGN
from online_laplace.curvature.matrix_free import MatrixFreeGGN, Settings
from online_laplace.errors import InputError, known_name
from online_laplace.memory import limits
from online_laplace.model.precision import GGN, Structure
from online_laplace.model.prior import Prior
from online_laplace.model.tangent import TangentModel
from online_laplace.modules.checks import normalisations
from online_laplace.modules.jacobian import ModuleJacobian, RowsOperator
from online_laplace.modules.layers import check_layers, factors
from online_laplace.modules.view import ModuleView
from online_laplace.types import alone

FULL, DIAGONAL, KRON, LAST_LAYER, MATRIX_FREE = "full", "diagonal", "kron", "last-layer", "matrix-free"
NAMES = (FULL, DIAGONAL, KRON, LAST_LAYER, MATRIX_FREE)

# How many probes by default: one vector of signs a batch, of which many are averaged, or solves of one look.
USUAL_PROBES = {MATRIX_FREE: 10}


@dataclass(frozen=True)
class Probes:
    """How a sum over outputs is taken: all of them where `count` is None, else by so many random signs.

    Where the outputs are sampled, so are the positions of large convolutions.
    """

    count: int | None
    generator: torch.Generator

    def __post_init__(self) -> None:
        """Refuse a number that is none."""
        if self.count is not None and self.count < 1:
            raise InputError(f"there must be at least one probe, or None for all outputs; got {self.count}")

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

    def offset(self) -> tuple[int, int] | None:
        """Where the positions of convolutions that are looked at begin; None where all of them are."""
        if self.count is None:
            return None
        drawn = torch.randint(0, 2, (2,), generator=self.generator, device=self.generator.device).tolist()
        return drawn[0], drawn[1]

    def signs(self, like: Tensor) -> Tensor:
        """±1 with equal probability, in the shape of `like`."""
        drawn = torch.randint(0, 2, like.shape, generator=self.generator, device=self.generator.device)
        return (2 * drawn - 1).to(like)


def chosen_names(module: nn.Module, name: str) -> list[str] | None:
    """The parameters that a structure is about; None for all. Raises InputError for an unknown name."""
    known_name("curvature", name, ("auto", *NAMES))
    if name != LAST_LAYER:
        return None
    trainable = [n for n, p in module.named_parameters() if p.requires_grad]
    owner = trainable[-1].rpartition(".")[0]
    return [n for n in trainable if n.rpartition(".")[0] == owner]


def check_structure(name: str, view: ModuleView, *, at_mode: bool, accept: bool) -> None:
    """Refuse layers that a structure cannot handle. Raises InputError."""
    if at_mode and name not in (FULL, LAST_LAYER, MATRIX_FREE):
        raise InputError(
            f"the mode of the tangent model needs the whole curvature, and {name} is not: use "
            "curvature='full', 'last-layer' or 'matrix-free', or mean='weights'"
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
    if name == MATRIX_FREE:
        return Structure(MATRIX_FREE, lambda tangent, prior: build_matrix_free(tangent, probes))
    form = exact if all_rows else primal  # the dual form of mini-batches does not add up

    def build(tangent: TangentModel, prior: Prior) -> GGN:
        return form(_in_memory(tangent), prior)

    return Structure(name, build)


def build_kron(tangent: TangentModel, probes: Probes) -> KroneckerGGN:
    """Kronecker factors of the layers that the recorded pass saw."""
    J = tangent.J
    assert isinstance(J, ModuleJacobian)
    if tangent.scales > 1:
        raise InputError(
            "Kronecker factors are those of one noise precision: use scales=1 in the Gaussian likelihood, or "
            "another curvature"
        )
    blocks = factors(J.view, J.values, J.seen, J.f, probes.columns(J), probes.offset())
    return KroneckerGGN([block.map(tangent.reduce) for block in blocks])


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


def build_matrix_free(tangent: TangentModel, probes: Probes) -> MatrixFreeGGN:
    """The rows of a batch as an operator, and the diagonal as one vector of signs estimates it."""
    J = tangent.J
    assert isinstance(J, ModuleJacobian)
    if tangent.scales > 1 or tangent.reduce is not alone:
        raise InputError(
            "matrix-free curvature is for one noise precision and one process: use kron, diagonal or full"
        )
    diagonal = J.vjp(probes.signs(tangent.z)).square()
    count = USUAL_PROBES[MATRIX_FREE] if probes.count is None else probes.count
    return MatrixFreeGGN(
        [RowsOperator(J.view, J.values, J.X, J.root)], diagonal, Settings(count, probes.generator)
    )


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
