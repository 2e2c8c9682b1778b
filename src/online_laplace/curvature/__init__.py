"""Structures of curvature, one a file, each a function from a tangent model to the first of two stages."""

from __future__ import annotations

from online_laplace.curvature.diagonal import diagonal
from online_laplace.curvature.dual import dual
from online_laplace.curvature.exact import exact
from online_laplace.curvature.last_layer import last_layer
from online_laplace.curvature.layered import layered
from online_laplace.curvature.primal import primal
from online_laplace.curvature.spectral import spectral
from online_laplace.model.precision import Structure

__all__ = ["STRUCTURES", "diagonal", "dual", "exact", "last_layer", "layered", "primal", "spectral"]

# Those that a name on a command line or in a file can stand for.
STRUCTURES: dict[str, Structure] = {
    each.name: each for each in (exact, primal, dual, layered, spectral, diagonal, last_layer)
}
