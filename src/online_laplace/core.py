"""What a study of the method needs, in one place: `from online_laplace.core import ...`.

The order is that of the flow: rows and a model, its tangent model and curvature, evidences, the update of the
hyperparameters, training, and the posterior. Everything takes leading replica axes.
"""

from online_laplace.curvature import diagonal, dual, exact, primal, spectral
from online_laplace.evidence import elbo, laplace_evidence, posterior_mode, tangent_evidence
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, mackay_update, statistics
from online_laplace.likelihood import Bernoulli, Categorical, Gaussian, Poisson, StudentT, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.module import ModuleNetwork
from online_laplace.model.network import initial_weights
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.adam import Adam
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.loop import Monitor, run
from online_laplace.train.observe import observe
from online_laplace.train.online import Online
from online_laplace.train.procedures import Schedule, train_online
from online_laplace.types import Rows

__all__ = [
    "MLP",
    "Adam",
    "Bernoulli",
    "Categorical",
    "GaussNewton",
    "Gaussian",
    "Model",
    "ModuleNetwork",
    "Monitor",
    "Online",
    "Poisson",
    "Posterior",
    "Rows",
    "Schedule",
    "StudentT",
    "VaryingGaussian",
    "at_mode",
    "at_weights",
    "diagonal",
    "dual",
    "elbo",
    "exact",
    "initial_weights",
    "laplace_evidence",
    "mackay_update",
    "maximise_evidence",
    "observe",
    "posterior_mode",
    "primal",
    "run",
    "spectral",
    "statistics",
    "tangent_evidence",
    "train_online",
]
