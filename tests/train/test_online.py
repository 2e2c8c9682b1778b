"""One online step against its text, and many replicas against single runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.train.adam import Adam
from online_laplace.train.online import MEANS, Online
from problems import Case, make_case, make_model, replica, yacht
from reference import dense

NETWORK = MLP(6, (50,))


def trajectory(procedure, rows, w, steps, prior="scalar"):
    """α, β and w after each step: (steps, …)."""
    model = make_model(NETWORK, prior)
    online = Online(model, MEANS[procedure])
    state = online.init(w, model.initial_hyper(w), rows)
    path = []
    for _ in range(steps):
        state = online.step(state, rows)
        path.append((state.hyper.alpha, state.hyper.beta, state.w))
    return [torch.stack(values) for values in zip(*path, strict=True)]


@pytest.mark.parametrize("procedure", ["ol", "lm"])
@pytest.mark.parametrize(
    ("prior", "per_output"), [("scalar", False), ("scalar", True), ("layerwise", False), ("ard", True)]
)
def test_a_step_is_adam_then_linearise_then_factorise_then_update(procedure, prior, per_output):
    case = make_case(MLP(2, (3,), 2), 25, prior=prior, per_output=per_output)
    online = Online(case.model, MEANS[procedure])
    state = online.init(case.w, case.hyper, case.rows)
    w, hyper = case.w, case.hyper
    leaf = w.clone().requires_grad_()
    optimiser = torch.optim.Adam([leaf], lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9999)
    for _ in range(5):
        # Adam on ℓ_f at the current (α, β), by autograd and torch's own optimiser
        optimiser.zero_grad()
        residual = case.rows.y - case.network.forward(leaf, case.rows.X)
        misfit = (hyper.beta * residual.square()).sum()
        (0.5 * misfit + 0.5 * (hyper.weight_precision * leaf.square()).sum()).backward()
        optimiser.step()
        scheduler.step()
        # then everything else at the new weights and the old (α, β), densely
        (there,) = dense(Case(case.model, case.rows, leaf.detach().clone(), hyper))
        mu = there.w if procedure == "ol" else there.v_star
        alpha = [
            gamma / sum(mu[j] ** 2 for j in group)
            for gamma, group in zip(there.gamma_by_group(), there.groups, strict=True)
        ]
        squares = ((there.y.reshape(-1) - there.outputs(mu)) ** 2).reshape(there.y.shape).sum(0)
        left = len(there.y) - there.gamma_by_output()
        beta = left / squares if per_output else [left.sum() / squares.sum()]
        hyper = hyper.with_values(torch.tensor(np.array(alpha)), torch.tensor(np.array(beta)))

        state = online.step(state, case.rows)
        torch.testing.assert_close(state.w, leaf.detach(), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(state.hyper.alpha, hyper.alpha, rtol=1e-8, atol=0)
        torch.testing.assert_close(state.hyper.beta, hyper.beta, rtol=1e-8, atol=0)


def test_online_laplace_updates_at_the_weights_and_the_linear_model_at_its_mode():
    assert MEANS == {"ol": at_weights, "lm": at_mode}


# LM magnifies rounding: its first steps are compared.
@pytest.mark.parametrize(
    ("procedure", "prior", "steps"), [("ol", "scalar", 100), ("ol", "ard", 30), ("lm", "scalar", 10)]
)
def test_ten_replicas_in_one_batch_are_ten_runs(procedure, prior, steps):
    rows = yacht(10).train
    w = initial_weights(NETWORK, list(range(10)), rows.X)
    together = trajectory(procedure, rows, w, steps, prior)
    assert together[0].isfinite().all()
    for r in range(10):
        alone = trajectory(procedure, replica(rows, r), w[r], steps, prior)
        for batched, single in zip(together, alone, strict=True):
            torch.testing.assert_close(batched[:, r], single, rtol=1e-8, atol=1e-8)
    # the replicas are not copies of one another
    assert (together[1][-1].max() / together[1][-1].min()) > 1.001


@pytest.mark.parametrize("procedure", ["ol", "lm"])
def test_the_same_seed_gives_the_same_numbers_bit_for_bit(procedure):
    rows = yacht(2).train

    def once():
        w = initial_weights(NETWORK, [3, 4], rows.X)
        return trajectory(procedure, rows, w, 25)

    for first, second in zip(once(), once(), strict=True):
        assert first.isfinite().all()
        assert torch.equal(first, second)


@pytest.fixture
def threads():
    """Set torch's thread count, and put it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("procedure", ["ol", "lm"])
def test_thread_counts_agree_over_the_first_steps(procedure, threads):
    rows = replica(yacht(1).train, 0)
    w = NETWORK.init(0)
    # LM drives β/α, and so the condition of H, to 10⁷ within 20 steps: rounding shows earlier
    steps = 50 if procedure == "ol" else 12
    paths = []
    for count in (1, 2):
        threads(count)
        assert torch.get_num_threads() == count
        paths.append(trajectory(procedure, rows, w, steps))
    for one, two in zip(*paths, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def test_a_rate_of_zero_leaves_the_weights_to_mackay():
    case = make_case(MLP(2, (3,)), 40, log_range=0.0)
    online = Online(case.model, at_weights, Adam(lr=0.0))
    state = online.step(online.init(case.w, case.hyper, case.rows), case.rows)
    assert torch.equal(state.w, case.w)
    assert state.hyper.beta != case.hyper.beta
