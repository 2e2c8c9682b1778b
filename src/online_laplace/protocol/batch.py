"""A table and some of its splits as one batched problem, a replica per split and member."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from online_laplace.data import Scaler, Split, Table, hold_out_validation, paper_splits
from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Affine
from online_laplace.ensemble.training import TrainingData
from online_laplace.errors import InputError
from online_laplace.protocol.specification import Specification
from online_laplace.types import Rows


def training_data(
    table: Table, spec: Specification, splits: list[int], *, validate: bool = False
) -> TrainingData:
    """Scale each split by its own fitted rows and stack them, once for every member: X (r, n, d_x)."""
    drawn = paper_splits(len(table.y), max(splits) + 1, spec.split_seed, spec.test_fraction)
    parts = [_part(table, drawn[i], spec, validate) for i in splits]
    like = spec.like()

    def stack(name: str) -> Tensor:
        # Members of one split are neighbours: (r, …) → (r · members, …).
        stacked = np.repeat(np.stack([part[name] for part in parts]), spec.members, axis=0)
        return torch.from_numpy(stacked).to(like)

    def rows(name: str) -> Rows:
        return Rows(stack(f"X_{name}"), stack(f"y_{name}"))

    units = Affine(stack("y_mean"), stack("y_std"))
    return TrainingData(rows("fit"), units, rows("test"), rows("validation") if validate else None)


def _part(table: Table, split: Split, spec: Specification, validate: bool) -> dict[str, Floats]:
    """One split's arrays in the units of its own scaling."""
    rows = {"fit": split.train, "test": split.test}
    if validate:
        rows["fit"], rows["validation"] = hold_out_validation(split, spec.validation_fraction)
    y = table.y[:, None]
    if np.ptp(y[rows["fit"]]) == 0:
        raise InputError(
            f"the target {table.target!r} is constant on the training rows of a split: "
            "there is nothing to learn from them"
        )
    inputs, target = Scaler.fit(table.X[rows["fit"]]), Scaler.fit(y[rows["fit"]])
    arrays = {"y_mean": target.mean[None, :], "y_std": target.std[None, :]}
    for name, chosen in rows.items():
        arrays[f"X_{name}"] = inputs.transform(table.X[chosen])
        arrays[f"y_{name}"] = target.transform(y[chosen])
    return arrays
