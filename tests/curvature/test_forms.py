"""The exact curvatures are one matrix in three guises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from online_laplace.curvature import FORMS, SpectralGGN, cheaper_form, curvature
from online_laplace.errors import InputError, UnknownNameError
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.train.online import Online
from problems import cases, make_case, normal, replica, yacht
from reference import dense

SURFACE = {
    "solve": lambda H, b, J: H.solve(b),
    "logdet": lambda H, b, J: H.logdet(),
    "diag_inverse": lambda H, b, J: H.diag_inverse(),
    "variance": lambda H, b, J: H.variance(J),
    "covariance": lambda H, b, J: H.covariance(J),
    "group_gamma": lambda H, b, J: H.group_gamma(),
    "output_gamma": lambda H, b, J: H.output_gamma(),
}


@pytest.mark.parametrize("quantity", SURFACE)
@given(case=cases())
def test_primal_dual_and_spectral_agree(quantity, case):
    b = normal(*case.w.shape, seed=1)
    X = normal(*case.w.shape[:-1], 4, case.network.d_in, seed=2)
    J = case.network.linearise(case.w, X)[1]
    primal, *others = (SURFACE[quantity](H, b, J) for H in case.precisions().values())
    for other in others:
        torch.testing.assert_close(other, primal, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("quantity", SURFACE)
@given(case=cases())
def test_what_was_asked_before_does_not_matter(quantity, case):
    b = normal(*case.w.shape, seed=1)
    J = case.tangent.J
    for H, asked in zip(case.precisions().values(), case.precisions().values(), strict=True):
        asked.diag_inverse(), asked.group_gamma(), asked.output_gamma()
        for once in (SURFACE[quantity](asked, b, J), SURFACE[quantity](asked, b, J)):
            torch.testing.assert_close(once, SURFACE[quantity](H, b, J), rtol=1e-10, atol=1e-10)


def trajectory(form, prior, hidden, mean, steps):
    """α, β and w of a run on yacht, step by step: (steps, …) each."""
    network, problem = MLP(6, (hidden,)), replica(yacht(1).train, 0)
    w = network.init(0)
    online = Online(network, problem, mean, form=form)
    state = online.init(w, initial_hyper(network, w, prior=prior))
    path = []
    for _ in range(steps):
        state = online.step(state)
        path.append((state.hyper.alpha, state.hyper.beta, state.w))
    assert state.ending.running
    return [torch.stack(values) for values in zip(*path, strict=True)]


# LM starts with large, rounding-sensitive steps (κ near 10⁶ by step 8): it is compared at its first ones.
@pytest.mark.parametrize(
    ("mean", "prior", "hidden", "steps"),
    [
        (at_weights, "scalar", 5, 40),
        (at_weights, "scalar", 50, 40),
        (at_weights, "layerwise", 5, 40),
        (at_weights, "layerwise", 50, 40),
        (at_weights, "ard", 5, 40),
        (at_weights, "ard", 50, 40),
        (at_mode, "scalar", 5, 20),
        (at_mode, "scalar", 50, 8),
        (at_mode, "layerwise", 5, 12),
    ],
)
def test_the_hyperparameters_go_one_way_whatever_the_form(mean, prior, hidden, steps):
    primal = trajectory("primal", prior, hidden, mean, steps)
    assert (primal[0][-1] / primal[0][0]).log().abs().max() > 0.1  # they do go somewhere
    for form in ("dual", "spectral") if prior == "scalar" else ("dual",):
        for mine, theirs in zip(trajectory(form, prior, hidden, mean, steps), primal, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_the_forms_agree_on_everything_that_a_pruned_group_leaves_determined():
    # a group on its way out has γ_g ≈ √ε, known to half the digits; its α matters as little
    primal = trajectory("primal", "ard", 5, at_mode, 10)
    dual = trajectory("dual", "ard", 5, at_mode, 10)
    assert primal[0].max() > 1e8
    torch.testing.assert_close(dual[0], primal[0], rtol=1e-6, atol=0)
    torch.testing.assert_close(dual[1], primal[1], rtol=1e-9, atol=0)
    torch.testing.assert_close(dual[2], primal[2], rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize(
    ("prior", "per_output", "form"),
    [
        ("scalar", False, "primal"),
        ("scalar", False, "dual"),
        ("scalar", False, "spectral"),
        ("ard", True, "primal"),
        ("ard", True, "dual"),
    ],
)
def test_samples_have_the_posterior_covariance(prior, per_output, form, n):
    case = make_case(MLP(2, (2,), 2), n, replicas=(2,), prior=prior, beta_per_output=per_output)
    H = case.precisions()[form]
    draws = H.sample(40_000, torch.Generator().manual_seed(0)).numpy()
    assert draws.shape == (2, 40_000, case.network.d_w)
    for reference, drawn in zip(dense(case), draws, strict=True):
        # whitened, the covariance is the identity; its entries scatter by about 1/√count = 0.005
        root = np.linalg.cholesky(reference.H)
        whitened = drawn @ root
        assert np.abs(whitened.mean(0)).max() < 0.03
        assert np.abs(np.cov(whitened.T) - np.eye(case.network.d_w)).max() < 0.04


def test_samples_of_two_replicas_are_not_the_same_draws():
    case = make_case(MLP(2, (2,)), 5, replicas=(2,))
    for H in case.precisions().values():
        draws = H.sample(50, torch.Generator().manual_seed(0))
        correlation = np.corrcoef(draws[0, :, 0], draws[1, :, 0])[0, 1]
        assert abs(correlation) < 0.5


def test_samples_repeat_under_their_seed():
    case = make_case(MLP(2, (2,)), 5)
    for H in case.precisions().values():
        first, again, other = (H.sample(3, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_the_cheaper_form_has_the_smaller_matrix():
    assert cheaper_form(residuals=1000, weights=100, groups=1) == "primal"
    assert cheaper_form(residuals=100, weights=1000, groups=1) == "dual"
    assert cheaper_form(residuals=100, weights=1000, groups=5) == "dual"


@pytest.mark.parametrize(("n", "kind"), [(3, "DualGGN"), (50, "PrimalGGN")])
def test_the_default_is_the_cheaper_form(n, kind):
    case = make_case(MLP(2, (3,)), n)
    assert type(curvature(case.tangent.J, case.hyper)).__name__ == kind


def test_an_unknown_form_is_refused_with_the_nearest_name():
    case = make_case(MLP(1, ()), 3)
    with pytest.raises(UnknownNameError, match="unknown curvature form 'spectal': did you mean 'spectral'"):
        curvature(case.tangent.J, case.hyper, "spectal")
    assert set(FORMS) == {"auto", "primal", "dual", "spectral"}


@pytest.mark.parametrize(("prior", "per_output"), [("layerwise", False), ("scalar", True)])
def test_the_spectral_form_refuses_more_than_one_alpha_or_beta(prior, per_output):
    case = make_case(MLP(2, (2,), 2), 5, prior=prior, beta_per_output=per_output)
    with pytest.raises(InputError, match="the spectral form needs one α and one β"):
        SpectralGGN(case.tangent.J).at(case.hyper)


@pytest.mark.parametrize("form", ["primal", "dual", "spectral"])
@pytest.mark.parametrize("n", [4, 30])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_replica_without_a_factor_is_marked_and_leaves_the_others_untouched(form, n, poison):
    case = make_case(MLP(2, (2,)), n, replicas=(3,))
    J = case.tangent.J.clone()
    healthy = curvature(J, case.hyper, form).at(case.hyper)
    J[1, 0, 0, 0] = poison
    H = curvature(J, case.hyper, form).at(case.hyper)
    assert H.failed.tolist() == [False, True, False]
    b = normal(3, case.network.d_w, seed=1)
    others = torch.tensor([0, 2])
    for read in (lambda P: P.solve(b), lambda P: P.logdet(), lambda P: P.group_gamma()):
        assert torch.equal(read(H)[others], read(healthy)[others])
