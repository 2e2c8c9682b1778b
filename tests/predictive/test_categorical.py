"""Class probabilities and their scores, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.predictive.categorical import CategoricalPredictive
from problems import normal, unit_scale


def indicators(*classes, of):
    return torch.eye(of, dtype=torch.float64)[list(classes)]


def test_scores_are_the_mean_log_probability_of_the_class_and_the_share_of_right_answers():
    rows = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.4, 0.3], [0.5, 0.25, 0.25]]
    p = torch.tensor(rows, dtype=torch.float64)
    y = indicators(0, 1, 1, 2, of=3)
    scores = CategoricalPredictive(p.log()).score(y)
    expected = (math.log(0.7) + math.log(0.3) + math.log(0.4) + math.log(0.25)) / 4
    assert scores.log_likelihood.item() == pytest.approx(expected, rel=1e-12)
    assert scores.accuracy.item() == 0.5


@given(replicas=st.sampled_from([(), (2,), (2, 3)]), classes=st.integers(2, 5), seed=st.integers(0, 1000))
def test_replicas_are_scored_one_by_one_and_units_change_nothing(replicas, classes, seed):
    log_p = (3 * normal(*replicas, 6, classes, seed=seed)).log_softmax(-1)
    chosen = torch.randint(classes, (6,), generator=torch.Generator().manual_seed(seed))
    y = indicators(*chosen.tolist(), of=classes)
    predictive = CategoricalPredictive(log_p)
    scores = predictive.score(y.expand(*replicas, 6, classes))
    assert scores.accuracy.shape == scores.log_likelihood.shape == replicas
    for position, alone in enumerate(log_p.reshape(-1, 6, classes)):
        picked = alone[torch.arange(6), chosen]
        right = (alone.argmax(-1) == chosen).double().mean()
        assert scores.accuracy.reshape(-1)[position].item() == pytest.approx(right.item())
        assert scores.log_likelihood.reshape(-1)[position].item() == pytest.approx(picked.mean().item())
    assert predictive.to_units(unit_scale(classes)) is predictive
