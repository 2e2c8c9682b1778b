"""The dual form through the layers, whatever the likelihood, the rows' weights and the prior, and no J."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from online_laplace.curvature import dual, layered, primal
from online_laplace.evidence import laplace_evidence, tangent_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, mackay_update, statistics
from online_laplace.likelihood import Bernoulli, Categorical, Gaussian, Poisson, StudentT, VaryingGaussian
from online_laplace.model.layered import LayeredJacobian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import Online
from online_laplace.types import Rows
from problems import normal

ONE_HOT = torch.eye(3, dtype=torch.float64)[torch.arange(23) % 3]

LIKELIHOODS = {
    "one noise": (Gaussian(), normal(23, 1, seed=1)),
    "a noise a target": (Gaussian(targets=2, scales=2), normal(23, 2, seed=1)),
    "varying noise": (VaryingGaussian(), normal(23, 1, seed=1)),
    "gross errors": (StudentT(), normal(23, 1, seed=1)),
    "classes": (Categorical(3), ONE_HOT),
    "two classes": (Bernoulli(), ONE_HOT[:, :1]),
    "counts": (Poisson(), normal(23, 1, seed=1).abs().round()),
}

every_case = pytest.mark.parametrize(
    ("name", "prior", "hidden", "replicas", "weighted"),
    [
        (name, prior, hidden, replicas, weighted)
        for name in LIKELIHOODS
        for prior, hidden, replicas, weighted in (
            ("scalar", (6,), (), False),
            ("scalar", (4, 3), (2,), True),
            ("layerwise", (4, 3), (), True),
            ("ard", (6,), (2,), False),
        )
    ],
)


def models(name, prior, hidden, replicas, weighted):
    """The same model in three forms, with weights and rows."""
    likelihood, y = LIKELIHOODS[name]
    network = MLP(3, hidden, likelihood.outputs)
    X = normal(*replicas, 23, 3, seed=0)
    weight = normal(*replicas, 23, seed=5).abs().round() if weighted else None
    rows = Rows(X, y.expand(*replicas, *y.shape).contiguous(), weight)
    w = 0.3 * normal(*replicas, network.d_w, seed=3)
    return [Model.of(network, likelihood, prior, form) for form in (layered, dual, primal)], w, rows


def close(mine, theirs, rtol=1e-10):
    torch.testing.assert_close(mine, theirs, rtol=rtol, atol=1e-10)


@every_case
def test_evidences_modes_and_updates_are_those_of_the_dense_forms(name, prior, hidden, replicas, weighted):
    found = []
    every, w, rows = models(name, prior, hidden, replicas, weighted)
    for model in every:
        hyper = model.initial_hyper(w, alpha=0.7, beta=3.0)
        tangent = model.linearise(w, rows)
        H = model.precision(tangent, hyper)
        seen = statistics(tangent, hyper, H, at_mode(tangent, hyper, H))
        new = mackay_update(hyper, seen)
        evidences = (laplace_evidence(tangent, hyper, H), tangent_evidence(tangent, hyper, H))
        found.append((*evidences, seen.gamma, seen.spent, new.alpha, new.beta))
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            close(mine, theirs)


@every_case
def test_predictions_at_new_rows_are_those_of_the_dense_forms(name, prior, hidden, replicas, weighted):
    every, w, rows = models(name, prior, hidden, replicas, weighted)
    X = normal(*replicas, 5, 3, seed=8)
    found = []
    for model in every:
        posterior = Posterior.of(model, w, model.initial_hyper(w, alpha=0.7, beta=3.0), rows)
        drawn = posterior.sample(X, 2, torch.Generator().manual_seed(0))
        found.append((*posterior.outputs(X), posterior.covariance(X), drawn))
    for mine, dense in zip(found[0], found[1], strict=True):
        close(mine, dense)
    for mine, dense in zip(found[0][:-1], found[2][:-1], strict=True):  # primal draws other numbers
        close(mine, dense)


@pytest.mark.parametrize("kind", [Online, GaussNewton], ids=["adam", "gauss-newton"])
@pytest.mark.parametrize("mean", [at_weights, at_mode], ids=["ol", "lm"])
@every_case
def test_steps_are_those_of_the_dense_forms(kind, mean, name, prior, hidden, replicas, weighted):
    every, w, rows = models(name, prior, hidden, replicas, weighted)
    ends = []
    for model in every:
        procedure = kind(model, mean)
        state = procedure.init(w, model.initial_hyper(w), rows)
        for _ in range(3):
            state = procedure.step(state, rows)
        ends.append((state.w, state.hyper.alpha, state.hyper.beta, state.best.evidence))
    assert not torch.equal(ends[0][0], w)
    for other in ends[1:]:
        for mine, theirs in zip(ends[0], other, strict=True):
            close(mine, theirs, rtol=1e-8)  # training amplifies rounding


@pytest.mark.parametrize("prior", ["scalar", "layerwise", "ard"])
@pytest.mark.parametrize("kind", [Online, GaussNewton], ids=["adam", "gauss-newton"])
def test_neither_steps_nor_predictions_make_a_jacobian(monkeypatch, prior, kind):
    def refuse(self):
        raise AssertionError("J was written out")

    monkeypatch.setattr(LayeredJacobian, "whole", property(refuse))
    (model, *_), w, rows = models("one noise", prior, (4, 3), (2,), True)
    procedure = kind(model, at_mode)
    state = procedure.init(w, model.initial_hyper(w), rows)
    for _ in range(2):
        state = procedure.step(state, rows)
    posterior = Posterior.of(model, state.w, state.hyper, rows)
    posterior.predict(rows.X), posterior.covariance(rows.X)
    posterior.sample(rows.X, 3, torch.Generator().manual_seed(0))


def test_stiff_problems_lose_no_more_than_the_dense_dual_form_does():
    """At β/α = 10⁸ both forms of S = I + K are near the end of their digits; primal is the reference."""
    (by_layers, dense, reference), w, rows = models("one noise", "layerwise", (6,), (), False)
    hyper = by_layers.initial_hyper(w, alpha=1e-4, beta=1e4)
    tangent = by_layers.linearise(w, rows)
    gammas = [model.precision(tangent, hyper).group_gamma() for model in (by_layers, dense, reference)]
    errors = [(gamma - gammas[2]).abs().max().item() for gamma in gammas[:2]]
    assert errors[0] < 1e-6 and errors[1] < 1e-6


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_replica_without_a_factor_is_marked_and_leaves_the_others_untouched(poison):
    (model, *_), w, rows = models("one noise", "ard", (6,), (), False)
    w = w + 0.1 * normal(3, model.network.d_w, seed=4)
    rows = Rows(rows.X.expand(3, -1, -1), rows.y.expand(3, -1, -1))
    hyper = model.initial_hyper(w)
    healthy = model.precision(model.linearise(w, rows), hyper)
    tangent = model.linearise(w, rows)
    first = tangent.J.layers[0]
    delta = first.delta.clone()
    delta[1, 0, 0, 0] = poison
    J = LayeredJacobian((first._replace(delta=delta), *tangent.J.layers[1:]))
    H = model.precision(replace(tangent, J=J), hyper)
    assert H.failed.tolist() == [False, True, False]
    others = torch.tensor([0, 2])
    for read in (lambda P: P.log_contraction(), lambda P: P.group_gamma(), lambda P: P.solve(w)):
        assert torch.equal(read(H)[others], read(healthy)[others])


@pytest.mark.parametrize("name", ["one noise", "varying noise", "classes"])
@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
@pytest.mark.parametrize("last", [False, True])
def test_factors_that_live_side_by_side_do_not_share_memory(name, prior, last):
    """Whoever takes over a kernel's memory keeps it, also when the curvature it came from is gone."""
    (model, *_), _, rows = models(name, prior, (4, 3), (), False)
    weights = [0.3 * normal(model.network.d_w, seed=seed) for seed in range(4)]

    def made(w):
        return model.ggn(model.linearise(w, rows)).at(model.initial_hyper(w), last=last)

    alone = [(H.solve(w), H.group_gamma()) for w in weights for H in [made(w)]]
    together = [made(w) for w in weights]
    for w, H, (solved, gamma) in zip(weights, together, alone, strict=True):
        torch.testing.assert_close(H.solve(w), solved)
        torch.testing.assert_close(H.group_gamma(), gamma)
