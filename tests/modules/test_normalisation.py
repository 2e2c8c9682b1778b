"""Normalisation makes weights scale-free: the evidence at them is wrong, and that at the mode is right."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import BayesianRidge
from torch import nn

from module_problems import jacobian, seeded
from online_laplace import OnlineLaplace
from online_laplace.core import Gaussian, Model, ModuleNetwork, exact, laplace_evidence, tangent_evidence
from online_laplace.errors import InputError
from problems import wave


def normalised(scale: float = 1.0) -> nn.Module:
    """A first layer, times a scale, and layer normalisation: the outputs do not know the scale."""
    module = seeded(
        lambda: nn.Sequential(
            nn.Linear(2, 6, bias=False),
            nn.LayerNorm(6, eps=0.0, elementwise_affine=False),
            nn.Tanh(),
            nn.Linear(6, 1),
        )
    )
    with torch.no_grad():
        module[0].weight.mul_(scale)
    return module


def core_model(module: nn.Module, prior: str = "layerwise") -> tuple[Model, torch.Tensor]:
    w = nn.utils.parameters_to_vector(module.parameters()).detach()
    return Model.of(ModuleNetwork(module, 1), Gaussian(), prior, exact), w


ROWS = wave(40)


def test_the_derivative_along_scale_free_weights_is_zero():
    module = normalised()
    J = jacobian(module, ROWS.X, ["0.weight"])
    along = J @ module[0].weight.detach().flatten()
    assert along.abs().max() < 1e-12


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_the_evidence_at_scale_free_weights_is_never_tight(alpha):
    """L_h − L_f ≥ ½ α ‖w_g‖²: since J w_g = 0, no weights but zero are a mode, whatever the data."""
    module = normalised(scale=3.0)
    model, w = core_model(module)
    hyper = model.initial_hyper(w, alpha=alpha)
    tangent = model.linearise(w, ROWS)
    H = model.precision(tangent, hyper)
    gap = tangent_evidence(tangent, hyper, H) - laplace_evidence(tangent, hyper, H)
    least = 0.5 * alpha * module[0].weight.detach().square().sum()
    assert gap > least * (1 - 1e-9)


def converged(module: nn.Module, mean: str, curvature: str = "full") -> OnlineLaplace:
    """Precisions at fixed weights, by as many updates as it takes."""
    tuner = OnlineLaplace(
        module, "gaussian", n_data=ROWS.n, curvature=curvature, prior="scalar", mean=mean,
        normalisation="accept",
    )  # fmt: skip
    for _ in range(120):
        tuner.update(ROWS.X, ROWS.y)
    return tuner


def test_at_the_mode_the_precisions_are_those_of_the_linear_model_and_at_the_weights_they_are_not():
    module = normalised(scale=10.0)  # which no output knows of
    model, w = core_model(module, "scalar")
    J = jacobian(module, ROWS.X).squeeze(1)
    target = ROWS.y.squeeze(-1) - module(ROWS.X).detach().squeeze(-1) + J @ w
    ridge = BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, fit_intercept=False, max_iter=5000, tol=1e-12
    ).fit(J.numpy(), target.numpy())
    remedy, failure = converged(module, "mode"), converged(module, "weights")
    assert remedy.alpha["all"] == pytest.approx(ridge.lambda_, rel=1e-2)
    assert float(remedy.beta) == pytest.approx(ridge.alpha_, rel=1e-2)
    assert failure.alpha["all"] < 0.2 * ridge.lambda_

    tangent = model.linearise(w, ROWS)

    def evidence(tuner: OnlineLaplace) -> float:
        hyper = model.initial_hyper(w, alpha=tuner.alpha["all"], beta=float(tuner.beta))
        return float(tangent_evidence(tangent, hyper, model.precision(tangent, hyper)))

    assert evidence(remedy) > evidence(failure) + 1


@pytest.mark.parametrize("curvature", ["full", "kron", "diagonal"])
def test_normalisation_is_refused_by_name_unless_dealt_with(curvature):
    module = nn.Sequential(
        nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1)
    )
    with pytest.raises(
        InputError, match=r"1 \(BatchNorm1d\) and 1 more makes the outputs independent of the scale"
    ):
        OnlineLaplace(module, "gaussian", n_data=8, curvature=curvature)
    assert OnlineLaplace(module, "gaussian", n_data=8, curvature=curvature, normalisation="accept")
    assert OnlineLaplace(module, "gaussian", n_data=8, curvature="full", mean="mode")
    assert OnlineLaplace(module, "gaussian", n_data=8, curvature="last-layer")  # nothing follows it
