"""The exact curvature in the cheapest of its forms."""

from __future__ import annotations

from collections.abc import Callable

from online_laplace.curvature.costs import cheapest, work_of
from online_laplace.curvature.dual import build_dual
from online_laplace.curvature.layer_kernels import separable
from online_laplace.curvature.layered import build_layered
from online_laplace.curvature.primal import build_primal
from online_laplace.model.jacobian import BlockJacobian, Jacobian
from online_laplace.model.layered import LayeredJacobian
from online_laplace.model.precision import GGN, Structure
from online_laplace.model.prior import Prior
from online_laplace.model.tangent import TangentModel
from online_laplace.types import alone

BUILD: dict[str, Callable[[TangentModel, Prior], GGN]] = {
    "primal": build_primal,
    "dual": build_dual,
    "layered": build_layered,
}


def build_exact(tangent: TangentModel, prior: Prior) -> GGN:
    """Whichever form is the cheapest; primal where J̃ or the rows are not all here."""
    if isinstance(tangent.J, BlockJacobian) or tangent.reduce is not alone:
        return build_primal(tangent, prior)
    return BUILD[exact_form(tangent.J, prior)](tangent, prior)


exact = Structure("auto", build_exact)


def exact_form(J: Jacobian, prior: Prior) -> str:
    """The form in which the whole of H costs least: primal, dual or, by the factors of J, layered."""
    n, k, d = J.shape[-3:]
    layers = J.layers if isinstance(J, LayeredJacobian) else ()
    # What enters and what leaves each layer, a column of ones included.
    widths = sum(sum(layer.weight.shape) + 1 for layer in layers)
    works = work_of(n * k, d, widths, len(layers), len(prior) > 1)
    if not separable(J, prior):
        del works["layered"]
    return cheapest(works)
