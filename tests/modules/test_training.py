"""In a user's own loop: nothing of theirs is changed, runs repeat and go on, and the precisions are right."""

from __future__ import annotations

import copy
import io
import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from module_problems import batches, indicators, inputs_for, jacobian, mlp, seeded, targets
from online_laplace import OnlineLaplace
from online_laplace.core import (
    Gaussian,
    Model,
    ModuleNetwork,
    at_weights,
    exact,
    maximise_evidence,
)  # fmt: skip
from online_laplace.errors import InputError
from online_laplace.modules import Cadence
from online_laplace.types import Rows
from problems import normal, wave


def with_buffers() -> nn.Module:
    """Batch normalisation whose statistics are neither zeros nor ones, in train mode, with a hook."""
    module = seeded(lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)))
    with torch.no_grad():
        module[1].bias += 0.1
    module[1].running_mean += 0.3
    module[1].running_var *= 2.0
    return module.train()


@pytest.mark.parametrize("curvature", ["full", "diagonal", "kron", "last-layer"])
def test_looking_changes_nothing_of_the_module(curvature):
    module, calls = with_buffers(), []
    module[0].register_forward_hook(lambda *_: calls.append(1))
    x, y = inputs_for(module, 8), targets("gaussian", 8)
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    before = copy.deepcopy(module.state_dict())
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature=curvature, normalisation="accept")
    tuner.update(x, y)
    tuner.posterior([(x, y)]).predict(x)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert module.training and module[1].training and not calls
    assert all(torch.equal(p.grad, torch.ones_like(p)) and p.requires_grad for p in module.parameters())
    assert [len(part._forward_hooks) for part in module] == [1, 0, 0, 0]


def test_curvature_is_that_of_eval_mode_with_the_buffers_of_the_module():
    module = with_buffers()
    x, y = inputs_for(module, 8), targets("gaussian", 8)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="full", normalisation="accept")
    H = tuner.posterior([(x, y)]).H
    J = jacobian(module, x).flatten(0, 1)  # which is taken in eval mode
    whole = J.mT @ J + torch.eye(J.shape[-1], dtype=torch.float64)
    torch.testing.assert_close(H.log_contraction(), torch.logdet(whole))


def test_kron_takes_the_scales_of_normalisation_layers_as_whole_blocks():
    for norm in (nn.BatchNorm1d(4), nn.LayerNorm(4), nn.GroupNorm(2, 4)):
        module = seeded(lambda norm=norm: nn.Sequential(nn.Linear(3, 4), norm, nn.Tanh(), nn.Linear(4, 2)))
        x, y = inputs_for(module, 6), targets("gaussian", 6)
        tuner = OnlineLaplace(module, "gaussian", n_data=6, curvature="kron", normalisation="accept")
        H = tuner.posterior([(x, y)]).H
        J = jacobian(module, x, ["1.weight", "1.bias"]).flatten(0, 1)
        for t, own in ((2, J[:, :4]), (3, J[:, 4:])):
            U, values = H.basis[t].left, H.data[t].flatten()
            torch.testing.assert_close(U @ torch.diag(values) @ U.mT, own.mT @ own)


@pytest.mark.parametrize("curvature", ["full", "diagonal", "kron"])
def test_frozen_parameters_are_left_out(curvature):
    module = mlp(2)
    module[0].weight.requires_grad_(False)
    x, y = inputs_for(module, 8), targets("gaussian", 8)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature=curvature, probes=None)
    assert list(tuner.alpha) == ["0.bias", "2.weight", "2.bias"]
    squares = sum(p.square().sum() for p in (module[0].bias, *module[2].parameters()))
    error = (y - module(x)).square().sum()
    constant = 0.5 * y.numel() * math.log(2 * math.pi)
    torch.testing.assert_close(tuner.loss(x, y), 0.5 * error + constant + 0.5 * squares)
    assert tuner.posterior(batches(x, y, 3)).view.d_w == 14
    module[0].weight.requires_grad_(True)
    with pytest.raises(InputError, match=r"trainable parameters of the module have changed \(0.weight\)"):
        tuner.update(x, y)


def test_a_layer_that_is_replaced_is_noticed():
    module = mlp(2)
    x, y = inputs_for(module, 8), targets("gaussian", 8)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="kron")
    module[2] = nn.Linear(4, 2).double()
    for use in (tuner.loss, tuner.update):
        with pytest.raises(InputError, match=r"parameters of the module have changed \(2.weight, 2.bias\)"):
            use(x, y)


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(3, 4).requires_grad_(False)
        self.down, self.up = nn.Linear(3, 1, bias=False), nn.Linear(1, 4, bias=False)
        self.head = nn.Linear(4, 2).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.base(x) + self.up(self.down(x))))


@pytest.mark.parametrize("curvature", ["full", "kron"])
def test_adapters_are_just_another_set_of_trainable_parameters(curvature):
    module = seeded(Adapted)
    x, y = normal(8, 3, seed=1), targets("gaussian", 8)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature=curvature)
    assert tuner.update(x, y).alpha.keys() == {"down.weight", "up.weight"}


def test_groups_can_be_given_by_name():
    module = mlp(2)
    biases = lambda name: "biases" if name.endswith("bias") else name  # noqa: E731
    tuner = OnlineLaplace(module, "gaussian", n_data=8, prior=biases)
    assert list(tuner.alpha) == ["0.weight", "biases", "2.weight"]
    again = OnlineLaplace(
        module, "gaussian", n_data=8, prior={n: biases(n) for n, _ in module.named_parameters()}
    )
    assert again.alpha == tuner.alpha
    x, y = inputs_for(module, 8), targets("gaussian", 8)
    tuner.update(x, y)
    gamma = tuner.last.gamma["biases"]
    norm = module[0].bias.detach().square().sum() + module[2].bias.detach().square().sum()
    assert tuner.alpha["biases"] == pytest.approx(gamma / float(norm))
    with pytest.raises(InputError, match=r"no group for the parameter 0.bias"):
        OnlineLaplace(module, "gaussian", n_data=8, prior={"0.weight": "a"})


def train(tuner, module, rows, steps, *, size, lr=0.02, start=0):
    """Some steps of Adam on mini-batches that are the same for the same step."""
    optimiser = torch.optim.Adam(module.parameters(), lr=lr)
    for step in range(start, start + steps):
        chosen = torch.randperm(rows.n, generator=torch.Generator().manual_seed(step))[:size]
        optimiser.zero_grad()
        tuner.loss(rows.X[chosen], rows.y[chosen]).backward()
        optimiser.step()
        tuner.update(rows.X[chosen], rows.y[chosen])


@pytest.mark.parametrize("curvature", ["full", "block", "diagonal", "kron"])
def test_a_run_taken_up_from_its_state_goes_on_as_if_it_had_never_stopped(curvature):
    rows, cadence = wave(60), Cadence(every=2, decay=0.8, refresh=3)
    settings = dict(n_data=60, curvature=curvature, cadence=cadence)

    def alphas(stops):
        module = mlp(1, inputs=2)
        tuner = OnlineLaplace(module, "gaussian", **settings)
        for stop, steps in stops:
            train(tuner, module, rows, steps, size=12, lr=0.0, start=stop)
            file = io.BytesIO()
            torch.save(tuner.state_dict(), file)
            file.seek(0)
            tuner = OnlineLaplace(module, "gaussian", **settings)
            tuner.load_state_dict(torch.load(file, weights_only=True))
        return tuner.hyper.alpha

    assert torch.equal(alphas([(0, 9), (9, 11)]), alphas([(0, 20)]))
    other = OnlineLaplace(mlp(1, inputs=2), "gaussian", n_data=61, curvature=curvature)
    with pytest.raises(InputError, match=r"another run: its n_data is 60, not 61"):
        other.load_state_dict(OnlineLaplace(mlp(1, inputs=2), "gaussian", **settings).state_dict())


def test_mini_batch_kronecker_finds_precisions_near_the_exact_ones():
    rows, module = wave(200, noise=0.2), mlp(1, inputs=2, hidden=4)
    tuner = OnlineLaplace(
        module, "gaussian", n_data=200, curvature="kron", cadence=Cadence(every=2, decay=0.95), prior="scalar"
    )
    train(tuner, module, rows, 800, size=50)
    train(tuner, module, rows, 200, size=50, lr=0.002, start=800)
    model = Model.of(ModuleNetwork(module, 1), Gaussian(), "scalar", exact)
    w = nn.utils.parameters_to_vector(module.parameters()).detach()
    tangent = model.linearise(w, Rows(rows.X, rows.y))
    there = maximise_evidence(tangent, model.initial_hyper(w), at_weights, exact).hyper
    assert (tuner.hyper.alpha.log() - there.alpha.log()).abs().max() < 0.3
    assert (tuner.beta.log() - there.beta.log()).abs().max() < 0.3


def test_eigenvalues_are_renewed_less_and_less_often():
    cadence, refreshed, renewed = Cadence(refresh=5, patience=0.5), 0, []
    for look in range(1, 200):
        if cadence.is_stale(look, refreshed):
            refreshed = look
            renewed.append(look)
    assert renewed == [5, 10, 20, 40, 80, 160]


def test_looks_get_rarer_as_a_run_grows_longer():
    def looks(cadence, steps):
        done = [0]
        for call in range(1, steps + 1):
            if cadence.is_due(call, done[-1]):
                done.append(call)
        return done[1:]

    assert looks(Cadence(every=3, stretch=1.0), 12) == [3, 6, 9, 12]
    found = looks(Cadence(), 30_000)
    gaps = [b - a for a, b in pairwise([0, *found])]
    assert gaps[:50] == [20] * 50 and gaps[-1] == 100
    assert all(b >= a for a, b in pairwise(gaps))
    assert Cadence().costs(30_000)[0] == len(found)


def test_an_update_of_mini_batches_moves_no_precision_by_more_than_its_limit_and_says_so():
    rows, module = wave(60), mlp(1, inputs=2)
    nn.init.constant_(module[2].bias, 1e-9)  # α = γ / ‖w‖² would be 10¹⁸
    tuner = OnlineLaplace(
        module, "gaussian", n_data=60, curvature="kron", cadence=Cadence(every=1, limit=0.5)
    )
    done = tuner.update(rows.X[:20], rows.y[:20])
    assert "2.bias" in done.held_back
    assert done.alpha["2.bias"] == pytest.approx(math.exp(0.5))
    assert all(abs(torch.tensor(a).log()) <= 0.5 + 1e-6 for a in done.alpha.values())


def test_a_noise_precision_stays_positive_where_the_diagonal_counts_more_weights_than_rows():
    module = mlp(1, hidden=60)
    x, y = inputs_for(module, 5), normal(5, 1, seed=2)
    tuner = OnlineLaplace(module, "gaussian", n_data=5, curvature="diagonal", probes=None, alpha=1e-3)
    done = tuner.update(x, y)
    assert sum(done.gamma.values()) > 5  # so that (n − γ) / ‖y − f‖² would be below zero
    misfit = (y - module(x).detach()).square().sum()
    assert done.beta[0] == pytest.approx(float(5 / (misfit + sum(done.gamma.values()) / 1.0)))


@pytest.mark.parametrize("curvature", ["full", "diagonal", "kron"])
def test_single_precision_gives_nearly_the_numbers_of_double(curvature):
    found = []
    for dtype in (torch.float32, torch.float64):
        module = mlp(3).to(dtype)
        x, y = inputs_for(module, 20).to(dtype), targets("categorical", 20)
        tuner = OnlineLaplace(module, "categorical", n_data=20, curvature=curvature, probes=None)
        for _ in range(5):
            done = tuner.update(x, y)
        assert tuner.hyper.alpha.dtype == dtype
        found.append((done.evidence, *done.alpha.values()))
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_draws_estimate_the_covariance_of_the_outputs():
    module = mlp(2)
    x, y = inputs_for(module, 20), targets("gaussian", 20)
    tuner = OnlineLaplace(module, "gaussian", n_data=20, curvature="kron")
    posterior = tuner.posterior([(x, y)])
    f, covariance = posterior.outputs(x[:3])
    again, estimate = posterior.outputs(x[:3], draws=3000)
    assert torch.equal(f, again)
    assert (estimate - covariance).abs().max() < 0.1 * covariance.abs().max()
    generator = torch.Generator().manual_seed(0)
    assert posterior.sample(x[:3], 4, generator, noise=True).shape == (4, 3, 2)


def test_a_posterior_stays_as_it_is_when_training_goes_on():
    module = mlp(2)
    x, y = inputs_for(module, 20), targets("gaussian", 20)
    posterior = OnlineLaplace(module, "gaussian", n_data=20).posterior([(x, y)])
    before = posterior.predict(x).mean
    with torch.no_grad():
        module[0].weight.add_(1.0)
    assert torch.equal(posterior.predict(x).mean, before)


def test_inputs_may_be_several_tensors_by_place_or_by_name():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return self.layer(a * b)

    module = seeded(Two)
    a, b, y = normal(6, 3, seed=1), normal(6, 3, seed=2), targets("gaussian", 6)
    found = []
    for x in ((a, b), {"a": a, "b": b}):
        tuner = OnlineLaplace(module, "gaussian", n_data=6, curvature="full")
        tuner.loss(x, y).backward()
        tuner.update(x, y)
        found.append(tuner.posterior([(x, y)]).predict(x).variance)
    assert torch.equal(*found)


def test_predicted_classes_are_scored_by_their_numbers_as_by_their_columns():
    module = mlp(3)
    x, y = inputs_for(module, 20), targets("categorical", 20)
    predicted = OnlineLaplace(module, "categorical", n_data=20).posterior([(x, y)]).predict(x)
    for mine, theirs in zip(predicted.score(y), predicted.score(indicators(y, 3)), strict=True):
        torch.testing.assert_close(mine, theirs)
    for bad in (y + 1, y[:7]):
        with pytest.raises(InputError, match=r"classes must be numbers from 0 to 2"):
            predicted.score(bad)
    one = mlp(1)
    two = OnlineLaplace(one, "bernoulli", n_data=20).posterior([(x, (y > 0).long())]).predict(x)
    assert two.score((y > 0).long()) == two.score((y > 0).double().unsqueeze(-1))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_loss_of_numbers_of_classes_is_that_of_their_columns(reduction):
    module = mlp(3)
    x, y = inputs_for(module, 12), torch.arange(12) % 3
    losses, gradients = [], []
    for given in (y, y.int(), torch.nn.functional.one_hot(y, 3).double()):
        tuner = OnlineLaplace(module, "categorical", n_data=40, alpha=0.3)
        module.zero_grad()
        losses.append(tuner.loss(x, given, reduction=reduction))
        losses[-1].backward()
        gradients.append(torch.cat([p.grad.flatten() for p in module.parameters()]))
    for loss, gradient in zip(losses[1:], gradients[1:], strict=True):
        torch.testing.assert_close(loss, losses[0])
        torch.testing.assert_close(gradient, gradients[0])
