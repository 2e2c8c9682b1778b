"""Four ways from logits with a covariance to probabilities of classes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.errors import InputError
from online_laplace.likelihood import Categorical
from online_laplace.predictive import forms
from online_laplace.predictive.forms import FORMS, log_probabilities
from problems import normal

ROWS = 5


def logits(k, seed, spread=1.0):
    root = spread * normal(ROWS, k, k, seed=seed + 1)
    return 2 * normal(ROWS, k, seed=seed), root @ root.mT


@given(form=st.sampled_from(FORMS), k=st.integers(2, 5), T=st.floats(0.3, 3), seed=st.integers(0, 100))
def test_probabilities_sum_to_one_at_any_temperature(form, k, T, seed):
    total = log_probabilities(form, *logits(k, seed), T).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))


@given(form=st.sampled_from(FORMS), k=st.integers(2, 5), seed=st.integers(0, 100))
def test_a_constant_added_to_all_logits_of_a_row_changes_nothing(form, k, seed):
    f, covariance = logits(k, seed)
    moved = log_probabilities(form, f + 7, covariance + 3 * torch.ones(k, k, dtype=f.dtype))
    torch.testing.assert_close(moved, log_probabilities(form, f, covariance), rtol=1e-6, atol=1e-6)


@given(form=st.sampled_from(["plug-in", "probit", "monte-carlo"]), seed=st.integers(0, 100))
def test_without_a_covariance_they_are_the_softmax(form, seed):
    f, covariance = logits(3, seed)
    torch.testing.assert_close(log_probabilities(form, f, 0 * covariance), f.log_softmax(-1))


def test_two_equally_uncertain_logits_are_bridged_by_the_softmax_itself():
    f = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    torch.testing.assert_close(
        log_probabilities("bridge", f, torch.eye(2, dtype=f.dtype)[None]), f.log_softmax(-1)
    )


def test_monte_carlo_is_the_mean_of_the_softmax_and_its_chunks_change_nothing(monkeypatch):
    f, covariance = logits(3, 0, spread=0.7)
    e = normal(100_000, 3, seed=9)
    root = torch.linalg.cholesky(covariance)
    expected = torch.stack([(f[i] + e @ root[i].mT).softmax(-1).mean(0) for i in range(ROWS)])
    found = log_probabilities("monte-carlo", f, covariance)
    torch.testing.assert_close(found.exp(), expected, atol=0.03, rtol=0)
    monkeypatch.setattr(forms, "CHUNK_NUMBERS", 1)
    torch.testing.assert_close(log_probabilities("monte-carlo", f, covariance), found)


def test_a_temperature_is_a_power():
    f, covariance = logits(3, 1)
    p, cooler = (log_probabilities("probit", f, covariance, T).exp() for T in (1.0, 0.5))
    torch.testing.assert_close(cooler, p.square() / p.square().sum(-1, keepdim=True))


@pytest.mark.parametrize("wrong", [{"form": "probits"}, {"temperature": 0.0}, {"temperature": math.inf}])
def test_a_likelihood_refuses_what_is_no_form_and_no_temperature(wrong):
    with pytest.raises(InputError):
        Categorical(3, **wrong)
