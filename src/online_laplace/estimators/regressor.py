"""`OnlineLaplaceRegressor`: regression with error bars, regularised by its own evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from online_laplace import defaults
from online_laplace.data.checks import Floats, check_arrays
from online_laplace.errors import InputError
from online_laplace.estimators.base import OnlineLaplaceEstimator
from online_laplace.estimators.checks import check_scale, checked_groups, checked_weights, count, validated
from online_laplace.estimators.distribution import (
    COPIES,
    PredictiveDistribution,
    torch_generator,
    without_noise,
)
from online_laplace.estimators.gradients import with_gradients
from online_laplace.estimators.pooling import PoolFit, PoolSettings
from online_laplace.estimators.targets import NOISES, NumericTarget
from online_laplace.estimators.training import Fit
from online_laplace.memory import check_fits
from online_laplace.pool.counts import Counts
from online_laplace.pool.numbers import Numbers


class OnlineLaplaceRegressor(RegressorMixin, OnlineLaplaceEstimator):  # type: ignore[misc]
    """Neural-network regression that learns its noise level and weight decay while it trains.

    Told nothing of the network, it trains a small pool of candidates: a constant, a line, trees, a Gaussian
    process and a few networks. Each candidate's members leave some of the rows out in turn, and what they say
    of these rows decides how much each candidate counts; no row is lost to a validation set. Name a network
    (`hidden`, `prior`, `members`, …) and it is that network alone, trained on all rows. Within a network the
    evidence says how strongly to regularise and how noisy the target is. Predictions come with error bars.
    Inputs and target are standardised inside; everything comes out in the target's units.

    Parameters:
        hidden: Units of the hidden layers of one network, such as 50 or (50, 50). Naming this or one of the
            next five means exactly that network and no pool; what is then left out is 50 tanh units, OL by
            Gauss-Newton, one weight decay, 5 members.
        activation: tanh, relu, gelu or silu.
        procedure: What the hyperparameters are fitted to: "ol", the network itself, or "lm", its linear
            approximation.
        optimiser: "gauss-newton", or "adam" with some thousand steps.
        prior: What shares a weight decay: all weights ("scalar"), those of a layer ("layerwise"), or those
            of an input ("ard"), which also tells how relevant each input is.
        members: The number of networks, from different initial weights.
        max_steps: The most steps of one call of `fit`; by default the preset's, or 120 of a named network.
        tol: A member of a named network stops early once it is at an optimum to within this; 0 never does.
        warm_start: Whether another call of `fit` goes on from where the last one ended, for another
            `max_steps` steps, with the scaling of the first; for a named network.
        random_state: Seeds the initial weights; an int makes `fit` repeatable.
        device: A torch device, such as "cpu" or "cuda".
        verbose: Whether to show progress on stderr.
        likelihood: "gaussian"; "student-t" for targets with gross errors, which a pool has candidates for
            beside Gaussian ones; "poisson" for counts.
        noise: "constant", or "varying": the networks also learn how noisy the target is, row by row. None
            is varying for most candidates of a pool (constant for the constant, the line and, but for
            "fast", one network), and constant for a named network.
        resolution: The step in which the target was recorded, such as 1 for whole numbers; None finds it out,
            0 is none. The noise is never taken to be less than the rounding to that step.
        preset: "fast", "balanced" or "best": how large the pool is, and how long it trains. Of a network that
            is named, or goes on by `warm_start`, it says nothing, and `fit` warns.
        time_limit: Seconds that the fit of a preset may take: candidates and steps are left out to keep it.
        n_jobs: Candidates' members are tasks of joblib; None is a thread a core, or what
            `joblib.parallel_config` says, such as a Dask cluster.

    Attributes:
        noise_std_: The noise's standard deviation in the target's units, a float, or one per target; where
            it varies, the root mean square over the training rows; of Student's t, the scale.
        resolution_: The step whose rounding bounds the noise from below, 0 where there is none: a float, or
            one per target.
        beta_: The noise precision, 1 / noise_std_².
        leaderboard_: Only of a pool: a dict for every candidate at every length of training, the heaviest
            first: `candidate`, `steps`, `weight` in the predictive distribution, `mean_weight` in `predict`,
            `log_likelihood` and `rmse` out of fold, `log_evidence`, `seconds`, `outcome`; of counts
            `dispersion`. Of trees `steps` and `log_evidence` are None.
        alpha_: The weights' prior precision (inputs and target standardised): a float, or one per group of
            `groups_`. The members' prior variances are averaged. This and the next five are, of a pool, those
            of its heaviest network.
        groups_: The names of the groups of weights that share a precision.
        gamma_: The effective number of parameters, averaged over members.
        log_evidence_: The log evidence of the targets in their own units, averaged over members: the higher,
            the better the settings suit the data.
        relevance_: Only of a pool or with prior="ard": one number per feature, by how many standard
            deviations of the target the prediction moves with one of the feature, near the training rows; 0
            for a feature that the networks ignore.
        history_: What was seen along the way, empty of a pool: `steps` (T,), and `alpha`, `beta`, `gamma`,
            `laplace_evidence`, `tangent_evidence`, `distance` and others by name, (T, members, …).
        outcome_: How training ended: "converged", "step limit", or what went wrong with a member.
        n_iter_: The number of steps taken.
        n_features_in_: The number of features.
        feature_names_in_: Their names, where X had names.

    Examples:
        >>> from sklearn.datasets import load_diabetes
        >>> from online_laplace import OnlineLaplaceRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = OnlineLaplaceRegressor(members=2, max_steps=20, random_state=0).fit(X[:200], y[:200])
        >>> mean, std = model.predict(X[200:], return_std=True)
        >>> lower, upper = model.predict_interval(X[200:], coverage=0.9)
        >>> bool(0.8 < ((lower < y[200:]) & (y[200:] < upper)).mean() < 1.0)
        True
    """

    def __init__(
        self,
        hidden: int | Sequence[int] | None = None,
        activation: str | None = None,
        procedure: str | None = None,
        optimiser: str | None = None,
        prior: str | None = None,
        members: int | None = None,
        max_steps: int | None = None,
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        verbose: bool = False,
        likelihood: str = "gaussian",
        noise: str | None = None,
        resolution: float | None = None,
        preset: str = defaults.PRESET,
        time_limit: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            hidden=hidden,
            activation=activation,
            procedure=procedure,
            optimiser=optimiser,
            prior=prior,
            members=members,
            max_steps=max_steps,
            tol=tol,
            warm_start=warm_start,
            random_state=random_state,
            device=device,
            verbose=verbose,
            preset=preset,
            time_limit=time_limit,
            n_jobs=n_jobs,
        )
        self.likelihood = likelihood
        self.noise = noise
        self.resolution = resolution

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train on the rows X (n, d), y (n,) or (n, targets).

        A row of `sample_weight` two counts as if it were given twice, one of weight zero as if it were not
        there. Rows of one of `groups` (n,) are left out of training together, as are rows with the same
        inputs. A fit that is refused, fails or is interrupted leaves the estimator as it was.

        Raises:
            InputError: a setting or the data cannot be used; the message says what to change.
            TrainingFailedError: no member came to usable weights.
        """
        with self._unchanged_on_failure(), with_gradients():
            self.check_settings()
            rows: Floats
            targets: Floats
            rows, targets = validated(self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2)
            one_target = targets.ndim == 1
            weight = checked_weights(sample_weight, rows)
            seen = slice(None) if weight is None else weight > 0
            groups = checked_groups(groups, rows, seen)  # refused also where nothing is left out
            self._target().check(targets, weight)
            # A row without weight is not there: neither scaling, range nor resolution knows of it.
            rows, targets = check_arrays(rows[seen], targets[seen])
            check_scale(self, rows)
            self._warn_of_no_effect(groups)
            weight = None if weight is None else weight[seen]
            if self._is_named:
                self._adopt(self._train(rows, targets, weight), one_target)
            else:
                kind = Counts() if self.likelihood == "poisson" else Numbers()
                self._adopt(self._train_pool(rows, targets, weight, groups, kind), one_target)
        self._warn_of_failures()
        return self

    def _target(self) -> NumericTarget:
        noise = "constant" if self.noise is None else self.noise
        return NumericTarget.of(self.likelihood, noise, self.resolution)

    def _suited(self, settings: PoolSettings) -> PoolSettings:
        """Candidates of both kinds of noise, unless it is named or the likelihood knows one kind alone."""
        target = self._target()
        if self.likelihood == "student-t":
            # Beside candidates with Gaussian noise: without gross errors these may be the better ones.
            preset = settings.preset.after("student-t")
            gaussian = replace(target, likelihood="gaussian")
            targets = {kind: replace(gaussian, noise=kind) for kind in NOISES}
            return replace(settings, preset=preset, targets={"student-t": target, **targets})
        both = self.likelihood == "gaussian" and self.noise is None
        preset = settings.preset if both else settings.preset.with_noise(target.noise)
        kinds = dict.fromkeys(candidate.noise for candidate in preset.candidates)
        return replace(settings, preset=preset, targets={kind: replace(target, noise=kind) for kind in kinds})

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False, *, noise: bool = True
    ) -> Any:
        """Predict the mean at the rows of X; with `return_std` or `return_cov`, also how sure it is.

        Of a pool it is a mean stacked for the least squared error, which is not quite that of `predict_dist`.
        `noise=True` describes a new observation: the noise is part of its standard deviation and, on the
        diagonal, of the covariance. `noise=False` describes the function without its noise.

        Returns:
            The mean, (m,) or (m, targets); or (mean, std) with a std of the same shape; or (mean, cov) with
            the covariance of the rows, (m, m) or (m, m, targets).
        """
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not for both: the std is √diag of the cov")
        X = self._rows(X)
        networks = self._fit.networks
        if return_cov:
            check_fits(
                f"the covariance of {len(X):,} rows with one another",
                COPIES * (len(X) * networks.model.likelihood.outputs) ** 2,
                networks.rows.X.device,
                "ask for fewer rows at a time, or for return_std",
            )
            joint = networks.covariance(X, noise=noise).permute(1, 2, 0).cpu().numpy()
            return self._shaped(networks.mean(X).cpu().numpy()), self._shaped(joint)
        mean = self._shaped(networks.mean(X).cpu().numpy())
        return (mean, self._distribution(X, noise).std()) if return_std else mean

    def predict_interval(
        self, X: ArrayLike, coverage: float = 0.9, *, noise: bool = True
    ) -> tuple[Floats, Floats]:
        """The ends (lower, upper) of the central interval that holds `coverage` of the probability.

        With `noise=True` it is for a new observation, with `noise=False` for the function without its noise.
        """
        return self._distribution(self._rows(X), noise).interval(coverage)

    def predict_dist(self, X: ArrayLike, *, noise: bool = True) -> PredictiveDistribution:
        """The whole predictive distribution at every row: logpdf, cdf, ppf, rvs and more."""
        return self._distribution(self._rows(X), noise)

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
        *,
        noise: bool = True,
    ) -> Floats:
        """Draw functions at the rows of X, jointly: (m, n_samples), or (m, targets, n_samples).

        With `noise=True` every row also gets its own noise, as new observations would.
        """
        X, n_samples = self._rows(X), count("n_samples", n_samples)
        networks = self._fit.networks
        numbers = COPIES * n_samples * (len(X) * networks.model.likelihood.outputs + networks.network.d_w)
        check_fits(f"{n_samples:,} draws of {len(X):,} rows", numbers, networks.rows.X.device)
        generator = torch_generator(random_state, networks.rows.X.device)
        drawn = networks.draw(X, n_samples, generator, noise=noise).permute(1, 2, 0).cpu().numpy()
        return drawn[:, 0, :] if self._one_target else drawn

    def score_log_likelihood(self, X: ArrayLike, y: ArrayLike) -> float:
        """The mean over rows of log p(y | x), summed over targets: higher is better, `score` is R²."""
        check_is_fitted(self)
        rows, targets = validated(self, X, y, multi_output=True, y_numeric=True, reset=False)
        self._refuse_far(rows)
        predicted = self._distribution(rows, noise=True)
        if targets.shape != predicted.shape:
            raise InputError(f"y has shape {targets.shape}, but the predictions {predicted.shape}")
        density = predicted.logpdf(targets)
        return float(density.reshape(len(density), -1).sum(axis=1).mean())

    def _distribution(self, X: Floats, noise: bool) -> PredictiveDistribution:
        mixture = self._fit.networks.mixture(X)
        return PredictiveDistribution(mixture if noise else without_noise(mixture), self._one_target)

    def _shaped(self, values: Floats) -> Floats:
        """Drop the last axis, that of the targets, where y came without one."""
        return values[..., 0] if self._one_target else values

    def _adopt(self, fit: Fit | PoolFit, one_target: bool) -> None:
        """Set every fitted attribute from what training left behind."""
        noise_std = np.sqrt(fit.networks.noise_variance().cpu().numpy())
        self._adopt_summary(fit)
        self._one_target = one_target
        self.noise_std_ = float(noise_std[0]) if one_target else noise_std
        self.beta_ = 1 / self.noise_std_**2
        steps = fit.networks.resolution()
        self.resolution_ = float(steps[0]) if one_target else steps

    def _extras(self) -> dict[str, Any]:
        return {"one_target": self._one_target}

    def _restore(self, fit: Fit | PoolFit, document: Mapping[str, Any]) -> None:
        self._adopt(fit, document["one_target"])

    def __getattr__(self, name: str) -> Any:
        """Say where probabilities of classes are to be had."""
        if name in ("predict_proba", "predict_log_proba"):
            raise AttributeError(
                f"OnlineLaplaceRegressor predicts numbers and has no {name}: for classes and their "
                "probabilities there is OnlineLaplaceClassifier"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        """Several targets at once are fine."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
