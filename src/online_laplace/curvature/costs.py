"""What a training step costs in each exact form, and which is the cheapest.

The amounts of work are counted; what each kind costs, beside a multiplication inside a symmetric product, was
measured (benchmarks/forms.py, docs/data/forms.json).
"""

from __future__ import annotations

from typing import NamedTuple

FORMS = ("primal", "dual", "layered")


class Work(NamedTuple):
    """Amounts of work, or what one of each costs.

    Multiplications of symmetric products; d³ for a factor of order d and its inverse; multiplications of
    triangular solves; numbers of J that are written and read; entries of the small kernels that are made on
    the way; and d³ for an inverse that is multiplied out.
    """

    products: float
    cubes: float
    solves: float
    jacobian: float
    entries: float
    inverses: float


CONSTANTS = Work(products=1.0, cubes=0.43, solves=0.78, jacobian=160.0, entries=110.0, inverses=0.17)


def work_of(residuals: int, weights: int, widths: int, layers: int, grouped: bool) -> dict[str, Work]:
    """The work of every form: for rows times outputs, weights, and the widths of the layers added up.

    `grouped` says whether there is more than one α.
    """
    n, d = residuals, weights
    kernels = n * n * widths / 2
    return {
        "primal": Work(n * d * d / 2, d**3, 0, n * d, 0, 0),
        "dual": Work(n * n * d / 2, n**3, n * n * d / 2 if grouped else 0, (1 + grouped) * n * d, 0, 0),
        "layered": Work(
            (3 if grouped else 1) * kernels,
            n**3,
            0,
            0,
            (2 if grouped else 1) * layers * n * n,
            n**3 if grouped else 0,
        ),
    }


def cheapest(works: dict[str, Work], constants: Work = CONSTANTS) -> str:
    """The form of least cost; of equals the first."""
    return min(works, key=lambda form: _cost(works[form], constants))


def _cost(work: Work, constants: Work) -> float:
    return sum(amount * each for amount, each in zip(work, constants, strict=True))
