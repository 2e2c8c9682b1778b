"""What a regressor predicts for a row: a whole distribution, with the words that scipy.stats has for one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError
from online_laplace.estimators.checks import count
from online_laplace.memory import check_fits
from online_laplace.predictive.counts import CountMixture
from online_laplace.predictive.coverage import LEVELS, coverages
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture

# Arrays of the size of all draws that are there at a time: which component, what is drawn, and the answer.
COPIES = 4


class PredictiveDistribution:
    """One distribution per row (and per target), a mixture of Gaussians in the target's units.

    Arrays are of shape (rows,), or (rows, targets) where the model was fitted to a two-dimensional y. Rows,
    and targets, are taken one at a time; `sample_y` of the regressor draws whole functions, in which they go
    together.

    Examples:
        >>> import numpy as np
        >>> from online_laplace import OnlineLaplaceRegressor
        >>> X = np.linspace(-1, 1, 20)[:, None]
        >>> model = OnlineLaplaceRegressor(hidden=(4,), members=2, max_steps=20, random_state=0)
        >>> predicted = model.fit(X, 10 + 5 * X[:, 0]).predict_dist(X[:3])
        >>> predicted.mean().shape
        (3,)
        >>> np.allclose(predicted.cdf(predicted.quantile(0.9)), 0.9)
        True
    """

    def __init__(self, mixture: Mixture, one_target: bool) -> None:
        """Wrap a mixture (m, k) in the user's units; `one_target` drops the axis of targets."""
        self._mixture = mixture
        self._one_target = one_target

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what every method returns."""
        rows, targets = self._mixture.mean.shape
        return (rows,) if self._one_target else (rows, targets)

    def mean(self) -> Floats:
        """The mean."""
        return self._out(self._mixture.mean)

    def median(self) -> Floats:
        """The value with as much probability above as below."""
        return self.quantile(0.5)

    def var(self) -> Floats:
        """The variance: noise, what each member leaves open, and how far the members disagree."""
        return self._out(self._mixture.variance)

    def std(self) -> Floats:
        """The standard deviation."""
        return self._out(self._mixture.std)

    def variance_parts(self) -> dict[str, Floats]:
        """The three parts that add up to `var()`: noise, within members, between members."""
        mixture = self._mixture
        parts = {
            "noise": mixture.noise_variance.expand_as(mixture.mean),
            "within": mixture.within_variance,
            "between": mixture.between_variance,
        }
        return {name: self._out(values) for name, values in parts.items()}

    def pdf(self, y: ArrayLike) -> Floats:
        """The density at y."""
        return np.exp(self.logpdf(y))

    def logpdf(self, y: ArrayLike) -> Floats:
        """The log density at y.

        Raises InputError without noise where a part has none at all, and its values are points.
        """
        parts = self._mixture.components
        if isinstance(parts, GaussianPredictive) and bool((parts.variance == 0).any()):
            raise InputError(
                "without noise there is no density here: trees know their function exactly, so that single "
                "values have a probability of their own; ask for cdf, quantile, interval or crps"
            )
        return self._out(self._mixture.log_density(self._in(y)))

    def cdf(self, y: ArrayLike) -> Floats:
        """The probability of a value of at most y."""
        return self._out(self._mixture.cdf(self._in(y)))

    def quantile(self, level: ArrayLike) -> Floats:
        """The value that is not exceeded with probability `level`.

        Several levels at once give an array of shape (*shape of the levels, *shape). Raises InputError for a
        level that is not between 0 and 1.
        """
        levels = _between("a quantile's level", level)
        values = [self._out(self._mixture.quantile(float(one))) for one in levels.flat]
        return np.array(values, dtype=np.float64).reshape(levels.shape + self.shape)

    def ppf(self, q: ArrayLike) -> Floats:
        """`quantile`, by the name that scipy.stats has for it."""
        return self.quantile(q)

    def interval(self, coverage: ArrayLike = 0.9) -> tuple[Floats, Floats]:
        """The ends of the central interval with `coverage` of the probability; several, as for `quantile`."""
        half = _between("the coverage", coverage) / 2
        return self.quantile(0.5 - half), self.quantile(0.5 + half)

    @property
    def counts(self) -> bool:
        """Whether only whole numbers can come."""
        return isinstance(self._mixture, CountMixture)

    def coverages(self, y: ArrayLike, levels: ArrayLike = LEVELS) -> Floats:
        """The share of all y inside their central intervals, as `interval` has them, for every level.

        At level 0 and 1 that is none and all of them. Raises InputError for a level that is not between
        these, and for a y that is missing.
        """
        levels = _between("a level", levels, ends=True)
        missing = np.argwhere(np.isnan(self._in(y).cpu().numpy()))
        if len(missing):
            raise InputError(
                f"y is NaN in row {missing[0][0] + 1}, counting from 1: such a row is neither inside an "
                "interval nor outside, so leave it out"
            )
        below = self.cdf(np.asarray(y) - 1).ravel() if self.counts else None
        return coverages(self.cdf(y).ravel(), levels, below)

    def crps(self, y: ArrayLike) -> Floats:
        """The continuous ranked probability score at y; lower is better."""
        return self._out(self._mixture.crps(self._in(y)))

    def sample(self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None) -> Floats:
        """Independent draws, shape (n_samples, *shape)."""
        draws, device = count("n_samples", n_samples), self._mixture.mean.device
        rows = len(self._mixture.mean)
        check_fits(f"{draws:,} draws of {rows:,} rows", COPIES * draws * self._mixture.mean.numel(), device)
        generator = torch_generator(random_state, device)
        return self._out(self._mixture.sample(draws, generator))

    def rvs(self, size: int = 1, random_state: int | np.random.RandomState | None = None) -> Floats:
        """`sample`, by the name that scipy.stats has for it: `size` draws of every row."""
        return self.sample(count("size", size), random_state)

    def _out(self, values: Tensor) -> Floats:
        array: Floats = values.cpu().numpy()
        return array[..., 0] if self._one_target else array

    def _in(self, y: ArrayLike) -> Tensor:
        """One value for all, or one per row and target."""
        array = np.asarray(y, dtype=np.float64)
        try:
            array = np.broadcast_to(array, self.shape)
        except ValueError:
            raise InputError(f"y has shape {array.shape}, but the distribution {self.shape}") from None
        tensor = torch.from_numpy(array.copy()).to(self._mixture.mean)
        return tensor.reshape(self._mixture.mean.shape)


def _between(what: str, given: ArrayLike, *, ends: bool = False) -> Floats:
    """Probabilities, but for `ends` neither none nor all. Raises InputError naming the first that is not."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} lies between 0 and 1, and {given!r} is no number") from None
    inside = (values >= 0) & (values <= 1) if ends else (values > 0) & (values < 1)
    outside = values[~inside]
    if outside.size:
        raise InputError(f"{what} lies between 0 and 1, not at {outside.flat[0]:g}")
    return values


def without_noise(mixture: Mixture) -> Mixture:
    """The distribution of the function itself, not of a new observation of it."""
    components = mixture.components
    if not isinstance(components, GaussianPredictive):
        raise InputError("noise=False is for Gaussian noise: of other targets ask for the mean")
    silent = torch.zeros_like(components.noise_variance)
    return replace(mixture, components=replace(components, noise_variance=silent))


def torch_generator(
    random_state: int | np.random.RandomState | None, device: torch.device
) -> torch.Generator:
    """A torch generator seeded by what scikit-learn takes for a random state."""
    from sklearn.utils import check_random_state

    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return torch.Generator(device=device).manual_seed(seed)
