"""SciPy's BLAS and LAPACK on the matrices of a batch, one replica after another, on the CPU.

torch multiplies whole squares where a triangle would do, and inverts a triangular matrix as it would solve
any system: on one thread that takes twice as long. SciPy's wrappers for Python hold the interpreter's lock in
some of these routines; the function pointers that it publishes for Cython do not, so that replicas can share
the cores.

To these column-major routines a row-major lower triangle is an upper one: hence every "U".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import torch
from scipy.linalg import cython_blas, cython_lapack
from torch import Tensor

from online_laplace.threads import blas_libraries, replica_threads, set_threads

# A triangle up to this size is inverted by LAPACK, a larger one by halves and products, which are faster.
SMALLEST_HALF = 64

# Multiplications, some ten milliseconds: beside them it costs little to wake a thread on a busy machine.
WORTH_A_THREAD = 1.5e8

_PREFIX = {torch.float64: "d", torch.float32: "s"}
_REAL = {torch.float64: ctypes.c_double, torch.float32: ctypes.c_float}


def serves(A: Tensor) -> bool:
    """Whether these routines can take the tensor."""
    return A.device.type == "cpu" and A.dtype in _PREFIX


def gram(A: Tensor, out: Tensor, *, of_rows: bool = False, add: bool = False) -> None:
    """Write the lower triangle of AᵀA, or of AAᵀ where `of_rows`, or `add` it: A (r, n, d), out (r, m, m)."""
    A = A if A.stride(-1) == 1 and A.stride(-2) >= A.shape[-1] else A.contiguous()
    (n, d), order = A.shape[-2:], out.shape[-1]
    along, trans = (d, b"T") if of_rows else (n, b"N")
    syrk, one, before = _routine("syrk", A.dtype), _real(1.0, A.dtype), _real(float(add), A.dtype)

    def work(i: int) -> None:
        syrk(
            b"U", trans, _int(order), _int(along), one, _at(A, i), _int(A.stride(-2)), before, _at(out, i),
            _int(order),
        )  # fmt: skip

    _for_each(len(A), work, order * order * along / 2)


def add_products(A: Tensor, B: Tensor, out: Tensor, *, add: bool) -> None:
    """Write A Bᵀ, or `add` it: A (r, m, d), B (r, n, d), and m·n adjacent numbers of each row of out (r, ·).

    The numbers in a row of A and B must be adjacent.
    """
    (m, d), n, dtype = A.shape[-2:], B.shape[-2], A.dtype
    gemm, one, before = _routine("gemm", dtype), _real(1.0, dtype), _real(float(add), dtype)

    def work(i: int) -> None:
        gemm(
            b"T", b"N", _int(n), _int(m), _int(d), one, _at(B, i), _int(B.stride(-2)), _at(A, i),
            _int(A.stride(-2)), before, _at(out, i), _int(n),
        )  # fmt: skip

    _for_each(len(A), work, m * n * d)


def cholesky_(H: Tensor) -> None:
    """Overwrite the lower triangles of H (r, d, d) with their factors; a NaN diagonal says there is none."""
    d = H.shape[-1]
    infos = [ctypes.c_int(0) for _ in range(len(H))]
    potrf = _routine("potrf", H.dtype)
    _for_each(len(H), lambda i: potrf(b"U", _int(d), _at(H, i), _int(d), ctypes.byref(infos[i])), d**3 / 6)
    for i, info in enumerate(infos):
        if info.value != 0:
            H[i].diagonal().fill_(torch.nan)


def invert_lower_(L: Tensor) -> None:
    """Overwrite the lower triangles of L (r, d, d) with their inverses."""
    d = L.shape[-1]
    _for_each(len(L), lambda i: _invert(_at(L, i), d, d, L.dtype), d**3 / 6)


def _invert(start: int, d: int, stride: int, dtype: torch.dtype) -> None:
    """One triangle by halves: the inverse of [A 0; B C] is [A⁻¹ 0; −C⁻¹ B A⁻¹ C⁻¹]."""
    if d <= SMALLEST_HALF:
        info = ctypes.byref(ctypes.c_int(0))
        _routine("trtri", dtype)(b"U", b"N", _int(d), start, _int(stride), info)
        return
    head = (d // 2 + 7) // 8 * 8
    tail = d - head
    size = torch.finfo(dtype).bits // 8
    below = start + size * head * stride
    corner = below + size * head
    _invert(start, head, stride, dtype)
    _invert(corner, tail, stride, dtype)
    trmm = _routine("trmm", dtype)
    for side, triangle, sign in ((b"L", start, -1.0), (b"R", corner, 1.0)):
        trmm(
            side, b"U", b"N", b"N", _int(head), _int(tail), _real(sign, dtype), triangle, _int(stride),
            below, _int(stride),
        )  # fmt: skip


def solve_(L: Tensor, b: Tensor, *, inverted: bool) -> None:
    """Overwrite b (r, d) with (L Lᵀ)⁻¹ b, given L or, where it is `inverted`, its inverse."""
    d = L.shape[-1]
    routine = _routine("trmv" if inverted else "trsv", L.dtype)

    def work(i: int) -> None:
        for trans in (b"T", b"N"):
            routine(b"U", trans, b"N", _int(d), _at(L, i), _int(d), _at(b, i), _int(1))

    _for_each(len(L), work, d * d)


def solve_lower_(L: Tensor, B: Tensor, *, inverted: bool, transposed: bool = False) -> None:
    """Overwrite B (r, d, m) with L⁻¹ B, or L⁻ᵀ B where `transposed`; L as for `solve_`."""
    d, m = B.shape[-2:]
    if m == 0:
        return
    if m == 1:  # a single column, for which the routine for many takes several times as long
        vector = _routine("trmv" if inverted else "trsv", L.dtype)
        side = b"N" if transposed else b"T"
        _for_each(
            len(L),
            lambda i: vector(b"U", side, b"N", _int(d), _at(L, i), _int(d), _at(B, i), _int(1)),
            d * d / 2,
        )
        return
    routine, one = _routine("trmm" if inverted else "trsm", L.dtype), _real(1.0, L.dtype)
    trans = b"T" if transposed else b"N"

    def work(i: int) -> None:
        routine(
            b"R", b"U", trans, b"N", _int(m), _int(d), one, _at(L, i), _int(d), _at(B, i), _int(m)
        )  # fmt: skip

    _for_each(len(L), work, d * d * m / 2)


def transposed_product_(L: Tensor) -> None:
    """Overwrite the lower triangles of L (r, d, d) with those of LᵀL."""
    d = L.shape[-1]
    info, lauum = ctypes.byref(ctypes.c_int(0)), _routine("lauum", L.dtype)
    _for_each(len(L), lambda i: lauum(b"U", _int(d), _at(L, i), _int(d), info), d**3 / 6)


def squared_norms(A: Tensor) -> Tensor:
    """The sum of the squares of each matrix: (r, d, d) → (r,)."""
    dot, size = _routine("dot", A.dtype, _REAL[A.dtype]), _int(A[0].numel())
    norms = [dot(size, _at(A, i), _int(1), _at(A, i), _int(1)) for i in range(len(A))]
    return torch.tensor(norms, dtype=A.dtype, device=A.device)


def _for_each(count: int, work: Callable[[int], None], products: float) -> None:
    """Do the work for every replica: side by side if there are enough of them, else with threads inside.

    `products` are the multiplications that one replica takes. Where threads must not wait for each other on a
    busy machine, little work is left to one.
    """
    threads, inside = replica_threads()
    if not inside and products < WORTH_A_THREAD:
        threads = 1
    if count < threads and inside:
        with _blas_threads(threads):
            for i in range(count):
                work(i)
        return
    with _blas_threads(1):
        if threads == 1 or count == 1:
            for i in range(count):
                work(i)
        else:
            for _ in _pool(threads).map(work, range(count)):
                pass


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="replica")


@contextmanager
def _blas_threads(count: int) -> Iterator[None]:
    """As many threads for BLAS as it may have beside torch's, which rest meanwhile."""
    changed = [(library, n) for library in blas_libraries() if (n := library.get_num_threads()) != count]
    for library, _ in changed:
        set_threads(library, count)
    try:
        yield
    finally:
        for library, threads in changed:
            set_threads(library, threads)


@cache
def _routine(name: str, dtype: torch.dtype, returns: Any = None) -> Callable[..., Any]:
    """The Fortran routine, every argument by its address."""
    name = _PREFIX[dtype] + name
    module = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    capsule = module.__pyx_capi__[name]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    described = signature(capsule)
    arguments = described.count(b",") + 1
    prototype = ctypes.CFUNCTYPE(returns, *[ctypes.c_void_p] * arguments)
    routine: Callable[..., Any] = prototype(pointer(capsule, described))
    return routine


def _at(A: Tensor, i: int) -> int:
    """The address of one replica's first number."""
    return A.data_ptr() + i * A.stride(0) * A.element_size()


@lru_cache(maxsize=4096)
def _int(value: int) -> Any:
    """Its address: the routines only read it, and a step asks seventy times for the same few."""
    return ctypes.byref(ctypes.c_int(value))


@lru_cache(maxsize=64)
def _real(value: float, dtype: torch.dtype) -> Any:
    return ctypes.byref(_REAL[dtype](value))
