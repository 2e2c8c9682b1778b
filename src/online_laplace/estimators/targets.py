"""What an estimator makes of its target: the scale it is trained on, and the likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Protocol

import numpy as np

from online_laplace.data.checks import Floats, no_counts
from online_laplace.data.resolution import resolution
from online_laplace.data.scaling import Scaler
from online_laplace.errors import InputError, SettingError, known_name
from online_laplace.estimators.values import column_names
from online_laplace.likelihood import Categorical, Gaussian, Likelihood, Poisson, StudentT, VaryingGaussian
from online_laplace.likelihood.floor import Floor

LIKELIHOODS = ("gaussian", "student-t", "poisson")
NOISES = ("constant", "varying")

# In standard deviations, as the quartiles have them: what lies further from the median has no say in the
# scaling of a target with gross errors.
FAR = 5
# What lies further than that is no error of a measurement, and nothing could be computed from it or saved.
FARTHEST = 1e20


class Target(Protocol):
    """How targets y (n, k) as the networks are to see them are scaled, and which likelihood they have."""

    def likelihood_of(self, targets: int) -> Likelihood:
        """That of so many targets, before anything is learnt from their values."""

    def prepare(self, y: Floats, weight: Floats | None) -> tuple[Scaler, Likelihood]:
        """Both, learnt from the rows. Raises InputError for targets that the likelihood cannot have."""


@dataclass(frozen=True)
class NumericTarget:
    """A target of numbers.

    `step` is that in which the target was recorded, None to find out: values that are rounded to steps of δ
    cannot be known better than to a variance of δ²/12, whatever a network makes of them. Where there may be
    gross errors among them (`robust`), the scale is that of the rows near the median.
    """

    likelihood: str = "gaussian"
    noise: str = "constant"
    step: float | None = None
    robust: bool = False

    @classmethod
    def of(cls, likelihood: Any, noise: Any, step: Any) -> NumericTarget:
        """Check the choices. Raises InputError naming the one that cannot be used."""
        known_name("likelihood", likelihood, LIKELIHOODS)
        known_name("noise", noise, NOISES)
        if noise == "varying" and likelihood != "gaussian":
            raise SettingError(
                "noise", f"can be varying with the likelihood gaussian alone, not with {likelihood}"
            )
        if step is not None and (not isinstance(step, Real) or not 0 <= float(step) < float("inf")):
            raise SettingError("resolution", f"must be zero or a positive number, not {step!r}")
        if step and likelihood == "poisson":
            raise SettingError(
                "resolution",
                "bounds a noise, which the likelihood poisson has none of: counts are whole already, so "
                "leave it out",
            )
        return cls(likelihood, noise, None if step is None else float(step), likelihood == "student-t")

    def check(self, y: Floats, weight: Floats | None) -> None:
        """Refuse targets of rows with a weight that the likelihood cannot have. Raises InputError."""
        y = y.reshape(len(y), -1)
        if self.likelihood == "poisson":
            _check_counts(y, weight)
        elif self.step is not None:
            _check_step(self.step, y if weight is None else y[weight > 0])

    def prepare(self, y: Floats, weight: Floats | None) -> tuple[Scaler, Likelihood]:
        """Standardise, unless the target counts: then its mean is the rate that outputs are relative to."""
        k = y.shape[1]
        self.check(y, weight)
        likelihood = self.likelihood_of(k)
        if isinstance(likelihood, Poisson):
            mean = np.average(y, axis=0, weights=weight)
            return Scaler(np.zeros(k), np.ones(k)), replace(likelihood, rates=tuple(mean.tolist()))
        names = column_names("target", k, None)
        scaler = robust_scaler(y, weight, names) if self.robust else Scaler.fit(y, weight, names=names)
        likelihood = replace(likelihood, floor=self.floor(y, scaler))
        if isinstance(likelihood, VaryingGaussian):
            likelihood = replace(likelihood, ceiling=self.ceiling(y, weight, scaler))
        return scaler, likelihood

    def likelihood_of(self, targets: int) -> Gaussian | VaryingGaussian | StudentT | Poisson:
        """That of so many targets, before anything is learnt from their values."""
        if self.likelihood == "poisson":
            return Poisson(targets)
        if self.likelihood == "student-t":
            return StudentT(targets)
        return VaryingGaussian(targets) if self.noise == "varying" else Gaussian(targets, scales=targets)

    def steps(self, y: Floats) -> Floats:
        """The step in which each target was recorded, 0 where there is none: (k,)."""
        found = [resolution(column) if self.step is None else self.step for column in y.T]
        return np.array(found, dtype=np.float64)

    def floor(self, y: Floats, scaler: Scaler) -> Floor:
        """The least noise variance of each target, or of all, on the scale that the networks see."""
        return _one_or_each((self.steps(y) / scaler.std) ** 2 / 12)

    def ceiling(self, y: Floats, weight: Floats | None, scaler: Scaler) -> Floor:
        """The most noise variance of each target: what the farthest row is off by from the mean, squared.

        No row has shown more, and a variance that a network has to guess would be without bounds.
        """
        far = np.square(scaler.transform(y if weight is None else y[weight > 0])).max(axis=0)
        return _one_or_each(np.maximum(far, 1.0))


def _one_or_each(values: Floats) -> Floor:
    return float(values[0]) if (values == values[0]).all() else tuple(values.tolist())


@dataclass(frozen=True)
class ClassTarget:
    """A target of classes: y (n, classes) holds a one in the column of a row's class."""

    def prepare(self, y: Floats, weight: Floats | None) -> tuple[Scaler, Likelihood]:
        """Classes have no scale."""
        k = y.shape[1]
        return Scaler(np.zeros(k), np.ones(k)), self.likelihood_of(k)

    def likelihood_of(self, targets: int) -> Likelihood:
        """One of so many classes, each of which is an output."""
        return Categorical(targets)


def robust_scaler(y: Floats, weight: Floats | None, names: Sequence[str]) -> Scaler:
    """Mean and std of the rows near the median, which gross errors cannot stretch."""
    each = [_central(column, weight, name) for column, name in zip(y.T, names, strict=True)]
    scaler = Scaler(*np.transpose(each))
    with np.errstate(over="ignore"):
        far = np.argwhere(np.abs(scaler.transform(y)) > FARTHEST)
    if len(far):
        i, j = far[0]
        raise InputError(
            f"{names[j]} holds {y[i, j]:g}, more than {FARTHEST:g} standard deviations from the other rows: "
            "mend that, or leave the row out"
        )
    return scaler


def _central(y: Floats, weight: Floats | None, name: str) -> tuple[float, float]:
    low, middle, high = _quartiles(y, weight)
    spread = (high - low) / 1.349  # the std of a Gaussian with these quartiles
    # Where half the rows have one value, quartiles say nothing.
    near = np.abs(y - middle) <= (FAR * spread if spread > 0 else np.inf)
    scaler = Scaler.fit(y[near], None if weight is None else weight[near], names=[name])
    return float(scaler.mean), float(scaler.std)


def _quartiles(y: Floats, weight: Floats | None) -> Floats:
    """By the inverted distribution function, under which a row of weight two is two rows."""
    order = np.argsort(y, kind="stable")
    counted = np.cumsum(np.ones_like(y) if weight is None else weight[order])
    found: Floats = y[order][np.searchsorted(counted / counted[-1], [0.25, 0.5, 0.75])]
    return found


def _check_step(step: float, y: Floats) -> None:
    """Values that were recorded in steps differ by at least one of them."""
    for j, column in enumerate(y.T):
        with np.errstate(over="ignore"):
            spread = float(column.max() - column.min())
        if 0 < spread < step * (1 - 1e-9):  # the difference of two decimals rounds
            raise SettingError(
                "resolution",
                f"is the step in which the target was recorded, and {step:g} is more than the values of "
                f"target {j + 1} differ by, {spread:g}: give a smaller one, 0 for none, or leave it out to "
                "have it found out",
            )


def _check_counts(y: Floats, weight: Floats | None) -> None:
    counted = True if weight is None else weight[:, None] > 0
    bad = np.argwhere(no_counts(y) & counted)
    if len(bad):
        i, j = bad[0]
        raise InputError(
            f"the likelihood poisson is for counts 0, 1, 2, …, but target {j + 1} is {y[i, j]:g} in row "
            f"{i + 1}"
        )
