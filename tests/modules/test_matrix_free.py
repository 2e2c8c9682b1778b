"""Products alone: solves are exact, estimates are what their probes say, and true within their errors."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from module_problems import (
    OUTPUTS,
    batches,
    convolutional,
    dense_ggn,
    inputs_for,
    jacobian,
    mlp,
    targets,
)  # fmt: skip
from online_laplace import OnlineLaplace
from online_laplace.curvature.matrix_free import conjugate_gradients
from online_laplace.errors import DivergedError, InputError
from online_laplace.modules import fit
from problems import normal, wave

CLOSE = dict(rtol=1e-6, atol=1e-6)


def precision(likelihood="categorical", make=mlp, n=9, probes=10, **settings):
    """H of some mini-batches, and the dense one."""
    module = make(OUTPUTS[likelihood])
    x, y = inputs_for(module, n), targets(likelihood, n)
    settings = {"curvature": "matrix-free"} | settings
    tuner = OnlineLaplace(module, likelihood, n_data=n, alpha=0.7, beta=1.3, **settings)
    H = tuner.posterior(batches(x, y, 4), probes=probes).H
    alpha = tuner.hyper.weight_precision.expand(tuner.view.d_w)
    G = float(tuner.beta) * dense_ggn(module, likelihood, x, y)
    return module, H, G + torch.diag(alpha), alpha


@pytest.mark.parametrize("likelihood", OUTPUTS)
def test_solving_is_solving_with_the_dense_matrix(likelihood):
    module, H, dense, _ = precision(likelihood)
    b = normal(len(dense), seed=1)
    torch.testing.assert_close(H.product(b), dense @ b, **CLOSE)
    torch.testing.assert_close(H.solve(b), torch.linalg.solve(dense, b), **CLOSE)
    J = jacobian(module, inputs_for(module, 3, seed=8))
    inverse = torch.linalg.inv(dense)
    torch.testing.assert_close(H.covariance(J), torch.einsum("nka,ab,nlb->nkl", J, inverse, J), **CLOSE)
    flat = J.flatten(0, 1)
    torch.testing.assert_close(H.joint_covariance(J), flat @ inverse @ flat.mT, **CLOSE)


def test_every_probe_is_its_own_quadratic_form():
    """zᵀ log(M) z by the Lanczos matrix of a solve that went to its end, and zᵀ P^−½ A H⁻¹ P^½ z."""
    _, H, dense, alpha = precision(probes=3)
    generator = torch.Generator().set_state(H.settings.generator.get_state())
    estimate = H.estimate
    root = H.P.sqrt()
    values, vectors = torch.linalg.eigh(dense / torch.outer(root, root))
    log = vectors @ torch.diag(values.log()) @ vectors.mT
    logs, gammas = [], []
    for _ in range(3):
        z = 2.0 * torch.randint(0, 2, alpha.shape, generator=generator) - 1
        z = z.double()
        logs.append(z @ log @ z)
        gammas.append((1 - alpha * z * torch.linalg.solve(dense, root * z) / root) @ per_tensor(H))
    shift = H.P.log().sum() - alpha.log().sum()
    torch.testing.assert_close(estimate.log_contraction, torch.stack(logs).mean() + shift, **CLOSE)
    torch.testing.assert_close(estimate.gamma, torch.stack(gammas).mean(0), **CLOSE)
    torch.testing.assert_close(estimate.gamma_error, torch.stack(gammas).std(0) / 3**0.5, **CLOSE)
    torch.testing.assert_close(estimate.log_contraction_error, torch.stack(logs).std() / 3**0.5, **CLOSE)


def per_tensor(H):
    """A column of ones for every group."""
    return torch.block_diag(*(torch.ones(n, 1, dtype=torch.float64) for n in H.hyper.prior.lengths))


@pytest.mark.parametrize("curvature", ["matrix-free", "sampling"])
@pytest.mark.parametrize("make", [mlp, convolutional])
def test_the_estimates_are_the_exact_ones_within_their_errors(make, curvature):
    _, H, dense, alpha = precision(make=make, probes=40, curvature=curvature)
    estimate, inverse = H.estimate, torch.linalg.inv(dense)
    exact = (1 - alpha * inverse.diagonal()) @ per_tensor(H)
    assert ((estimate.gamma - exact).abs() < 4 * estimate.gamma_error).all()
    log = torch.logdet(dense) - alpha.log().sum()
    assert abs(estimate.log_contraction - log) < 4 * estimate.log_contraction_error
    assert estimate.log_contraction_error < 0.1 * log


def test_estimates_by_draws_are_those_of_the_dense_matrix_at_the_same_draws():
    _, H, dense, alpha = precision(probes=3, curvature="sampling")
    generator = torch.Generator().set_state(H.settings.generator.get_state())
    estimate, root = H.estimate, H.P.sqrt()
    values, vectors = torch.linalg.eigh(dense / torch.outer(root, root))
    log_over = vectors @ torch.diag(values.log() / values) @ vectors.mT
    logs, gammas = [], []
    for _ in range(3):
        b = H._drawn(generator)
        z = torch.linalg.solve(dense, b)
        gammas.append((z * ((dense - torch.diag(alpha)) @ z)) @ per_tensor(H))
        logs.append((b / root) @ log_over @ (b / root))
    shift = H.P.log().sum() - alpha.log().sum()
    torch.testing.assert_close(estimate.log_contraction, torch.stack(logs).mean() + shift, **CLOSE)
    torch.testing.assert_close(estimate.gamma, torch.stack(gammas).mean(0), **CLOSE)


def test_a_draw_is_a_sample_of_all_noise_that_was_then_optimised():
    """H⁻¹ (J̃ᵀ B^½ e + A^½ e'), whose covariance is H⁻¹ (J̃ᵀBJ̃ + A) H⁻¹ = H⁻¹."""
    module, H, dense, alpha = precision("gaussian", n=6)
    (drawn,) = H.sample(1, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(0)
    b = alpha.sqrt() * torch.randn(len(alpha), generator=generator, dtype=torch.float64)
    J = 1.3**0.5 * jacobian(module, inputs_for(module, 6))
    for rows in (slice(0, 4), slice(4, 6)):
        e = torch.randn(J[rows].shape[:2], generator=generator, dtype=torch.float64)
        b = b + torch.einsum("nka,nk->a", J[rows], e)
    torch.testing.assert_close(drawn, torch.linalg.solve(dense, b), **CLOSE)


@pytest.mark.parametrize("curvature", ["matrix-free", "sampling"])
def test_an_update_says_how_sure_it_is_and_is_near_the_exact_one(curvature):
    module = mlp(2)
    x, y = inputs_for(module, 12), targets("gaussian", 12)
    rough = OnlineLaplace(module, "gaussian", n_data=12, curvature=curvature, probes=40)
    whole = OnlineLaplace(module, "gaussian", n_data=12, curvature="full")
    done, exact = rough.update_all(batches(x, y, 5)), whole.update(x, y)
    assert not done.exact and exact.exact and done.probes == 40 and done.rows == 12
    assert abs(done.evidence - exact.evidence) < 4 * done.evidence_error
    for name, error in done.gamma_error.items():
        assert abs(done.gamma[name] - exact.gamma[name]) < 4 * error
    assert "±" in str(done) and "40 probes" in str(done)
    again = OnlineLaplace(module, "gaussian", n_data=12, curvature="full").update_all(batches(x, y, 5))
    assert again.exact and again.evidence == pytest.approx(exact.evidence, rel=1e-10)
    assert again.alpha == pytest.approx(exact.alpha, rel=1e-9)


def test_its_mode_is_that_of_the_whole_curvature():
    module = mlp(2)
    x, y = inputs_for(module, 40), targets("gaussian", 40)
    rough, whole = (
        OnlineLaplace(
            module, "gaussian", n_data=40, curvature=curvature, mean="mode", prior="scalar", probes=p
        )
        for curvature, p in (("matrix-free", 60), ("full", 1))
    )
    done, exact = rough.update(x, y), whole.update(x, y)
    gamma, error = done.gamma["all"], done.gamma_error["all"]
    assert done.alpha["all"] / gamma == pytest.approx(
        exact.alpha["all"] / exact.gamma["all"], rel=1e-6
    )  # 1/‖v*‖²
    assert abs(gamma - exact.gamma["all"]) < 4 * error


def test_fit_looks_at_all_rows_once_an_epoch():
    rows = wave(40)
    loader = DataLoader(TensorDataset(rows.X, rows.y), batch_size=16)
    found = fit(mlp(1, inputs=2), loader, "gaussian", epochs=2, curvature="matrix-free", probes=4, quiet=True)
    assert [update.rows for update in found.history] == [40, 40]
    variance = found.posterior.predict(rows.X[:2]).function_variance
    estimate = found.posterior.predict(rows.X[:2], draws=40).function_variance
    assert (estimate / variance - 1).abs().max() < 0.9


def test_what_it_refuses():
    module = mlp(2)
    x, y = inputs_for(module, 12), targets("gaussian", 12)
    tuner = OnlineLaplace(module, "gaussian", n_data=12, curvature="matrix-free")
    for _ in range(19):
        assert tuner.update(x[:5], y[:5]) is None
    with pytest.raises(InputError, match=r"call update_all\(loader\) once an epoch"):
        tuner.update(x[:5], y[:5])
    with pytest.raises(InputError, match=r"at least 2 probes, not 1"):
        OnlineLaplace(module, "gaussian", n_data=12, curvature="matrix-free", probes=1).update(x, y)
    H = torch.diag(torch.logspace(0, 12, 50, dtype=torch.float64))
    with pytest.raises(DivergedError, match=r"did not arrive in 5 iterations"):
        conjugate_gradients(lambda v: H @ v, torch.ones(50).double(), torch.ones(50).double(), 1e-10, 5)
