"""A whole experiment, small enough to run inside a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from online_laplace.protocol.profile import Profile
from online_laplace.protocol.specification import Specification
from online_laplace.store.store import Store


def tiny_profile(**settings: Any) -> Profile:
    """Two tables, two splits, every procedure, a dozen steps of a small network."""
    protocol = {"hidden": (4,), "steps": 12, "observations": 6, **settings}
    return Profile(
        "tiny",
        tables=("yacht", "housing"),
        splits=2,
        splits_per_batch=2,
        specification=Specification(**protocol),
    )


def assert_same_results(one: Path, other: Path) -> None:
    """Every record and every array of both stores is the same, bit for bit; only the clock may differ."""
    first, second = Store.open(one), Store.open(other)
    for batch in first.profile.batches():
        for unit in batch.units:
            a, b = first.read(unit), second.read(unit)
            assert a is not None, unit
            assert b is not None, unit
            for records in (a.records, b.records):
                for record in records:
                    record.pop("seconds")
            assert a.records == b.records
            assert a.arrays.keys() == b.arrays.keys()
            for name, array in a.arrays.items():
                # torch.equal would call NaN different from itself.
                assert array.dtype == b.arrays[name].dtype
                assert torch.equal(array.isnan(), b.arrays[name].isnan()), (unit, name)
                assert torch.equal(array.nan_to_num(), b.arrays[name].nan_to_num()), (unit, name)
