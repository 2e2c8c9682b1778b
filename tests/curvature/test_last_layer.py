"""The curvature of the last layer: the block of the dense matrix, in all that is asked of it."""

from __future__ import annotations

import sys

import pytest
import torch

from online_laplace.curvature import exact, last_layer
from online_laplace.errors import InputError
from online_laplace.evidence import posterior_mode
from online_laplace.likelihood import Categorical
from online_laplace.model import jacobian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.types import Rows
from problems import linearised, normal
from second_order import LIKELIHOODS, likelihood_case, second_order, stacked

every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
settings = pytest.mark.parametrize(("prior", "replicas"), [("scalar", ()), ("layerwise", (2,)), ("ard", ())])
CLOSE = dict(rtol=1e-10, atol=1e-10)


def close(mine, theirs):
    torch.testing.assert_close(mine, theirs, **CLOSE)


def below(network):
    """How many weights come before those of the last layer."""
    return network.layers[-1][0].start


@every_likelihood
@settings
@pytest.mark.parametrize("n", [3, 25])
def test_every_answer_is_that_of_the_dense_block(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, last_layer, prior=prior, replicas=replicas)
    hyper, cut = case.hyper, below(case.network)
    H = case.model.precision(case.tangent, hyper)
    there = second_order(case)
    block = stacked([one.H[cut:, cut:] for one in there], case)
    alpha = stacked([one.alpha[cut:] for one in there], case)
    inverse = torch.zeros(*case.w.shape, case.w.shape[-1], dtype=case.w.dtype)
    inverse[..., cut:, cut:] = torch.linalg.inv(block)
    assert not H.exact and not H.failed.any()

    b = normal(*case.w.shape, seed=7)
    close(H.solve(b), (inverse @ b.unsqueeze(-1)).squeeze(-1))
    close(H.log_contraction(), torch.logdet(block) - alpha.log().sum(-1))
    gamma = 1 - alpha * inverse.diagonal(dim1=-2, dim2=-1)[..., cut:]
    close(H.group_gamma(), gamma @ hyper.prior.membership[cut:])
    close(H.scale_gamma().sum(-1), gamma.sum(-1))

    X = normal(*replicas, 4, 2, seed=8)
    J = linearised(case.network, case.w, X)[1]
    flat = J.flatten(-3, -2)
    joint = flat @ inverse @ flat.mT
    close(H.joint_covariance(J), joint)
    close(H.covariance(J), torch.einsum("...mkd,...de,...mle->...mkl", J, inverse, J))
    as_operator = case.network.linearise(case.w, X)[1]
    close(H.covariance_at(as_operator), H.covariance(J))
    close(H.joint_covariance_at(as_operator), joint)

    drawn = H.sample(4000, torch.Generator().manual_seed(0))
    assert (drawn[..., :cut] == 0).all()
    moments = drawn.mT @ drawn / 4000
    scale = inverse.diagonal(dim1=-2, dim2=-1).sqrt()
    assert ((moments - inverse).abs() <= 0.12 * scale.unsqueeze(-1) * scale.unsqueeze(-2)).all()


@every_likelihood
def test_what_it_determines_is_never_more_than_what_the_whole_curvature_does(likelihood):
    case = likelihood_case(likelihood, 25, last_layer, prior="scalar")
    part = case.model.precision(case.tangent, case.hyper)
    whole = exact(case.tangent, case.model.prior).at(case.hyper)
    assert part.group_gamma() <= whole.group_gamma()
    assert part.log_contraction() <= whole.log_contraction()


def test_groups_below_the_last_layer_spend_nothing():
    case = likelihood_case(Categorical(3), 25, last_layer, prior="layerwise")
    gamma = case.model.precision(case.tangent, case.hyper).group_gamma()
    names = case.model.prior.names
    lower = [place for place, name in enumerate(names) if not name.startswith("layer 1")]
    assert lower and (gamma[lower] == 0).all()
    assert (gamma[[p for p in range(len(names)) if p not in lower]] > 0).all()


def test_a_jacobian_in_blocks_of_rows_is_the_same(monkeypatch):
    case = likelihood_case(Categorical(3), 25, last_layer, prior="scalar", replicas=(2,))
    rows = Rows(case.rows.X, case.rows.y)
    at_once = case.model.precision(case.model.linearise(case.w, rows), case.hyper)
    monkeypatch.setattr(jacobian, "_is_small", lambda *_: False)
    monkeypatch.setattr(jacobian, "_rows_of_block", lambda *_: 4)
    # The package's own name for the structure hides the module of the same name.
    monkeypatch.setattr(sys.modules["online_laplace.curvature.last_layer"], "FACTOR_NUMBERS", 1)
    monkeypatch.setattr(jacobian, "has_factors", lambda *_: False)
    parts = jacobian.BlockJacobian.of(case.network, case.w, rows.X)
    tangent = case.model.linearise(case.w, rows)
    in_blocks = last_layer(
        type(tangent)(
            tangent.w, tangent.local, parts.whitened(tangent.local.root), tangent.n, tangent.likelihood
        ),
        case.model.prior,
    ).at(case.hyper)
    close(in_blocks.group_gamma(), at_once.group_gamma())
    close(in_blocks.log_contraction(), at_once.log_contraction())


def test_mini_batches_add_up():
    case = likelihood_case(Categorical(3), 20, last_layer, prior="scalar")
    X, y = case.rows.X, case.rows.y
    halves = [case.model.linearise(case.w, Rows(X[half], y[half])) for half in (slice(0, 9), slice(9, 20))]
    first, second = (case.model.ggn(tangent) for tangent in halves)
    whole = case.model.ggn(case.model.linearise(case.w, Rows(X, y)))
    close((first + second).at(case.hyper).group_gamma(), whole.at(case.hyper).group_gamma())


def test_a_replica_without_a_factor_leaves_the_others_untouched():
    case = likelihood_case(Categorical(3), 20, last_layer, prior="scalar", replicas=(3,))
    w = case.w.clone()
    w[1] = torch.nan
    H = case.model.precision(case.model.linearise(w, case.rows), case.hyper)
    sound = case.model.precision(case.model.linearise(case.w, case.rows), case.hyper)
    assert H.failed.tolist() == [False, True, False]
    close(H.group_gamma()[[0, 2]], sound.group_gamma()[[0, 2]])


def test_a_jacobian_without_layers_and_the_mode_are_refused():
    case = likelihood_case(Categorical(3), 10, last_layer, prior="scalar")
    dense = jacobian.DenseJacobian(jacobian.written_out(case.tangent.J))
    tangent = type(case.tangent)(case.w, case.tangent.local, dense, case.tangent.n, case.tangent.likelihood)
    with pytest.raises(InputError, match="a network of layers"):
        last_layer(tangent, case.model.prior)
    with pytest.raises(InputError, match="whole curvature"):
        posterior_mode(case.tangent, case.hyper, case.model.precision(case.tangent, case.hyper))


def test_outputs_vary_with_the_last_layer_alone():
    model = Model.of(MLP(2, (5,), 3), Categorical(3), "scalar", last_layer)
    rows = Rows(normal(12, 2, seed=0), torch.eye(3, dtype=torch.float64)[torch.arange(12) % 3])
    w = model.network.init(0)
    posterior = Posterior.of(model, w, model.initial_hyper(w), rows)
    _, covariance = posterior.outputs(rows.X)
    features = torch.tanh(rows.X @ w[:10].reshape(5, 2).T + w[10:15])
    features = torch.cat([features, torch.ones(12, 1, dtype=torch.float64)], dim=-1)
    p = model.network.forward(w, rows.X).softmax(-1)
    curvature = torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)
    # Weights of the last layer as (class, unit and bias).
    G = torch.einsum("ncd,ni,nj->cidj", curvature, features, features).reshape(18, 18)
    inverse = torch.linalg.inv(G + torch.eye(18, dtype=torch.float64)).reshape(3, 6, 3, 6)
    close(covariance, torch.einsum("ni,cidj,nj->ncd", features, inverse, features))
