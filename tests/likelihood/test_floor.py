"""A floor under the noise."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from likelihood_problems import (
    outputs_and_targets,
    walked,
)
from online_laplace.curvature import exact
from online_laplace.errors import InputError
from online_laplace.hyper.mackay import at_weights
from online_laplace.likelihood import Gaussian, StudentT, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.types import Rows
from problems import normal


def test_without_a_floor_varying_noise_is_what_it_was():
    f, y = outputs_and_targets(VaryingGaussian(2))
    mean, s = f.split(2, dim=-1)
    r = (y - mean) * (-0.5 * s).exp()
    local = VaryingGaussian(2).local(f, y)
    assert torch.equal(local.z[..., :2], r)
    assert torch.equal(local.root.diagonal(dim1=-2, dim2=-1)[..., :2], (-0.5 * s).exp())
    torch.testing.assert_close(local.root.diagonal(dim1=-2, dim2=-1)[..., 2:], 0.5**0.5 * torch.ones_like(s))


@given(seed=st.integers(0, 1000), floor=st.sampled_from([1e-300, 1e-12, 0.3, 1e6]))
def test_noise_is_never_learnt_below_its_floor(seed, floor):
    likelihood = Gaussian(2, 2, floor=floor)
    misfit, spent = normal(5, 2, seed=seed).exp() * 1e-3, normal(5, 2, seed=seed + 1).exp()
    beta = likelihood.update(torch.ones(5, 2).double(), misfit, spent, 30)
    free = Gaussian(2, 2).update(torch.ones(5, 2).double(), misfit, spent, 30)
    assert torch.equal(beta, torch.minimum(free, torch.full_like(free, 1 / floor)))
    assert torch.equal(likelihood.at_floor(beta), free >= 1 / floor)
    assert not Gaussian(2, 2).at_floor(free).any()
    for heads in (VaryingGaussian(floor=floor), StudentT(floor=floor)):
        f = torch.zeros(1, heads.outputs).double()
        f[:, 1] = -1000
        predicted = heads.predict(f, torch.zeros(1, heads.outputs, heads.outputs).double(), None)
        assert (predicted.noise_variance >= floor * (1 - 1e-12)).all()
        assert predicted.noise_variance.isfinite().all()


def test_of_several_targets_each_may_have_a_floor_of_its_own():
    misfit, spent = normal(5, 2, seed=0).exp() * 1e-3, normal(5, 2, seed=1).exp()
    given = torch.ones(5, 2).double(), misfit, spent, 30
    likelihood = Gaussian(2, 2, floor=(0.0, 0.3))
    free, bounded = Gaussian(2, 2).update(*given), Gaussian(2, 2, floor=0.3).update(*given)
    assert torch.equal(likelihood.update(*given), torch.cat([free[:, :1], bounded[:, 1:]], dim=-1))
    assert likelihood.at_floor(bounded).tolist() == [[False, True]] * 5
    for kind in (VaryingGaussian, StudentT):
        heads = kind(2, floor=(0.0, 0.3))
        f = torch.full((1, heads.outputs), -50.0).double()
        predicted = heads.predict(f, torch.zeros(1, heads.outputs, heads.outputs).double(), None)
        assert (predicted.noise_variance < 1e-10).tolist() == [[True, False]]


def test_floors_of_another_number_than_targets_or_scales_are_refused():
    for kind in (VaryingGaussian, StudentT):
        with pytest.raises(InputError, match="3 targets have one least noise variance or one each, not 2"):
            kind(3, floor=(0.0, 0.3))
    with pytest.raises(InputError, match="need one β each"):
        Gaussian(2, 1, floor=(0.0, 0.3))


@pytest.mark.parametrize("floor", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("likelihood", [Gaussian, VaryingGaussian, StudentT])
def test_a_floor_that_is_no_variance_is_refused(likelihood, floor):
    with pytest.raises(InputError, match="the least noise variance is zero or a positive number"):
        likelihood(floor=floor)


def test_under_a_floor_a_perfect_fit_has_an_end():
    X = normal(40, 2, seed=0)
    rows = Rows(X, X[:, :1] - X[:, 1:])  # no noise at all
    for likelihood in (Gaussian(floor=1e-4), VaryingGaussian(floor=1e-4)):
        model = Model.of(MLP(2, (), likelihood.outputs), likelihood, "scalar", exact)
        w = model.network.init(0)
        state = walked(GaussNewton(model, at_weights), w, rows, 60)
        assert state.ending.running
        predicted = Posterior.of(model, state.w, state.hyper, rows).predict(X)
        noise = predicted.noise_variance.max().item()
        assert 1e-4 <= noise * (1 + 1e-12) and noise < 2e-4
        if isinstance(likelihood, Gaussian):
            assert likelihood.at_floor(state.hyper.beta).all()
