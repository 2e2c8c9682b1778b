"""The floor of one exact step: the arithmetic that no exact step can do without, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack


def floor(J: NDArray, shift: float = 1.0) -> Callable[[], NDArray]:
    """One symmetric product of J (n, d), one Cholesky factorisation, one triangular inverse, as a call.

    The call returns U⁻¹ of G + shift·I = UᵀU in its upper triangle, where G is the smaller of JᵀJ and JJᵀ.
    SciPy's BLAS and LAPACK are called as they are: no copies, every result over its operand, in one matrix
    that is allocated here and now. Whatever a step does besides costs it a ratio above one.
    """
    if not J.flags.c_contiguous:
        raise ValueError("J must be contiguous, or its product would include a copy of it")
    dual = J.shape[0] < J.shape[1]
    syrk, potrf, trtri = (
        (blas.dsyrk, lapack.dpotrf, lapack.dtrtri)
        if J.dtype == np.float64
        else (blas.ssyrk, lapack.spotrf, lapack.strtri)
    )
    matrix = np.zeros((min(J.shape),) * 2, dtype=J.dtype, order="F")
    diagonal = np.einsum("ii->i", matrix)
    # LAPACK reads columns, so that what it is given is Jᵀ.
    columns = J.T

    def run() -> NDArray:
        gram = syrk(1.0, columns, c=matrix, trans=dual, overwrite_c=1)
        np.add(diagonal, shift, out=diagonal)
        factor, info = potrf(gram, clean=0, overwrite_a=1)
        assert info == 0
        inverse, _ = trtri(factor, overwrite_c=1)
        return inverse

    return run
