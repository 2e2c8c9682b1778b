"""Pairs of what leaves fully connected layers and of what enters them, and which weights meet in a pair.

A layer's part of a Jacobian is δ ⊗ a. Products of two parts are products of two brackets, δ δ' and a a', so
that all there is between the weights of two layers is a matrix of (pairs of out, pairs of in).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.model.layered import LayeredJacobian
from online_laplace.model.network import TensorSlot

# Weights up to which the places of all pairs are remembered, 16 MiB of them.
REMEMBERED = 2048

# The weights and the biases of each layer, in the order of the flat weights.
Slots = tuple[tuple[TensorSlot, TensorSlot | None], ...]


def slots_of(J: LayeredJacobian) -> Slots:
    """The tensors of its layers."""
    return tuple(sorted((layer[:2] for layer in J.layers), key=lambda pair: pair[0].start))


def _sizes(slots: Slots) -> tuple[list[int], list[int]]:
    """What leaves each layer, and what enters it, with a one for its bias."""
    return [w.shape[0] for w, _ in slots], [w.shape[1] + (bias is not None) for w, bias in slots]


def _shifts(size: int) -> int:
    """By how many places, none included, two of so many things on a circle can be apart."""
    return size // 2 + 1


def _pairs(size: int) -> int:
    """How many pairs (shift, thing) there are: each two things once, or twice where they are opposite."""
    return _shifts(size) * size


@lru_cache(maxsize=64)
def multiplications(slots: Slots) -> int:
    """Those of a row in all products."""
    out, entering = _sizes(slots)
    same = sum(_pairs(o) * _pairs(i) for o, i in zip(out, entering, strict=True))
    return same + sum(
        out[a] * out[b] * entering[a] * entering[b] for b in range(len(slots)) for a in range(b)
    )


@lru_cache(maxsize=64)
def numbers_made(slots: Slots, outputs: int) -> int:
    """The numbers of a row in all brackets; those of δ δ' are sums over the outputs."""
    out, entering = _sizes(slots)
    made = sum(outputs * _pairs(o) + _pairs(i) for o, i in zip(out, entering, strict=True))
    return made + sum(
        outputs * sum(out[:b]) * out[b] + sum(entering[:b]) * entering[b] for b in range(1, len(slots))
    )


def factors_of(J: LayeredJacobian, slots: Slots) -> tuple[Tensor, Tensor]:
    """δ (r, k, Σ out, n) and what enters (r, Σ in, n) of all layers, with rows along the last axis."""
    layers = {layer.weight: layer for layer in J.layers}
    *replicas, n, k, _ = J.shape
    D, A = [], []
    for weight, bias in slots:
        _, _, delta, entering = layers[weight]
        D.append(delta.expand(*replicas, n, k, -1).reshape(-1, n, k, weight.shape[0]).permute(0, 2, 3, 1))
        a = entering.expand(*replicas, n, -1).reshape(-1, n, weight.shape[1]).mT
        A += [a] if bias is None else [a, torch.ones_like(a[:, :1])]
    return torch.cat(D, dim=2), torch.cat(A, dim=1)


class Plan(NamedTuple):
    """Where products of brackets are, one after another behind a zero, and which of them G consists of.

    By layer: the ranges of what leaves it, and of what enters, among those of all. By two layers: where their
    products begin.
    """

    out: list[slice]
    entering: list[slice]
    starts: dict[tuple[int, int], int]
    total: int
    places: Tensor  # (d_w²,), of the zero above the diagonal

    @property
    def numbers(self) -> int:
        """How many numbers of brackets a row has at a time, at most."""
        return sum(
            max(some.stop * (some.stop - some.start) for some in of) for of in (self.out, self.entering)
        )


def plan_of(slots: Slots) -> Plan:
    """The plan of these layers; that of small networks is remembered."""
    weights = max(slot.stop for pair in slots for slot in pair if slot is not None)
    return (_plan if weights <= REMEMBERED else _plan.__wrapped__)(slots)


@lru_cache(maxsize=16)
def _plan(slots: Slots) -> Plan:
    out_sizes, entering_sizes = _sizes(slots)
    out, entering = _ranges(out_sizes), _ranges(entering_sizes)
    starts, total = {}, 1
    d = max(slot.stop for pair in slots for slot in pair if slot is not None)
    places = torch.zeros(d, d, dtype=torch.int32)
    positions = [_positions(*pair) for pair in slots]
    for b, (o, i) in enumerate(zip(out_sizes, entering_sizes, strict=True)):
        for a in range(b + 1):
            p, j = out_sizes[a], entering_sizes[a]
            starts[b, a] = total
            if a == b:
                first, second, width = _order(o), _order(i), _pairs(i)
                total += _pairs(o) * width
            else:
                first = torch.arange(p) * o + torch.arange(o).unsqueeze(-1)  # (o, p)
                second = torch.arange(j) * i + torch.arange(i).unsqueeze(-1)  # (i, j)
                width = i * j
                total += o * p * width
            place = starts[b, a] + width * first[:, None, :, None] + second[None, :, None, :]
            places[positions[b][:, :, None, None], positions[a]] = place.to(places.dtype)
    return Plan(out, entering, starts, total, places.tril_().flatten())


def _ranges(sizes: Sequence[int]) -> list[slice]:
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _order(size: int) -> Tensor:
    """Where the product of two things is among those of (shift, thing): (size, size)."""
    one, other = torch.arange(size).unsqueeze(-1), torch.arange(size)
    shift = (other - one) % size
    return torch.where(shift < _shifts(size), shift * size + one, (size - shift) * size + other)


def _positions(weight: TensorSlot, bias: TensorSlot | None) -> Tensor:
    """Where the weights of a layer, with its biases as a last column, are in the flat ones: (out, in)."""
    found = torch.arange(weight.start, weight.stop).view(weight.shape)
    if bias is None:
        return found
    return torch.cat([found, torch.arange(bias.start, bias.stop).unsqueeze(-1)], dim=-1)


def shifted(A: Tensor) -> Tensor:
    """The rows of A (r, size, n) as seen from each of them on their circle: (r, shifts, size, n)."""
    size = A.shape[1]
    return torch.cat([A, A], dim=1).unfold(1, size, 1)[:, : _shifts(size)].mT
