"""Bounds by subsets: below the evidence, tight for one part, and what they say of themselves."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from module_problems import batches, dense_ggn, inputs_for, mlp, targets
from online_laplace import OnlineLaplace
from online_laplace.core import Gaussian
from online_laplace.errors import InputError
from online_laplace.modules import Cadence

N = 12


def problem(likelihood: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    module = mlp({"gaussian": 2, "categorical": 3}[likelihood])
    return module, inputs_for(module, N), targets(likelihood, N)


def exact_evidence(likelihood: str) -> float:
    module, x, y = problem(likelihood)
    return OnlineLaplace(module, likelihood, n_data=N, curvature="full").update(x, y).evidence


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_the_mean_bound_over_a_partition_is_never_above_the_evidence(likelihood):
    module, x, y = problem(likelihood)
    cadence = Cadence(every=1, decay=0.0)
    whole, bounds = exact_evidence(likelihood), []
    for size in (1, 3, 6, 12):
        found = []
        for xs, ys in batches(x, y, size):
            tuner = OnlineLaplace(
                module, likelihood, n_data=N, curvature="subset", cadence=cadence, probes=None
            )
            found.append(tuner.update(xs, ys).evidence)
        bounds.append(sum(found) / len(found))
    assert all(bound <= whole + 1e-9 for bound in bounds)
    assert bounds == sorted(bounds)  # parts of parts know less
    assert bounds[-1] == pytest.approx(whole, abs=1e-9)


def test_bounds_from_single_outputs_are_below_the_evidence_on_average():
    module, x, y = problem("categorical")
    found = [
        OnlineLaplace(module, "categorical", n_data=N, curvature="subset", seed=seed).update(x, y).evidence
        for seed in range(200)
    ]
    assert sum(found) / len(found) < exact_evidence("categorical")


def test_gamma_is_the_derivative_of_the_bound():
    module, x, y = problem("categorical")
    tuner = OnlineLaplace(module, "categorical", n_data=N, curvature="subset", probes=None)
    done = tuner.update(x, y)
    G = dense_ggn(module, "categorical", x, y)
    inverse = torch.linalg.inv(G + torch.eye(len(G)).double())
    each = (G @ inverse).diagonal().split([p.numel() for p in module.parameters()])
    assert list(done.gamma.values()) == pytest.approx([float(part.sum()) for part in each])


def test_an_update_says_that_it_is_a_bound_and_from_what():
    module, x, y = problem("categorical")
    tuner = OnlineLaplace(
        module, "categorical", n_data=N, curvature="subset", cadence=Cadence(every=1, decay=0.5)
    )
    for xs, ys in batches(x, y, 4):
        done = tuner.update(xs, ys)
    assert (done.together, done.probes, done.exact) == (4, 1, False) and done.rows == 4 * 1.75
    assert "subset, from 7 of 12 rows, a lower bound: 4 residuals at a time" in str(done)
    assert tuner.posterior(batches(x, y, 4)).predict(x).log_probabilities.shape == (N, 3)


def test_only_the_latest_parts_are_remembered():
    module, x, y = problem("gaussian")
    tuner = OnlineLaplace(
        module, "gaussian", n_data=N, curvature="subset", cadence=Cadence(every=1, decay=0.99)
    )
    for _ in range(40):
        done = tuner.update(x[:2], y[:2])
    assert done.rows == pytest.approx(2 * sum(0.99**i for i in range(20)))


def test_a_run_by_subsets_goes_on_from_its_state():
    module, x, y = problem("gaussian")
    settings = {"n_data": N, "curvature": "subset", "cadence": Cadence(every=1, decay=0.9)}
    tuner = OnlineLaplace(module, "gaussian", **settings)
    tuner.update(x[:5], y[:5])
    file = io.BytesIO()
    torch.save(tuner.state_dict(), file)
    file.seek(0)
    again = OnlineLaplace(module, "gaussian", **settings)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert again.update(x[5:], y[5:]) == tuner.update(x[5:], y[5:])


def test_subsets_are_refused_for_several_noises():
    module, *_ = problem("gaussian")
    with pytest.raises(InputError, match="subset curvature is for one noise precision, and there are 2"):
        OnlineLaplace(module, Gaussian(2, scales=2), n_data=N, curvature="subset")
