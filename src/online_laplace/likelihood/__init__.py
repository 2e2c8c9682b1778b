"""Likelihoods, one a file; to add one, copy the anatomy of the nearest."""

from typing import Any

from online_laplace.likelihood.base import Likelihood, Local, by_scale
from online_laplace.likelihood.bernoulli import Bernoulli
from online_laplace.likelihood.categorical import Categorical
from online_laplace.likelihood.gaussian import Gaussian
from online_laplace.likelihood.poisson import Poisson
from online_laplace.likelihood.student import StudentT
from online_laplace.likelihood.varying_gaussian import VaryingGaussian

__all__ = [
    "KINDS",
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Likelihood",
    "Local",
    "Poisson",
    "StudentT",
    "VaryingGaussian",
    "by_scale",
]

# Those that a file can name.
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Bernoulli, Categorical, Gaussian, Poisson, StudentT, VaryingGaussian)
}
