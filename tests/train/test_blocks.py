"""Training with a J too large to keep, and how much of J and H a step holds at a time."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from online_laplace import memory
from online_laplace.data.scaling import Affine
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.model.jacobian import BlockJacobian
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive import mixture
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture
from online_laplace.train.adam import Adam
from online_laplace.train.loop import Monitor, run
from online_laplace.train.observe import observe
from online_laplace.train.online import MEANS, Online
from online_laplace.train.procedures import Schedule, retrain, train_offline, train_online
from online_laplace.train.trajectory import Snapshots
from problems import make_case, make_model, normal, ridges, scoring

SETTINGS = [
    pytest.param(1, "scalar", (), id="one output"),
    pytest.param(1, "layerwise", (2,), id="layerwise, replicas"),
    pytest.param(2, "scalar", (), id="two outputs"),
    pytest.param(2, "layerwise", (2,), id="two outputs, layerwise, replicas"),
]


@pytest.fixture
def in_blocks(monkeypatch):
    """A way to compute something with every J in blocks of 1000 bytes."""

    def compute(work):
        with monkeypatch.context() as patch:
            patch.setattr(memory, "LARGEST_WHOLE", 0)
            patch.setattr(memory, "BLOCK", 1000)
            patch.setattr(mixture, "PIECE", 50)
            return work()

    return compute


def same(left, right, rtol=1e-10):
    """Relative to the largest number of the array."""
    torch.testing.assert_close(left, right, rtol=0, atol=rtol * right.abs().amax().item())


def start(outputs, prior, replicas):
    """Ridges, a network with fewer weights than rows, its first weights and hyperparameters."""
    rows = ridges(60, outputs=outputs, replicas=replicas)
    model = make_model(MLP(2, (3,), outputs), prior, per_output=outputs > 1)
    seeds = list(range(replicas[0] if replicas else 1))
    w = initial_weights(model.network, seeds, rows.X).reshape(*replicas, -1)
    return model, rows, w, model.initial_hyper(w)


def units_of(rows):
    one = torch.ones(1, rows.targets, dtype=rows.y.dtype)
    return Affine(3 * one, 2 * one)


def monitoring(model, rows):
    score = scoring(model, rows, rows.part(slice(None, None, 2)), units_of(rows))
    return Monitor(observe=lambda state: observe(model, state.w, state.hyper, rows, score), every=4)


def assert_same_end(one, other):
    same(one.w, other.w)
    # As variances: the α of a group that is being pruned grows on rounding alone.
    same(1 / one.hyper.alpha, 1 / other.hyper.alpha)
    same(1 / one.hyper.beta, 1 / other.hyper.beta)
    assert one.outcomes == other.outcomes
    left, right = one.history.arrays(), other.history.arrays()
    assert left.keys() == right.keys()
    for name, values in left.items():
        if not name.startswith("certificate."):  # differences that vanish
            variances = name == "alpha"
            same(1 / values if variances else values, 1 / right[name] if variances else right[name])


def test_the_settings_are_in_blocks(in_blocks):
    for setting in SETTINGS:
        model, rows, w, _ = start(*setting.values)
        assert not isinstance(model.linearise(w, rows).J, BlockJacobian)
        assert isinstance(in_blocks(lambda: model.linearise(w, rows).J), BlockJacobian)  # noqa: B023


@pytest.mark.parametrize(("outputs", "prior", "replicas"), SETTINGS)
@pytest.mark.parametrize("procedure", ["ol", "lm"])
@pytest.mark.parametrize("optimiser", ["adam", "gauss-newton"])
def test_online_training_ends_the_same(in_blocks, outputs, prior, replicas, procedure, optimiser):
    model, rows, w, hyper = start(outputs, prior, replicas)

    def train():
        schedule = Schedule(8, monitoring(model, rows), optimiser)
        return train_online(model, rows, w, hyper, schedule, procedure=procedure, keep="average")

    assert_same_end(in_blocks(train), train())


@pytest.mark.parametrize(("outputs", "prior", "replicas"), SETTINGS)
def test_offline_training_and_retraining_end_the_same(in_blocks, outputs, prior, replicas):
    model, rows, w, hyper = start(outputs, prior, replicas)
    validation = rows.part(slice(20))
    schedule = Schedule(60, monitoring(model, rows), adam=Adam(lr=0.05))

    def train():
        again = retrain(model, rows, w, hyper, schedule, rounds=2)
        return [*train_offline(model, rows, validation, w, hyper, schedule), again]

    for mine, whole in zip(in_blocks(train), train(), strict=True):
        assert_same_end(mine, whole)


@pytest.mark.parametrize(("outputs", "prior", "replicas"), SETTINGS)
@pytest.mark.parametrize("mean", [at_weights, at_mode])
def test_post_hoc_tuning_sees_the_same_evidence(in_blocks, outputs, prior, replicas, mean):
    model, rows, w, hyper = start(outputs, prior, replicas)
    w = w + 0.3 * normal(*w.shape, seed=3)
    if replicas:
        w[-1] = torch.nan  # a replica that failed leaves the others as they are

    def tune():
        tuned = maximise_evidence(model.linearise(w, rows), hyper, mean, model.curvature, max_updates=30)
        return 1 / tuned.hyper.alpha, 1 / tuned.hyper.beta, tuned.gamma

    for mine, whole in zip(in_blocks(tune), tune(), strict=True):
        usable = slice(0, len(w) - 1) if replicas else slice(None)
        same(mine[usable], whole[usable])
        assert not replicas or (not mine[-1].isfinite().all() and not whole[-1].isfinite().all())


@pytest.mark.parametrize(("outputs", "prior", "replicas"), SETTINGS)
def test_predictions_are_the_same(in_blocks, outputs, prior, replicas):
    model, rows, w, hyper = start(outputs, prior, replicas)
    X, y = rows.X[..., :37, :] + 0.1, rows.y[..., :37, :]
    snapshots = Snapshots.repeat(3, w, hyper)
    snapshots = snapshots._replace(w=snapshots.w + 0.2 * normal(*snapshots.w.shape, seed=4))

    def predict():
        posterior = Posterior.of(model, w, hyper, rows)
        alone = posterior.predict(X)
        drawn = posterior.sample(X, 5, torch.Generator().manual_seed(0), noise=True)
        members = (Posterior.of(model, *snapshots.at(c, hyper), rows).predict(X) for c in range(3))
        whole = Mixture.equal(GaussianPredictive.stack(members, 3)).to_units(units_of(rows))
        return [
            alone.mean,
            alone.function_variance,
            drawn,
            posterior.covariance(X, noise=True),
            whole.mean,
            whole.std,
            whole.log_density(y),
            whole.cdf(y),
            whole.crps(y),
            whole.quantile(0.9),
        ]

    for mine, whole in zip(in_blocks(predict), predict(), strict=True):
        same(mine, whole)


def peak_of_large(work, smallest):
    """The most bytes alive at a time in tensors of at least `smallest` bytes that `work` makes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    results = seen.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in results if e.name() == "[memory]")
    alive = peak = 0
    for _, change in changes:
        alive += change if abs(change) >= smallest else 0
        peak = max(peak, alive)
    return peak


@pytest.mark.parametrize("procedure", MEANS)
@pytest.mark.parametrize("n", [1500, 180, 60], ids=["many rows", "as many rows as weights", "dual"])
def test_a_step_and_an_observation_hold_two_of_j_and_three_of_h(procedure, n, monkeypatch):
    monkeypatch.setattr(memory, "BLOCK", 2**13)
    case = make_case(MLP(14, (10,)), n, replicas=(1,))
    d = case.network.d_w
    J, H = 8 * n * d, 8 * min(n, d) ** 2
    online = Online(case.model, MEANS[procedure])
    monitor = Monitor(observe=monitoring(case.model, case.rows).observe, every=3)

    def train():
        run(online, online.init(case.w, case.hyper, case.rows), case.rows, 6, monitor)

    train()
    assert peak_of_large(train, min(H, J)) <= 2 * J + 3 * H


def test_a_step_in_blocks_holds_no_j(in_blocks):
    case = make_case(MLP(14, (10,)), 3000, replicas=(1,))
    online = Online(case.model, at_mode)
    H = 8 * case.network.d_w**2

    def train():
        state = online.init(case.w, case.hyper, case.rows)
        for _ in range(2):
            state = online.step(state, case.rows)

    assert in_blocks(lambda: peak_of_large(train, H)) <= 3 * H < 8 * 3000 * case.network.d_w / 5
