"""`OnlineLaplaceClassifier`: class probabilities, regularised by their own evidence."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from online_laplace import defaults
from online_laplace.data.checks import Floats, Integers
from online_laplace.errors import known_name
from online_laplace.estimators import labels
from online_laplace.estimators.base import OnlineLaplaceEstimator
from online_laplace.estimators.checks import check_scale, checked_groups, checked_weights, validated
from online_laplace.estimators.folds import choose_predictive
from online_laplace.estimators.gradients import with_gradients
from online_laplace.estimators.pooling import PoolFit, PoolSettings
from online_laplace.estimators.targets import ClassTarget
from online_laplace.estimators.training import Fit
from online_laplace.likelihood import Categorical
from online_laplace.pool.candidates import CLASS_PRESETS
from online_laplace.pool.classes import Classes
from online_laplace.pool.folds import assign_blocks, together
from online_laplace.predictive.forms import FORMS

PREDICTIVE = ("auto", *FORMS)


class OnlineLaplaceClassifier(ClassifierMixin, OnlineLaplaceEstimator):  # type: ignore[misc]
    """Neural-network classification that learns its weight decay while it trains.

    Told nothing of the network, it trains a small pool of candidates: class frequencies, logistic regression,
    a discriminant analysis, a forest, a Gaussian process and a few networks. Each candidate's members leave
    some of the rows out in turn, and what they say of these rows decides how much each candidate counts, and
    how probabilities follow from it, so that they can be taken at their word. Name a network (`hidden`,
    `prior`, `members`, …) and it is that network alone, whose members leave out one fold each. Within a
    network the evidence says how strongly to regularise. Inputs are standardised inside.

    Parameters:
        hidden: Units of the hidden layers of one network, such as 20 or (20, 20); () is logistic regression.
            Naming this or one of the next five means exactly that network and no pool; what is then left out
            is 20 tanh units, OL by Gauss-Newton, one weight decay, 5 members.
        activation: tanh, relu, gelu or silu.
        procedure: What the hyperparameters are fitted to: "ol", the network itself, or "lm", its linear
            approximation.
        optimiser: "gauss-newton", or "adam" with some thousand steps.
        prior: What shares a weight decay: all weights ("scalar"), those of a layer ("layerwise"), or those
            of an input ("ard"), which also tells how relevant each input is.
        members: The number of networks, from different initial weights, and of folds. One network is trained
            on all rows, and nothing is chosen by rows it has not seen.
        max_steps: The most steps of one call of `fit`; by default the preset's, or 40 of a named network.
        tol: A member of a named network stops early once it is at an optimum to within this; 0 never does.
        warm_start: Whether another call of `fit` goes on from where the last one ended, for another
            `max_steps` steps, with the scaling and the classes of the first; for a named network. The folds
            are those of the rows given: with other rows, a member may have seen what it now leaves out.
        random_state: Seeds the initial weights; an int makes `fit` repeatable. Which rows are left out
            depends on the rows alone.
        device: A torch device, such as "cpu" or "cuda".
        verbose: Whether to show progress on stderr.
        predictive: How probabilities follow from logits with a covariance: "plug-in", the softmax of the
            logits; "probit", MacKay's approximation; "bridge", the Laplace bridge to a Dirichlet;
            "monte-carlo", the mean over draws with a fixed seed; or "auto", the one under which the rows left
            out are most probable. In all of them the rows left out choose a temperature too.
        preset: "fast", "balanced" or "best": how large the pool is, and how long it trains. Of a network that
            is named, or goes on by `warm_start`, it says nothing, and `fit` warns.
        time_limit: Seconds that the fit of a preset may take: candidates and steps are left out to keep it.
        n_jobs: Candidates' members are tasks of joblib; None is a thread a core, or what
            `joblib.parallel_config` says, such as a Dask cluster.

    Attributes:
        classes_: The labels, sorted.
        leaderboard_: Only of a pool: a dict for every candidate at every length of training, the heaviest
            first: `candidate`, `steps`, `weight`, `log_likelihood` out of fold, `predictive` and
            `temperature`, `log_evidence`, `seconds`, `outcome`; `log_evidence` is None where none
            can be compared. What follows is, of a pool, that of its heaviest network.
        predictive_: The form of the probabilities; "probit" where there was nothing to choose it by.
        temperature_: Every network's probabilities are raised to 1/temperature_ and normalised; 1 where there
            was nothing to choose it by.
        alpha_: The weights' prior precision (inputs standardised): a float, or one per group of `groups_`.
            The members' prior variances are averaged.
        groups_: The names of the groups of weights that share a precision.
        gamma_: The effective number of parameters, averaged over members.
        log_evidence_: The log evidence of the labels, averaged over members, each for the rows it saw: the
            higher, the better the settings suit the data.
        relevance_: Only of a pool or with prior="ard": one number per feature, by how much the log-odds of
            one class to another move with one standard deviation of the feature, near the training rows: root
            mean square over rows and pairs of classes. 0 for a feature that the networks ignore.
        history_: What was seen along the way, empty of a pool: `steps` (T,), and `alpha`, `gamma`,
            `laplace_evidence`, `tangent_evidence`, `distance` and others by name, (T, members, …).
        outcome_: How training ended: "converged", "step limit", or what went wrong with a member.
        n_iter_: The number of steps taken.
        n_features_in_: The number of features.
        feature_names_in_: Their names, where X had names.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from online_laplace import OnlineLaplaceClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = OnlineLaplaceClassifier(members=2, max_steps=20, random_state=0).fit(X[::2], y[::2])
        >>> model.predict_proba(X[1::2]).shape
        (75, 3)
        >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
        True
    """

    _keep = "last"
    _observations = 8
    _score_train = False
    _fewest_outputs = 2

    _network = defaults.CLASS_NETWORK
    _presets = CLASS_PRESETS

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
        predictive: str = "auto",
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
        self.predictive = predictive

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train on the rows X (n, d) and their labels y (n,): strings, whole numbers or booleans.

        A row of `sample_weight` two counts as if it were given twice, one of weight zero as if it were not
        there. Rows of one of `groups` (n,) are left out of training together, as are rows with the same
        inputs. A fit that is refused, fails or is interrupted leaves the estimator as it was.

        Raises:
            InputError: a setting or the data cannot be used; the message says what to change.
            TrainingFailedError: no member came to usable weights.
        """
        with self._unchanged_on_failure(), with_gradients():
            self.check_settings()
            rows, given = validated(self, X, labels.checked_labels(y), ensure_min_samples=2)
            weight = checked_weights(sample_weight, rows)
            goes_on = self.warm_start and hasattr(self, "_fit")
            classes, codes = labels.encoded(given, weight, self.classes_ if goes_on else None)
            seen = slice(None) if weight is None else weight > 0
            groups = checked_groups(groups, rows, seen)  # refused also where nothing is left out
            rows, codes = rows[seen], codes[seen]
            weight = None if weight is None else weight[seen]
            check_scale(self, rows)
            self._warn_of_no_effect(groups)
            self._adopt(self._trained(rows, codes, len(classes), weight, groups), classes)
        _warn_of_single_rows(classes, codes)
        self._warn_of_failures()
        return self

    def _trained(
        self, rows: Floats, codes: Integers, classes: int, weight: Floats | None, groups: ArrayLike | None
    ) -> Fit | PoolFit:
        """The pool, or the named network, whose members leave rows out to choose the predictive form by."""
        indicators = labels.indicators(codes, classes)
        if not self._is_named:
            return self._train_pool(rows, indicators, weight, groups, Classes(self.predictive), codes)
        members = self._of_network("members")
        fold = None
        if self._leaves_out:
            others = codes[:, None] if weight is None else np.column_stack([codes, weight])
            sets = together(rows, checked_groups(groups, rows, slice(None)), others)
            fold = assign_blocks(sets, members, weight, codes)
        fit = self._train(rows, indicators, weight, fold)
        return replace(fit, networks=choose_predictive(fit.networks, self.predictive))

    @property
    def _leaves_out(self) -> bool:
        return bool(self._of_network("members") > 1)

    def _suited(self, settings: PoolSettings) -> PoolSettings:
        """Classes have one kind of noise."""
        return replace(settings, targets={"constant": self._target()})

    def check_settings(self) -> None:
        """Refuse settings that `fit` would refuse. Raises InputError."""
        super().check_settings()
        known_name("predictive form", self.predictive, PREDICTIVE)

    def _target(self) -> ClassTarget:
        return ClassTarget()

    def predict(self, X: ArrayLike) -> Any:
        """The most probable class of every row of X: labels (m,)."""
        log_p = self._log_probabilities(self._rows(X))
        return self.classes_[log_p.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The probability of every class at every row of X: (m, classes), in the order of `classes_`."""
        p: Floats = np.exp(self._log_probabilities(self._rows(X)))
        return p

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """The logarithm of `predict_proba`."""
        return self._log_probabilities(self._rows(X))

    def score_log_likelihood(self, X: ArrayLike, y: ArrayLike) -> float:
        """The mean over rows of log p(y | x), minus the log-loss: higher is better, `score` is accuracy."""
        check_is_fitted(self)
        rows, given = validated(self, X, labels.checked_labels(y), reset=False)
        self._refuse_far(rows)
        codes = labels.places(given, self.classes_)
        return float(self._log_probabilities(rows)[np.arange(len(codes)), codes].mean())

    def _log_probabilities(self, rows: Floats) -> Floats:
        found: Floats = self._fit.networks.mixture(rows).log_probabilities.cpu().numpy()
        return found - np.log(np.exp(found).sum(axis=1, keepdims=True))

    def _adopt(self, fit: Fit | PoolFit, classes: Any) -> None:
        """Set every fitted attribute from what training left behind."""
        self._adopt_summary(fit)
        likelihood = fit.networks.model.likelihood
        assert isinstance(likelihood, Categorical)
        self.classes_ = classes
        self.predictive_ = likelihood.form
        self.temperature_ = likelihood.temperature

    def _extras(self) -> dict[str, Any]:
        return {"classes": labels.to_json(self.classes_)}

    def _restore(self, fit: Fit | PoolFit, document: Mapping[str, Any]) -> None:
        self._adopt(fit, labels.from_json(document["classes"]))


def _warn_of_single_rows(classes: Any, codes: Integers) -> None:
    """Say so where a class was seen once: nothing tells how far it reaches."""
    counts = np.bincount(codes, minlength=len(classes))
    rare = [repr(label) for label, count in zip(classes.tolist(), counts, strict=True) if count == 1]
    if rare:
        listed = ", ".join(rare[:5]) + (f" and {len(rare) - 5} more" if len(rare) > 5 else "")
        warnings.warn(
            f"one row only has the class {listed}: its probabilities rest on little, and it could not be "
            "left out to check them",
            UserWarning,
            stacklevel=3,
        )
