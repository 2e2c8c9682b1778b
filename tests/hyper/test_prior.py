"""Which weights share a precision, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from online_laplace.curvature import exact
from online_laplace.errors import InputError, UnknownNameError
from online_laplace.likelihood import Gaussian, StudentT, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.module import ModuleNetwork
from online_laplace.model.prior import group_prior, network_prior, weight_labels
from problems import make_model, normal

NETWORK = MLP(3, (2,), 1)
W = NETWORK.init(0)


def test_a_scalar_prior_has_one_group():
    hyper = make_model(NETWORK).initial_hyper(W, alpha=2.0, beta=3.0)
    assert hyper.prior.names == ("all",)
    assert hyper.prior.sizes.tolist() == [NETWORK.d_w]
    assert hyper.alpha.tolist() == [2.0] and hyper.beta.tolist() == [3.0]
    assert hyper.scalar


def test_a_layerwise_prior_has_one_group_per_tensor():
    prior = network_prior(NETWORK, "layerwise", W)
    assert prior.names == ("layer 0.weight", "layer 0.bias", "layer 1.weight", "layer 1.bias")
    assert prior.sizes.tolist() == [6, 2, 2, 1]


def test_an_ard_prior_has_one_group_per_input_and_one_per_remaining_tensor():
    hyper = make_model(NETWORK, "ard").initial_hyper(W)
    assert hyper.prior.names[:3] == ("input 0", "input 1", "input 2")
    assert hyper.prior.names[3:] == ("layer 0.bias", "layer 1.weight", "layer 1.bias")
    assert hyper.prior.sizes.tolist() == [2, 2, 2, 2, 2, 1]
    # the fan-out of input 1 is column 1 of the first weight matrix
    alpha = torch.arange(1.0, 7.0, dtype=torch.float64)
    first = NETWORK.tensors[0].read(hyper.with_values(alpha, hyper.beta).weight_precision)
    assert first.tolist() == [[1, 2, 3], [1, 2, 3]]


@pytest.mark.parametrize("prior", ["scalar", "layerwise", "ard"])
def test_sums_within_groups_and_values_per_weight_are_adjoint(prior):
    groups = network_prior(NETWORK, prior, W)
    alpha, values = normal(4, len(groups), seed=0), normal(4, NETWORK.d_w, seed=1)
    left = (groups.expand(alpha) * values).sum(-1)
    torch.testing.assert_close(left, (alpha * groups.sum(values)).sum(-1))


def test_any_grouping_can_be_given_weight_by_weight():
    labels = ["odd" if i % 2 else "even" for i in range(NETWORK.d_w)]
    hyper = make_model(NETWORK, labels).initial_hyper(W)
    assert hyper.prior.names == ("even", "odd")
    values = torch.arange(NETWORK.d_w, dtype=torch.float64)
    assert hyper.prior.sum(values).tolist() == [values[::2].sum(), values[1::2].sum()]


def test_hyperparameters_have_the_shape_of_the_replicas():
    network = MLP(3, (2,), 4)
    w = normal(5, 2, network.d_w, seed=0).float()
    hyper = make_model(network, "ard", per_output=True, like=w).initial_hyper(w)
    assert hyper.alpha.shape == (5, 2, 6) and hyper.beta.shape == (5, 2, 4)
    assert hyper.alpha.dtype == hyper.prior.membership.dtype == torch.float32
    assert not hyper.scalar


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_an_initial_precision_that_is_not_positive_and_finite_is_refused(name, value):
    with pytest.raises(InputError, match=f"initial {name} must be a positive, finite precision, not"):
        make_model(NETWORK).initial_hyper(W, **{name: value})


def test_a_grouping_of_the_wrong_length_is_refused():
    with pytest.raises(InputError, match=f"the grouping has 3 labels for {NETWORK.d_w} weights"):
        network_prior(NETWORK, ["a", "b", "c"], W)


def test_an_unknown_structure_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="unknown prior 'layerwize': did you mean 'layerwise'"):
        network_prior(NETWORK, "layerwize", W)


def test_a_prior_over_nothing_is_refused():
    with pytest.raises(InputError, match="at least one weight to govern"):
        group_prior([], W)


def test_ard_needs_a_first_matrix():
    network = ModuleNetwork(nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten()), 2)
    with pytest.raises(InputError, match=r"the ard prior needs a first tensor of shape \(units, inputs\)"):
        weight_labels(network, "ard")


def test_a_prior_of_another_network_is_refused():
    other = MLP(2, (2,), 1)
    with pytest.raises(
        InputError, match=f"the prior governs {other.d_w} weights, but the network has {NETWORK.d_w}"
    ):
        Model(NETWORK, Gaussian(), network_prior(other, "scalar", W), exact)


def test_a_likelihood_that_needs_other_outputs_is_refused():
    with pytest.raises(InputError, match="the likelihood needs 2 outputs, but the network has 1"):
        Model(NETWORK, VaryingGaussian(), network_prior(NETWORK, "scalar", W), exact)


def test_a_precision_that_is_not_learnt_starts_and_stays_at_one():
    model = make_model(MLP(3, (2,), 2), likelihood=VaryingGaussian())
    w = model.network.init(0)
    assert model.initial_hyper(w, alpha=2.0, beta=3.0).beta.tolist() == [1.0]


@pytest.mark.parametrize(
    ("structure", "names"),
    [
        ("scalar", ("all",)),
        ("layerwise", ("layer 0.weight", "layer 0.bias", "layer 1.weight", "layer 1.bias")),
        ("ard", ("input 0", "input 1", "input 2", "layer 0.bias", "layer 1.weight", "layer 1.bias")),
    ],
)
def test_the_last_weights_of_a_named_head_have_groups_of_their_own(structure, names):
    network = MLP(3, (2,), 4)
    plain = network_prior(network, structure, W)
    assert plain.names == names
    unnamed = network_prior(network, structure, W, ("",) * 4)
    assert unnamed.names == names and torch.equal(unnamed.membership, plain.membership)
    prior = Model.of(network, VaryingGaussian(2), structure, exact).prior
    assert set(prior.names) == {*names, "noise weight", "noise bias"}
    groups = dict(zip(prior.names, prior.membership.T, strict=True))
    weight, bias = network.tensors[-2:]
    expected = torch.zeros(network.d_w, dtype=torch.float64)
    weight.read(expected)[2:] = 1
    assert torch.equal(groups["noise weight"], expected)
    expected = torch.zeros(network.d_w, dtype=torch.float64)
    bias.read(expected)[2:] = 1
    assert torch.equal(groups["noise bias"], expected)
    outside = prior.membership.sum(1) - groups["noise weight"] - groups["noise bias"]
    assert torch.equal(prior.membership.sum(1), torch.ones_like(outside))


def test_heads_of_a_linear_model_and_of_one_without_biases():
    prior = Model.of(MLP(2, (), 3), StudentT(), "ard", exact).prior
    assert prior.names == (
        "input 0", "input 1", "scale weight", "freedom weight", "layer 0.bias", "scale bias", "freedom bias",
    )  # fmt: skip
    assert Model.of(MLP(2, (), 3, bias=False), StudentT(), "scalar", exact).prior.names == (
        "all",
        "scale weight",
        "freedom weight",
    )


def test_heads_that_are_constants_have_a_group_each():
    network = MLP(2, (4,), 3, constants=2)
    prior = Model.of(network, StudentT(), "scalar", exact).prior
    assert prior.names == ("all", "scale", "freedom")
    assert prior.sizes.tolist() == [network.d_w - 2, 1, 1]
    assert torch.equal(prior.membership[-2:, 1:], torch.eye(2, dtype=torch.float64))


def test_labels_that_were_given_stay_whatever_the_heads():
    network = MLP(2, (), 2)
    assert Model.of(network, VaryingGaussian(), ["a"] * network.d_w, exact).prior.names == ("a",)


def test_heads_that_no_last_layer_shows_are_refused():
    network = ModuleNetwork(nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 1), nn.Linear(1, 2), Doubled()), 4)
    with pytest.raises(InputError, match="give the prior as a label per weight"):
        Model.of(network, VaryingGaussian(2), "scalar", exact)
    with pytest.raises(InputError, match="3 heads were named for 4 outputs"):
        network_prior(network, "scalar", W, ("", "", "noise"))


class Doubled(nn.Module):
    def forward(self, x):
        return torch.cat([x, 2 * x], dim=-1)
