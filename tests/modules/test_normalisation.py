"""Normalisation makes weights scale-free: the evidence at them is wrong, and that at the mode is right."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import BayesianRidge
from torch import nn

from module_problems import jacobian, mlp, seeded
from online_laplace import OnlineLaplace
from online_laplace.core import Gaussian, Model, ModuleNetwork, exact, laplace_evidence, tangent_evidence
from online_laplace.errors import InputError
from online_laplace.modules import Cadence, GPrior
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


def evidences(module: nn.Module, **settings) -> tuple[float, float]:
    """The evidence at α = β = 1 from all rows, and at the precisions that updates lead to."""
    tuner = OnlineLaplace(module, "gaussian", n_data=ROWS.n, normalisation="accept", **settings)
    first = tuner.update(ROWS.X, ROWS.y).evidence
    for _ in range(120):
        last = tuner.update(ROWS.X, ROWS.y)
    return first, last.evidence


@pytest.mark.parametrize("mean", ["weights", "mode"])
@pytest.mark.parametrize("groups", ["scalar", "layerwise"])
def test_a_g_prior_makes_the_evidence_independent_of_a_scale_that_no_output_knows(mean, groups):
    settings = {"curvature": "full", "mean": mean, "prior": GPrior(groups)}
    small, large = (evidences(normalised(scale), **settings) for scale in (1.0, 10.0))
    assert small == pytest.approx(large, rel=1e-9)


@pytest.mark.parametrize("mean", ["weights", "mode"])
def test_without_it_the_evidence_follows_that_scale(mean):
    settings = {"curvature": "full", "mean": mean, "prior": "scalar"}
    small, large = (evidences(normalised(scale), **settings) for scale in (1.0, 10.0))
    assert abs(small[0] - large[0]) > 0.5 and abs(small[1] - large[1]) > 0.5


def test_at_the_mode_precisions_by_layer_make_up_for_the_scale_once_they_are_learnt():
    settings = {"curvature": "full", "mean": "mode", "prior": "layerwise"}
    small, large = (evidences(normalised(scale), **settings) for scale in (1.0, 3.0))
    assert abs(small[0] - large[0]) > 0.5
    assert small[1] == pytest.approx(large[1], abs=1e-6)


@pytest.mark.parametrize("curvature", ["full", "block", "diagonal", "matrix-free"])
def test_under_a_g_prior_precisions_are_alpha_times_the_mean_curvature_of_each_weight(curvature):
    module = mlp(1, inputs=2)
    tuner = OnlineLaplace(
        module, "gaussian", n_data=ROWS.n, curvature=curvature, prior=GPrior("layerwise"), probes=2
        if curvature == "matrix-free" else None,
    )  # fmt: skip
    done = tuner.update(ROWS.X, ROWS.y)
    relative = jacobian(module, ROWS.X).squeeze(1).square().mean(0)
    sizes = [p.numel() for p in module.parameters()]
    w = nn.utils.parameters_to_vector(module.parameters()).detach()
    norms = [float(part.sum()) for part in (relative * w.square()).split(sizes)]
    expected = [gamma / norm for gamma, norm in zip(done.gamma.values(), norms, strict=True)]
    assert list(done.alpha.values()) == pytest.approx(expected)
    alpha = torch.cat([torch.full((n,), a).double() for n, a in zip(sizes, done.alpha.values(), strict=True)])
    torch.testing.assert_close(tuner.hyper.weight_precision, alpha * relative)
    data = 0.5 * tuner.beta[0] * (ROWS.y - module(ROWS.X)).square().sum()
    loss = tuner.loss(ROWS.X, ROWS.y)
    normaliser = 0.5 * len(ROWS.y) * (tuner.beta[0] / (2 * torch.pi)).log()
    torch.testing.assert_close(loss, data - normaliser + 0.5 * (alpha * relative * w.square()).sum())
    loss.backward()
    pull = torch.autograd.grad(data, list(module.parameters()))
    decay = (alpha * relative * w).split(sizes)
    for p, g, d in zip(module.parameters(), pull, decay, strict=True):
        torch.testing.assert_close(p.grad, g + d.view_as(p))


def test_a_weight_that_no_row_sees_has_the_mean_precision_of_its_tensor():
    module = mlp(1, inputs=2)
    X = ROWS.X.clone()
    X[:, 0] = 0
    tuner = OnlineLaplace(module, "gaussian", n_data=ROWS.n, curvature="full", prior=GPrior())
    tuner.update(X, ROWS.y)
    relative = tuner.hyper.prior.relative[:8].view(4, 2)
    torch.testing.assert_close(relative[:, 0], torch.full((4,), float(relative[:, 1].sum() / 8)).double())


@pytest.mark.parametrize("curvature", ["kron", "subset"])
def test_a_g_prior_is_refused_where_a_tensor_has_one_precision(curvature):
    with pytest.raises(InputError, match=f"g-prior has a precision for every weight, and {curvature}"):
        OnlineLaplace(mlp(1), "gaussian", n_data=8, curvature=curvature, prior=GPrior())


def test_a_run_with_a_g_prior_goes_on_from_its_state():
    module, cadence = mlp(1, inputs=2), Cadence(every=1, decay=0.8)
    settings = {"n_data": ROWS.n, "curvature": "diagonal", "prior": GPrior("layerwise"), "cadence": cadence}
    tuner = OnlineLaplace(module, "gaussian", **settings)
    tuner.update(ROWS.X[:10], ROWS.y[:10])
    again = OnlineLaplace(module, "gaussian", **settings)
    again.load_state_dict(tuner.state_dict())
    assert torch.equal(again.hyper.weight_precision, tuner.hyper.weight_precision)
    for one in (tuner, again):
        one.update(ROWS.X[10:], ROWS.y[10:])
    assert torch.equal(again.hyper.weight_precision, tuner.hyper.weight_precision)
    plain = OnlineLaplace(module, "gaussian", n_data=ROWS.n, curvature="diagonal")
    with pytest.raises(InputError, match="one of the two has a g-prior"):
        plain.load_state_dict(tuner.state_dict())
