"""The closed-form Jacobian against torch.func and against differences of outputs."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from online_laplace.errors import InputError, UnknownNameError
from online_laplace.hyper.mackay import at_weights
from online_laplace.model.jacobian import DenseJacobian
from online_laplace.model.mlp import MLP
from online_laplace.model.module import ModuleNetwork
from online_laplace.model.network import initial_weights
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import Online
from problems import ACTIVATION_NAMES, linearised, make_model, normal, wave

MODULES = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}
DEPTHS = [(), (4,), (4, 3), (3, 5, 2)]


def sequential(network: MLP) -> nn.Sequential:
    """The same network as a torch module."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in zip(network.widths, network.widths[1:], strict=False):
        layers += [nn.Linear(fan_in, fan_out, bias=network.bias, dtype=torch.float64)]
        layers += [MODULES[network.activation]()]
    return nn.Sequential(*layers[:-1])


every_network = pytest.mark.parametrize(
    "network",
    [
        MLP(3, hidden, outputs, activation, bias)
        for hidden in DEPTHS
        for outputs in (1, 3)
        for activation in ACTIVATION_NAMES
        for bias in (True, False)
    ],
    ids=str,
)


@every_network
def test_the_closed_form_equals_torch_func(network):
    general = ModuleNetwork(sequential(network), network.d_out)
    assert general.d_w == network.d_w
    assert [t.shape for t in general.tensors] == [t.shape for t in network.tensors]
    w, X = normal(network.d_w, seed=0), normal(7, 3, seed=1)
    f, J = linearised(network, w, X)
    general_f, general_J = linearised(general, w, X)
    assert J.shape == (7, network.d_out, network.d_w)
    torch.testing.assert_close(f, general_f, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(J, general_J, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(network.forward(w, X), general.forward(w, X), rtol=1e-12, atol=1e-12)


@every_network
def test_the_closed_form_equals_central_differences(network):
    w, X = normal(network.d_w, seed=2), normal(5, 3, seed=3)
    h = 1e-6
    steps = h * torch.eye(network.d_w, dtype=torch.float64)
    differences = (network.forward(w + steps, X) - network.forward(w - steps, X)) / (2 * h)
    # (d_w, n, k) → (n, k, d_w); the error is of the order of h² and of ε/h
    torch.testing.assert_close(
        linearised(network, w, X)[1], differences.permute(1, 2, 0), rtol=1e-7, atol=1e-7
    )


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
@pytest.mark.parametrize("own_rows", [True, False], ids=["own rows", "shared rows"])
@pytest.mark.parametrize("replicas", [(1,), (3,), (2, 2)])
def test_replicas_are_linearised_as_if_alone(activation, own_rows, replicas):
    network = MLP(3, (4, 3), 2, activation)
    general = ModuleNetwork(sequential(network), 2)
    w = normal(*replicas, network.d_w, seed=0)
    X = normal(*replicas, 6, 3, seed=1) if own_rows else normal(6, 3, seed=1)
    for batched in (network, general):
        f, J = linearised(batched, w, X)
        assert f.shape == (*replicas, 6, 2) and J.shape == (*replicas, 6, 2, network.d_w)
        each = X.expand(*replicas, 6, 3).reshape(-1, 6, 3)
        for position, alone in enumerate(w.reshape(-1, network.d_w)):
            f_alone, J_alone = linearised(network, alone, each[position])
            torch.testing.assert_close(f.reshape(-1, 6, 2)[position], f_alone, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(
                J.reshape(-1, 6, 2, network.d_w)[position], J_alone, rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_float32_gives_the_float64_jacobian_to_its_own_precision(activation):
    network = MLP(3, (4, 3), 2, activation)
    w, X = normal(network.d_w, seed=0).float(), normal(6, 3, seed=1).float()
    f, J = linearised(network, w, X)
    assert f.dtype == J.dtype == torch.float32
    J_double = linearised(network, w.double(), X.double())[1]
    torch.testing.assert_close(J.double(), J_double, rtol=1e-4, atol=1e-5)
    general = linearised(ModuleNetwork(sequential(network), 2), w, X)[1]
    assert general.dtype == torch.float32
    torch.testing.assert_close(general, J, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", DEPTHS)
@pytest.mark.parametrize("bias", [True, False])
def test_initial_weights_are_those_of_torch_linear(hidden, bias):
    network = MLP(5, hidden, 2, bias=bias)
    torch.manual_seed(7)
    theirs = nn.utils.parameters_to_vector(sequential(network).parameters()).detach()
    torch.testing.assert_close(network.init(7), theirs, rtol=1e-14, atol=0)
    general = ModuleNetwork(sequential(network), 2)
    torch.testing.assert_close(general.init(7), theirs, rtol=1e-14, atol=0)


def test_initial_weights_leave_the_global_generator_alone():
    network = MLP(2, (3,))
    general = ModuleNetwork(sequential(network), 1)
    state = torch.get_rng_state()
    network.init(1)
    general.init(1)
    assert torch.equal(torch.get_rng_state(), state)


def test_each_seed_has_its_own_row_of_initial_weights():
    network = MLP(2, (3,))
    w = initial_weights(network, [4, 5], torch.empty(0, dtype=torch.float32))
    assert w.shape == (2, network.d_w) and w.dtype == torch.float32
    assert torch.equal(w[1], network.init(5).float())
    assert not torch.equal(w[0], w[1])


def test_wrapping_a_module_leaves_it_unchanged():
    module = nn.Linear(2, 1)
    before = module.weight.detach().clone()
    network = ModuleNetwork(module, 1)
    linearised(network, network.init(3), normal(4, 2, seed=0))
    assert module.weight.dtype == torch.float32
    assert torch.equal(module.weight, before)


def with_state():
    """A module with noise and running statistics that are not those of a fresh one, in training mode."""
    module = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2)
    ).train()
    module[1].running_mean.copy_(torch.linspace(-1, 1, 4))
    module[1].running_var.copy_(torch.linspace(0.5, 2, 4))
    return module


@pytest.mark.parametrize("replicas", [(), (3,)])
def test_a_module_with_dropout_and_normalisation_is_one_function(replicas):
    module = with_state()
    network = ModuleNetwork(module, 2)
    w, X = normal(*replicas, network.d_w, seed=0), normal(6, 3, seed=1)
    f = network.forward(w, X)
    assert torch.equal(f, network.forward(w, X))
    # rows do not see each other
    torch.testing.assert_close(network.forward(w, X[:2]), f[..., :2, :], rtol=1e-12, atol=1e-12)
    outputs, J = linearised(network, w, X)
    torch.testing.assert_close(outputs, f, rtol=1e-12, atol=1e-12)
    # the same by hand: dropout passes all, normalisation uses the statistics that it came with
    module = module.double().eval()
    each = w.reshape(-1, network.d_w)
    for position, alone in enumerate(each):
        nn.utils.vector_to_parameters(alone, module.parameters())
        expected = module(X).detach()
        torch.testing.assert_close(f.reshape(-1, 6, 2)[position], expected, rtol=1e-12, atol=1e-12)
    h = 1e-6
    v = normal(network.d_w, seed=2)
    along = (network.forward(w + h * v, X) - network.forward(w - h * v, X)) / (2 * h)
    torch.testing.assert_close((J * v).sum(-1), along, rtol=1e-7, atol=1e-7)


def test_wrapping_a_module_leaves_its_mode_and_its_statistics_alone():
    module = with_state()
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    network = ModuleNetwork(module, 2)
    linearised(network, network.init(3), normal(4, 3, seed=0))
    assert all(part.training for part in module.modules())
    for name, buffer in module.named_buffers():
        assert torch.equal(buffer, before[name]) and buffer.dtype == before[name].dtype
    inside = dict(network.module.named_buffers())
    assert all(torch.equal(inside[name].to(value), value) for name, value in before.items())


def test_a_module_with_statistics_runs_in_float32():
    network = ModuleNetwork(with_state(), 2)
    w, X = normal(network.d_w, seed=0), normal(6, 3, seed=1)
    f, J = linearised(network, w.float(), X.float())
    assert f.dtype == J.dtype == torch.float32
    f_double, J_double = linearised(network, w.float().double(), X.float().double())
    torch.testing.assert_close(f.double(), f_double, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(J.double(), J_double, rtol=1e-4, atol=1e-5)


def test_a_module_with_statistics_can_be_trained():
    rows = wave(30)
    module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 1))
    model = make_model(ModuleNetwork(module, 1), "layerwise")
    w = model.network.init(0)
    for procedure in (Online(model, at_weights), GaussNewton(model, at_weights)):
        state = procedure.init(w, model.initial_hyper(w), rows)
        before = model.nn_loss(state.w, rows, state.hyper)
        for _ in range(10):
            state = procedure.step(state, rows)
        assert state.ending.running
        assert model.nn_loss(state.w, rows, model.initial_hyper(w)) < before


def test_an_unknown_activation_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="unknown activation 'tahn': did you mean 'tanh'"):
        MLP(2, activation="tahn")


@pytest.mark.parametrize("sizes", [{"d_in": 0}, {"d_in": 2, "hidden": (3, 0)}, {"d_in": 2, "d_out": 0}])
def test_a_layer_without_units_is_refused(sizes):
    with pytest.raises(InputError, match="every layer needs at least one unit"):
        MLP(**sizes)


@pytest.mark.parametrize("replicas", [(), (3,), (2, 2)])
@pytest.mark.parametrize(("hidden", "outputs", "bias"), [((5,), 1, True), ((4, 3), 3, False), ((), 2, True)])
def test_products_through_the_layers_are_those_with_the_whole_jacobian(hidden, outputs, bias, replicas):
    network = MLP(2, hidden, outputs, bias=bias)
    w, X = normal(*replicas, network.d_w, seed=0), normal(*replicas, 17, 2, seed=1)
    f, J = network.linearise(w, X)
    root = normal(*f.shape, outputs, seed=2)
    v, u = normal(*w.shape, seed=3), normal(*f.shape, seed=4)
    for layered, dense in ((J, DenseJacobian(J.whole)), (J.whitened(root), DenseJacobian(root.mT @ J.whole))):
        close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
        close(layered.whole, dense.whole)
        close(layered.jvp(v), (dense.whole @ v[..., None, :, None]).squeeze(-1))
        close(layered.vjp(u), (dense.whole * u.unsqueeze(-1)).sum((-3, -2)))
        close(layered.squares(1), dense.whole.square().sum((-3, -2)).unsqueeze(-2))
        close(layered.squares(outputs), dense.whole.square().sum(-3))
        close(dense.squares(outputs), dense.whole.square().sum(-3))
