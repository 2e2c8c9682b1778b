"""Batches of symmetric matrices in float64 on a CUDA device, tile by tile: the product and the factor.

The library's Cholesky factorisation and triangular inverse take their batches through some seventy kernels,
each of which waits for the one before. Here one kernel does both: a program per tile, which starts as soon as
the tiles that it needs are there.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

B = 32  # the side of a tile: one column for each thread of a warp
PANEL = 8  # pivots between two passes over the whole of a diagonal tile
PRODUCT_TILE = 64


@triton.jit
def _or(a, b):
    return a | b


@triton.jit
def _row(M, rows, j):
    """Row j of a tile, bit for bit. A thread holds a column, so this selects among its registers."""
    bits = tl.where(rows == j, M.to(tl.int64, bitcast=True), 0)
    return tl.reduce(bits, 0, _or).to(tl.float64, bitcast=True)


@triton.jit
def _lane(x, j, B: tl.constexpr):
    """Entry j of the vector x, everywhere."""
    return tl.gather(x, tl.zeros([B], tl.int32) + j, 0)


@triton.jit
def _reciprocal(x):
    """1 / x to the last bit or so: the hardware's 20 bits and one cubic step, without branches."""
    y = tl.inline_asm_elementwise(
        "rcp.approx.ftz.f64 $0, $1;", "=d,d", [x], dtype=tl.float64, is_pure=True, pack=1
    )
    e = tl.fma(-x, y, 1.0)
    return tl.fma(y, tl.fma(e, e, e), y)


@triton.jit
def _inverse_root(x):
    """1 / √x the same way."""
    y = tl.inline_asm_elementwise(
        "rsqrt.approx.ftz.f64 $0, $1;", "=d,d", [x], dtype=tl.float64, is_pure=True, pack=1
    )
    e = tl.fma(-x * y, y, 1.0)
    return tl.fma(y * e, tl.fma(e, 0.375, 0.5), y)


@triton.jit
def _eliminate(M, pivots, good, base, B: tl.constexpr, P: tl.constexpr):
    """Pivots base … base + P − 1 of the elimination of [M | I] in place.

    Before pivot j, columns < j of M hold the unit inverse and the others the Schur complement; row j is final
    after it. The P rows are taken out of the tile, a vector each, and eliminated first; the rows below follow
    by symmetry, since their column j is row j.
    """
    lane = tl.arange(0, B)
    rows = lane[:, None]
    cols = lane[None, :]
    last = base + P - 1
    R = ()  # the rows of the panel that have not been pivots yet
    for k in tl.static_range(P):
        R = R + (_row(M, rows, base + k),)
    M = tl.where((cols < base) | (cols > last), M, 0.0)  # the rows above are zero there already
    d = _lane(R[0], base, B)
    inv = _reciprocal(d)
    for k in tl.static_range(P):
        r = R[0]
        here = lane == base + k
        good = good & (d > 0)
        root = tl.where(good, _inverse_root(d), float("nan"))
        pivots = tl.where(here, d, pivots)
        q = tl.where(here, 1.0, r)
        s = q * inv
        rest = ()
        for i in tl.static_range(1, P - k):
            x = _lane(r, base + k + i, B)
            if i == 1:  # the next pivot, ahead of its row: its reciprocal is what everything waits for
                d = _lane(R[1], base + k + 1, B) - x * x * inv
            rest = rest + (tl.where(here, 0.0, R[i]) - x * s,)
        if k + 1 < P:
            inv = _reciprocal(d)
        across = tl.where((lane > base + k) & (lane <= last), 0.0, s)
        below = tl.where(lane > last, r, 0.0)
        M -= below[:, None] * across[None, :]
        final = tl.where(lane <= base + k, q * root, 0.0)
        M = tl.where(rows == base + k, final[None, :], M)
        R = rest
    return M, pivots, good


@triton.jit(noinline=True)
def _factor_in_place(X, ld, pivots, B: tl.constexpr, P: tl.constexpr):
    """The tile at X, D Dᵀ, becomes D⁻¹; the squares of D's diagonal go to `pivots`.

    From the first pivot that is not positive on, everything is NaN. A function of its own, with a stride the
    compiler knows nothing about, so that each thread gets one column of the tile and not a product's layout.
    """
    lane = tl.arange(0, B)
    tile = X + lane[:, None] * ld + lane[None, :]
    M = tl.load(tile)
    squares = tl.full([B], 1.0, tl.float64)
    good = lane >= 0
    for panel in range(B // P):
        M, squares, good = _eliminate(M, squares, good, panel * P, B, P)
    tl.store(tile, M)
    tl.store(pivots + lane, squares)


@triton.jit
def _peek(pointers):
    """What the pointers hold now, and everything that was stored before it was."""
    return tl.inline_asm_elementwise(
        "ld.acquire.gpu.global.b32 $0, [$1];",
        "=r,l",
        [pointers.to(tl.int64)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def _await(done, K, j, end, a, b):
    """Wait until tiles (j, a) and (j, b) are there; return the first row > j, or `end`, that lacks one."""
    lane = tl.arange(0, 32)
    rows = tl.minimum(j + lane, end - 1)
    ready = 0
    while ready == 0:
        both = _peek(done + a * K + rows) & _peek(done + b * K + rows)
        ready = tl.min(tl.where(both != 0, 32, lane), 0)
    tl.debug_barrier()
    return tl.minimum(j + ready, end)


@triton.jit
def _publish(done, K, i, c):
    """Whoever sees tile (i, c) done sees everything that this program has stored."""
    tl.debug_barrier()
    tl.atomic_xchg(done + c * K + i, 1, sem="release", scope="gpu")


@triton.jit
def _tile(X, D, i, c, B: tl.constexpr):
    rows = i * B + tl.arange(0, B)
    cols = c * B + tl.arange(0, B)
    return X + rows[:, None] * D + cols[None, :]


@triton.jit
def _half(X, D, i, c, B: tl.constexpr):
    """Half i of the tiles of column c: the upper half of tile i // 2 or the lower."""
    rows = i * (B // 2) + tl.arange(0, B // 2)
    cols = c * B + tl.arange(0, B)
    return X + rows[:, None] * D + cols[None, :]


@triton.jit
def _given(H, stride, beta, alpha, step, d, i, c, B: tl.constexpr):
    """Tile (i, c) of β M + diag(α), with an identity tail."""
    rows = (i * B + tl.arange(0, B))[:, None]
    cols = (c * B + tl.arange(0, B))[None, :]
    x = tl.load(H + rows * stride + cols, mask=(rows < d) & (cols < d), other=0.0)
    prior = tl.load(alpha + rows * step, mask=rows < d, other=0.0)
    x = tl.load(beta) * x + tl.where(rows == cols, prior, 0.0)
    return tl.where((rows == cols) & (rows >= d), 1.0, x)


@triton.jit(
    do_not_specialize=["hm", "hr", "am", "step", "r", "d", "K", "ld"],
    do_not_specialize_on_alignment=["H", "beta", "alpha"],
)
def _factor_kernel(
    H, hm, hr, beta, alpha, am, step, W, U, pivots, logdet, failed, flags, r, d, K, ld,
    B: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """L⁻¹ to W and, above the diagonal tiles, Lᵀ to U: one warp per tile (i, c).

    The rows R_i = [L⁻¹_i,≤i | (Lᵀ)_i,>i] obey R_i = D_i⁻¹ ([0 | H_i,≥i] − Σ_j<i (R_j,i)ᵀ R_j), where D_i is
    the Cholesky factor of the bracket's tile (i, i). The program of tile (i, i + 1) goes on to factorise tile
    (i + 1, i + 1), which nobody else needs to see before. Programs draw tickets: each waits only for tiles of
    programs that started before it, so that they all end however few fit on the device at a time.
    """
    ticket = tl.atomic_add(flags, 1, sem="relaxed")
    m = ticket % r
    t = ticket // r
    i = -1
    c = 0
    if t > 0:
        i = (t - 1) // (K - 1)
        c = (i + 1 + (t - 1) % (K - 1)) % K
    D = K * B
    H += m.to(tl.int64) * hm
    beta += m
    alpha += m * am
    W += m.to(tl.int64) * D * D
    U += m.to(tl.int64) * D * D
    pivots += m * D
    done = flags + 1 + m * K * K
    zero = tl.zeros([B, B], tl.float64)
    diagonal = c == i + 1
    V = U
    ready = 0
    if c < i:
        V = W
        ready = c
    sums = zero  # Σ_j (R_j,i)ᵀ R_j,c
    own = zero  # the same of tile (c, c), then that tile
    if diagonal:
        while ready < i:
            start = ready
            ready = _await(done, K, start, i, i, c)
            for j in range(start * 2, ready * 2):
                a = tl.load(_half(U, D, j, i, B))
                b = tl.load(_half(U, D, j, c, B))
                sums = tl.dot(tl.trans(a), b, sums, out_dtype=tl.float64)
                own = tl.dot(tl.trans(b), b, own, out_dtype=tl.float64)
        own = _given(H, hr, beta, alpha, step, d, c, c, B) - own
    else:
        while ready < i:
            start = ready
            ready = _await(done, K, start, i, i, c)
            for j in range(start, ready):
                a = tl.load(_tile(U, D, j, i, B))
                b = tl.load(_tile(V, D, j, c, B))
                sums = tl.dot(tl.trans(a), b, sums, out_dtype=tl.float64)
    if i >= 0:
        S = -sums
        if c > i:
            S += _given(H, hr, beta, alpha, step, d, i, c, B)
        _await(done, K, i, i + 1, i, i)
        R = tl.dot(tl.load(_tile(W, D, i, i, B)), S, out_dtype=tl.float64)
        tl.store(_tile(V, D, i, c, B), R)
        if diagonal:
            own -= tl.dot(tl.trans(R), R, out_dtype=tl.float64)
            tl.store(_tile(W, D, c, c, B), own)
        _publish(done, K, i, c)
    if diagonal:
        if i < 0:
            tl.store(_tile(W, D, c, c, B), own)
            tl.debug_barrier()
        _factor_in_place(W + c * B * (D + 1), ld, pivots + c * B, B, P)
        _publish(done, K, c, c)
        if c == K - 1:
            logs = tl.zeros([128], tl.float64)
            for q in range(0, D, 128):
                at = q + tl.arange(0, 128)
                logs += tl.log(tl.load(pivots + at, mask=at < D, other=1.0))
            value = tl.sum(logs, 0)
            finite = tl.abs(value) < float("inf")
            tl.store(logdet + m, tl.where(finite, value, float("nan")))
            tl.store(failed + m, tl.where(finite, 0, 1).to(tl.int8))
    if (c > i) & (i >= 0):
        tl.store(_tile(W, D, i, c, B), zero)


def factorise(M: Tensor, diagonal: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """L⁻¹ (…, d, d), log det (…) and failed (…) of scale · M + diag(diagonal) = L Lᵀ.

    Only the tiles on and above the diagonal of M are read. Where there is no factor, the log determinant is
    NaN, and so is the last row of L⁻¹, thus every sum over its rows.
    """
    replicas, d = M.shape[:-2], M.shape[-1]
    flat = M.reshape(-1, d, d)
    r = len(flat)
    K = triton.cdiv(d, B)
    D = K * B
    W, U = (M.new_empty(r, D, D) for _ in range(2))
    pivots, logdet = M.new_empty(r, D), M.new_empty(r)
    failed = torch.empty(r, dtype=torch.bool, device=M.device)
    flags = torch.zeros(1 + r * K * K, dtype=torch.int32, device=M.device)
    beta = M.new_ones(r) if scale is None else scale.expand(*replicas, 1).reshape(r)
    alpha = diagonal.expand(*replicas, d).reshape(r, d) if diagonal.shape[-1] > 1 else diagonal.reshape(r, 1)
    _factor_kernel[(r * (K * (K - 1) + 1),)](
        flat, flat.stride(0), flat.stride(1), beta, alpha, alpha.stride(0), int(alpha.shape[1] > 1), W, U,
        pivots, logdet, failed.view(torch.int8), flags, r, d, K, D, B=B, P=PANEL, num_warps=1, num_stages=1,
    )  # fmt: skip
    return W[:, :d, :d].reshape(M.shape), logdet.view(replicas), failed.view(replicas)


@triton.jit(do_not_specialize=["apart", "n", "d", "T"])
def _gram_kernel(J, apart, G, n, d, T, B: tl.constexpr, BK: tl.constexpr):
    """Tiles (i, c ≥ i) of JᵀJ for matrices J that begin `apart` numbers from each other."""
    t = tl.program_id(0)
    m = tl.program_id(1).to(tl.int64)
    i = 0
    while t >= T - i:
        t -= T - i
        i += 1
    rows = (i * B + tl.arange(0, B))[None, :]
    cols = ((i + t) * B + tl.arange(0, B))[None, :]
    J += m * apart
    acc = tl.zeros([B, B], tl.float64)
    for s in range(0, n, BK):
        k = (s + tl.arange(0, BK))[:, None]
        a = tl.load(J + k * d + rows, mask=(k < n) & (rows < d), other=0.0)
        b = tl.load(J + k * d + cols, mask=(k < n) & (cols < d), other=0.0)
        acc = tl.dot(tl.trans(a), b, acc, out_dtype=tl.float64)
    rows = tl.trans(rows)
    tl.store(G + m * d * d + rows * d + cols, acc, mask=(rows < d) & (cols < d))


def upper_gram(A: Tensor) -> Tensor:
    """AᵀA (…, d, d) of A (…, n, d): the tiles on and above the diagonal, and no others.

    Some rows of larger matrices are taken where they lie.
    """
    n, d = A.shape[-2:]
    flat = A.reshape(-1, n, d)
    if not flat[0].is_contiguous():
        flat = flat.contiguous()
    G = A.new_empty(*A.shape[:-2], d, d)
    T = triton.cdiv(d, PRODUCT_TILE)
    _gram_kernel[(T * (T + 1) // 2, len(flat))](
        flat, flat.stride(0), G, n, d, T, B=PRODUCT_TILE, BK=16, num_warps=2, num_stages=3
    )
    return G
