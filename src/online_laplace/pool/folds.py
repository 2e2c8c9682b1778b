"""Rows dealt into blocks, and what each member of an ensemble trains on and leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online_laplace.data.checks import Floats, Integers
from online_laplace.types import Rows

# The block of a row that every member sees.
NONE = -1

_SHUFFLED_BY = 0
# Of columns that had nothing to do with each other, so many rows with the same inputs as a given one would be
# expected: nineteen rows in twenty have one then.
TWINS_BY_CHANCE = 3


def together(X: Floats, groups: NDArray[Any] | None = None, others: NDArray[Any] | None = None) -> Integers:
    """A number (n,) for every row of X (n, d), the same for rows that must not be divided.

    These are rows with the same inputs, or of the same group of `groups` (n,): a row whose twin is in
    training says nothing about rows that are new. Where columns have so few values that twins are a matter of
    chance, new rows have theirs in training too, and every row is by itself, in an order that `others`
    (n, ·), such as targets and weights, settle between twins.
    """
    inputs: Integers = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    if inputs.max() > 0 and _twins_by_chance(X) >= TWINS_BY_CHANCE:
        known = inputs[:, None] if others is None else np.column_stack([inputs, others])
        inputs = np.empty_like(inputs)
        inputs[np.lexsort(known.T[::-1])] = np.arange(len(X))
    if groups is None:
        return inputs
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    named = np.unique(groups, return_inverse=True)[1].reshape(-1)
    n, rows = len(X), np.arange(len(X))
    # Rows are joined to a node for their inputs and to one for their group.
    ends = np.concatenate([n + inputs, n + inputs.max() + 1 + named])
    size = int(ends.max()) + 1
    graph = coo_array((np.ones(2 * n), (np.concatenate([rows, rows]), ends)), shape=(size, size))
    joined = connected_components(graph, directed=False)[1][:n]
    # Numbered by the least of their inputs, so that the order of the rows changes nothing.
    least = np.full(joined.max() + 1, n)
    np.minimum.at(least, joined, inputs)
    return np.unique(least[joined], return_inverse=True)[1].reshape(-1)


def _twins_by_chance(X: Floats) -> float:
    """How many others would have the inputs of a row if the columns of X (n, d) were independent."""
    agree = 1.0
    for column in X.T:
        shares = np.unique(column, return_counts=True)[1] / len(X)
        agree *= float(shares @ shares)
    return (len(X) - 1) * agree


def assign_blocks(
    sets: Integers, count: int, weight: Floats | None = None, classes: Integers | None = None
) -> Integers:
    """The block (n,) of each row, of `count` blocks of nearly one size; the rows of a set stay together.

    Every class of `classes` (n,) is spread over all blocks; a class with one set is in none (−1), so that
    every member sees it. Blocks depend on which rows there are, and not on their order or on whether a row
    has weight two or is given twice.
    """
    counts = np.ones(len(sets)) if weight is None else weight
    classes = np.zeros(len(sets), dtype=np.int64) if classes is None else classes
    shares = np.zeros((sets.max() + 1, classes.max() + 1))
    np.add.at(shares, (sets, classes), counts)
    sizes, class_of = shares.sum(1), shares.argmax(1)
    order = np.random.default_rng(_SHUFFLED_BY).permutation(len(sizes))
    # The largest first, each to the block that is smallest: blocks are as even as sets allow.
    order = order[np.argsort(-sizes[order], kind="stable")]
    block = np.full(len(sizes), NONE)
    filled = np.zeros(count)
    for one in np.unique(class_of):
        members = order[class_of[order] == one]
        if len(members) == 1 and shares.shape[1] > 1:
            continue
        of_class = np.zeros(count)
        for each in members:
            # The block with least of its class, of those the smallest.
            smallest = int(np.lexsort((filled, of_class))[0])
            block[each] = smallest
            of_class[smallest] += sizes[each]
            filled[smallest] += sizes[each]
    found: Integers = block[sets]
    return found


@dataclass(frozen=True)
class LeftOut:
    """For every member: the rows it trains on and those it leaves out, padded to one length.

    `inside` (members, a) and `outside` (members, b) number the rows; `counts` and `counts_outside`, shaped
    alike, are 1 where a number is a row and 0 where it is padding. `blocks` (n,) has the block of every row.
    """

    inside: Tensor
    counts: Tensor
    outside: Tensor
    counts_outside: Tensor
    blocks: Integers

    @classmethod
    def of(cls, blocks: Integers, left_out: Sequence[Sequence[int]], like: Tensor) -> LeftOut:
        """Member m leaves out the blocks that the m-th of `left_out` names."""
        away = [np.isin(blocks, named) for named in left_out]
        inside = [np.flatnonzero(~out) for out in away]
        outside = [np.flatnonzero(out) for out in away]
        return cls(*_padded(inside, like), *_padded(outside, like), blocks)

    def of_members(self, chosen: slice) -> LeftOut:
        """The same for some of the members."""
        each = (self.inside, self.counts, self.outside, self.counts_outside)
        inside, counts, outside, counts_outside = (values[chosen] for values in each)
        return LeftOut(inside, counts, outside, counts_outside, self.blocks)

    def every(self, step: int) -> LeftOut:
        """The same with every so many of the rows that each member leaves out."""
        outside, counts = (values[:, ::step] for values in (self.outside, self.counts_outside))
        return LeftOut(self.inside, self.counts, outside, counts, self.blocks)

    def training(self, rows: Rows) -> Rows:
        """What each member trains on: X (members, a, d_x)."""
        weight = self.counts if rows.weight is None else self.counts * rows.weight[self.inside]
        even = rows.weight is None and bool((self.counts == 1).all())
        return Rows(rows.X[self.inside], rows.y[self.inside], None if even else weight)

    def held_out(self, rows: Rows) -> Rows:
        """What each member has not seen: X (members, b, d_x); padding has weight zero."""
        return Rows(rows.X[self.outside], rows.y[self.outside], self.counts_outside)

    def seen(self, n: int) -> Tensor:
        """1 where a member trains on a row, 0 where it leaves it out: (members, n)."""
        found = self.counts.new_zeros(len(self.inside), n)
        return found.scatter_add_(1, self.inside, self.counts)

    def by_row(self, values: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Values (members, b, …) of rows left out, row by row: (times, n, …), and which of them there are.

        `times` is how often a row was left out at most; the second, (times, n), is false where it was not so
        often, and the value there zero.
        """
        order, rows, time = self._by_row
        times = int(time.max()) + 1 if len(time) else 1
        collected = values.new_zeros(times, n, *values.shape[2:])
        collected[time, rows] = values.flatten(0, 1)[order]
        there = torch.zeros(times, n, dtype=torch.bool, device=rows.device)
        there[time, rows] = True
        return collected, there

    @cached_property
    def _by_row(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where values of rows left out are, in the order of the rows, which rows, and how often before."""
        flat = self.outside.flatten()
        present = torch.nonzero(self.counts_outside.flatten() > 0).squeeze(-1)
        order = present[torch.argsort(flat[present], stable=True)]
        rows = flat[order]
        first = torch.searchsorted(rows, rows)  # where each row's own begin
        return order, rows, torch.arange(len(rows), device=rows.device) - first


def _padded(numbers: list[Integers], like: Tensor) -> tuple[Tensor, Tensor]:
    longest = max(1, *map(len, numbers))  # where nobody leaves anything out there is padding alone
    padded = np.zeros((len(numbers), longest), dtype=np.int64)
    counts = np.zeros((len(numbers), longest))
    for m, rows in enumerate(numbers):
        padded[m, : len(rows)] = rows
        counts[m, : len(rows)] = 1
    return torch.from_numpy(padded).to(like.device), torch.from_numpy(counts).to(like)
