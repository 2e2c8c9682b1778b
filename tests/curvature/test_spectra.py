"""Blocks that tell of the same rows: what their spectra say of the whole."""

from __future__ import annotations

import pytest
import torch

from online_laplace.curvature.blocks import BlockGGN
from online_laplace.curvature.spectra import Spectra, SpectralEvidence, correlated
from online_laplace.model.network import slots
from online_laplace.model.prior import initial_hyper
from online_laplace.model.tensor_prior import tensor_prior
from problems import normal

SIZES = (6, 3, 1)


def blocks(seed, rows=12, scale=1.0):
    """J (rows, Σ sizes), the eigenvalues of the blocks of JᵀJ, and precisions for them."""
    J = scale * normal(rows, sum(SIZES), seed=seed) * (1 + 3 * normal(rows, 1, seed=seed + 1).abs())
    values = [torch.linalg.eigvalsh(part.mT @ part).clamp(min=0) for part in J.split(SIZES, dim=1)]
    prior = tensor_prior(slots([(f"w{i}", (n,)) for i, n in enumerate(SIZES)]), "layerwise", J)
    hyper = initial_hyper(prior, J[0], alpha=1.0, beta=1.0)
    hyper = hyper.with_values(torch.tensor([0.5, 2.0, 1.0]).double(), torch.tensor([1.5]).double())
    return J, values, hyper


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [0.05, 0.5, 5.0])
def test_the_log_contraction_of_the_whole_lies_between_shared_and_separate_spectra(seed, scale):
    J, values, hyper = blocks(seed, scale=scale)
    found = SpectralEvidence(Spectra.of(values), hyper)
    scaled = J * hyper.weight_precision.rsqrt() * 1.5**0.5
    whole = torch.logdet(torch.eye(len(J)).double() + scaled @ scaled.mT)
    separate = (found.k.counts * found.k.values.log1p()).sum()
    shared = found.k.together()[0].log1p().sum()
    assert shared <= whole + 1e-9 and whole <= separate + 1e-9
    assert shared <= found.log_contraction() <= separate


def test_gamma_is_that_of_shared_spectra_divided_as_separate_blocks_would_have_it():
    _, values, hyper = blocks(3, scale=0.2)
    found = SpectralEvidence(Spectra.of(values), hyper)
    k = [1.5 * value / alpha for value, alpha in zip(values, hyper.alpha, strict=True)]
    alone = torch.stack([sum(one / (1 + one) for one in part) for part in k])
    ranks = [sum(sorted(part.tolist())[-1 - i] for part in k if len(part) > i) for i in range(max(SIZES))]
    together = sum(s / (1 + s) for s in ranks)
    apart = (alone.sum() / sum(SIZES)) ** 2
    total = together + apart * (alone.sum() - together)
    torch.testing.assert_close(found.group_gamma(), alone * total / alone.sum())
    torch.testing.assert_close(found.scale_gamma(), total.reshape(1))
    assert not found.exact and not found.failed


def test_one_block_shares_with_nobody_and_weights_that_rows_determine_do_not_share():
    _, values, hyper = blocks(1)
    one = SpectralEvidence(Spectra.of([values[0], *(0 * value for value in values[1:])]), hyper)
    torch.testing.assert_close(one.overlap, torch.tensor(1.0).double())
    _, values, hyper = blocks(1, scale=1e4)
    found = SpectralEvidence(Spectra.of(values), hyper)
    torch.testing.assert_close(found.overlap, torch.tensor(1.0).double())


def test_what_is_not_finite_is_told():
    _, values, hyper = blocks(1)
    assert SpectralEvidence(Spectra.of([values[0] * torch.nan, *values[1:]]), hyper).failed


def test_correlated_blocks_are_a_determinant_rank_by_rank_and_gamma_its_derivative():
    k = [torch.tensor([5.0, 0.7, 0.1]).double(), torch.tensor([2.0, 0.3]).double()]
    rho = 0.9

    def dense(logs):
        total = 0.0
        for rank in range(3):
            own = torch.stack([log[rank].exp() for log in logs if len(log) > rank])
            equal = (1 - rho) * torch.eye(len(own)).double() + rho
            total = total + torch.logdet(torch.eye(len(own)).double() + own.sqrt().outer(own.sqrt()) * equal)
        return total

    logs = [one.log().requires_grad_() for one in k]
    slopes = torch.autograd.grad(dense(logs), logs)
    log_contraction, gamma = correlated(k, rho)
    torch.testing.assert_close(log_contraction, dense(logs).detach())
    torch.testing.assert_close(gamma, sum(slope.sum() for slope in slopes))
    torch.testing.assert_close(correlated(k, 1.0)[0], Spectra.of(k).together()[0].log1p().sum())
    torch.testing.assert_close(correlated(k, 0.0)[0], sum(one.log1p().sum() for one in k))


def test_blocks_update_by_their_correlated_spectra_and_predict_by_their_own_matrix():
    J, _, hyper = blocks(4, scale=0.3)
    ggn = BlockGGN([part.mT @ part for part in J.split(SIZES, dim=1)])
    H, evidence = ggn.at(hyper), ggn.evidence(hyper)
    scaled = (J * hyper.weight_precision.rsqrt() * 1.5**0.5).split(SIZES, dim=1)
    expected = correlated([torch.linalg.eigvalsh(part.mT @ part).clamp(min=0) for part in scaled])
    torch.testing.assert_close(evidence.log_contraction(), expected[0])
    torch.testing.assert_close(evidence.scale_gamma(), expected[1].reshape(1))
    shares = H.group_gamma() / H.group_gamma().sum()
    torch.testing.assert_close(evidence.group_gamma(), expected[1] * shares)
    assert not evidence.failed and BlockGGN([G - 9 for G in ggn.blocks]).evidence(hyper).failed


def test_few_ranks_are_kept_one_by_one_and_many_in_bins_that_hardly_change_a_sum():
    mixed = torch.randperm(40_000, generator=torch.Generator().manual_seed(0))
    values = [torch.logspace(3, -9, 40_000).double()[mixed], torch.tensor([2.0, 5.0]).double()]
    spectra = Spectra.of(values)
    assert spectra.values.shape[1] < 2000 and spectra.counts.sum(1).tolist() == [40_000, 2]
    torch.testing.assert_close(spectra.values[1, :3], torch.tensor([5.0, 2.0, 0.0]).double())
    ordered = values[0].sort(descending=True).values
    torch.testing.assert_close(spectra.values[0, :500], ordered[:500])
    torch.testing.assert_close((spectra.counts * spectra.values).sum(1)[0], values[0].sum())
    exact = values[0].log1p().sum()
    torch.testing.assert_close((spectra.counts * spectra.values.log1p()).sum(1)[0], exact, rtol=1e-4, atol=0)
