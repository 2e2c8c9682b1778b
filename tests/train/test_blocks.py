"""Training with a J too large to keep, and how much of J and H a step holds at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from online_laplace import OnlineLaplaceRegressor, memory
from online_laplace.data import Table
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.jacobian import RowBlocks
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.model.tangent import linearise
from online_laplace.posterior import mixture
from online_laplace.posterior.mixture import predict_mixture
from online_laplace.posterior.predictive import Posterior, Units
from online_laplace.protocol import snapshots
from online_laplace.protocol.runner import run_procedure
from online_laplace.protocol.specification import Specification
from online_laplace.train.adam import Adam
from online_laplace.train.checkpoint import history_arrays
from online_laplace.train.history import Evaluation, observe
from online_laplace.train.loop import Watch, run
from online_laplace.train.online import MEANS, Online
from online_laplace.train.procedures import Schedule, retrain, train_offline, train_online
from online_laplace.types import Components, Problem
from problems import make_case, normal, ridges, yacht

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
    problem = ridges(60, outputs=outputs, replicas=replicas)
    network = MLP(2, (3,), outputs)
    seeds = list(range(replicas[0] if replicas else 1))
    w = initial_weights(network, seeds, problem.X).reshape(*replicas, -1)
    return network, problem, w, initial_hyper(network, w, prior=prior, beta_per_output=outputs > 1)


def units_of(problem):
    one = torch.ones(1, problem.k, dtype=problem.y.dtype)
    return Units(3 * one, 2 * one)


def looking(network, problem):
    where = Evaluation(problem, Problem(problem.X[..., ::2, :], problem.y[..., ::2, :]), units_of(problem))
    return Watch(look=lambda state: observe(network, state.w, state.hyper, where), every=4)


def assert_same_end(one, other):
    same(one.w, other.w)
    # As variances: the α of a group that is being pruned grows on rounding alone.
    same(1 / one.hyper.alpha, 1 / other.hyper.alpha)
    same(1 / one.hyper.beta, 1 / other.hyper.beta)
    assert one.outcomes == other.outcomes
    left, right = history_arrays(one.history), history_arrays(other.history)
    assert left.keys() == right.keys()
    for name, values in left.items():
        if not name.startswith("certificate."):  # differences that vanish
            variances = name == "alpha"
            same(1 / values if variances else values, 1 / right[name] if variances else right[name])


def test_the_settings_are_in_blocks(in_blocks):
    for setting in SETTINGS:
        network, problem, w, _ = start(*setting.values)
        assert isinstance(linearise(network, w, problem).J, torch.Tensor)
        assert isinstance(in_blocks(lambda: linearise(network, w, problem).J), RowBlocks)  # noqa: B023


@pytest.mark.parametrize(("outputs", "prior", "replicas"), SETTINGS)
@pytest.mark.parametrize("procedure", ["ol", "lm"])
@pytest.mark.parametrize("optimiser", ["adam", "gauss-newton"])
def test_online_training_ends_the_same(in_blocks, outputs, prior, replicas, procedure, optimiser):
    network, problem, w, hyper = start(outputs, prior, replicas)

    def train():
        schedule = Schedule(8, Adam(), looking(network, problem))
        return train_online(
            network,
            problem,
            w,
            hyper,
            schedule,
            procedure=procedure,
            optimiser=optimiser,
            what_to_keep="average",
        )

    assert_same_end(in_blocks(train), train())


@pytest.mark.parametrize(("outputs", "prior", "replicas"), SETTINGS)
def test_offline_training_and_retraining_end_the_same(in_blocks, outputs, prior, replicas):
    network, problem, w, hyper = start(outputs, prior, replicas)
    validation = Problem(problem.X[..., :20, :], problem.y[..., :20, :])
    schedule = Schedule(60, Adam(lr=0.05), looking(network, problem))

    def train():
        again = retrain(network, problem, w, hyper, schedule, rounds=2)
        return [*train_offline(network, problem, validation, w, hyper, schedule), again]

    for mine, whole in zip(in_blocks(train), train(), strict=True):
        assert_same_end(mine, whole)


@pytest.mark.parametrize(("outputs", "prior", "replicas"), SETTINGS)
@pytest.mark.parametrize("mean", [at_weights, at_mode])
def test_post_hoc_tuning_sees_the_same_evidence(in_blocks, outputs, prior, replicas, mean):
    network, problem, w, hyper = start(outputs, prior, replicas)
    w = w + 0.3 * normal(*w.shape, seed=3)
    if replicas:
        w[-1] = torch.nan  # a replica that failed leaves the others as they are

    def tune():
        tuned = maximise_evidence(linearise(network, w, problem), hyper, mean, max_updates=30)
        return 1 / tuned.hyper.alpha, 1 / tuned.hyper.beta, tuned.gamma

    for mine, whole in zip(in_blocks(tune), tune(), strict=True):
        usable = slice(0, len(w) - 1) if replicas else slice(None)
        same(mine[usable], whole[usable])
        assert not replicas or (not mine[-1].isfinite().all() and not whole[-1].isfinite().all())


@pytest.mark.parametrize(("outputs", "prior", "replicas"), SETTINGS)
def test_predictions_are_the_same(in_blocks, outputs, prior, replicas):
    network, problem, w, hyper = start(outputs, prior, replicas)
    X, y = problem.X[..., :37, :] + 0.1, problem.y[..., :37, :]
    components = Components.repeat(3, w, hyper)
    components = components._replace(w=components.w + 0.2 * normal(*components.w.shape, seed=4))

    def predict():
        posterior = Posterior.of(network, w, problem, hyper)
        alone = posterior.predict(X)
        drawn = posterior.sample(X, 5, torch.Generator().manual_seed(0), noise=True)
        whole = predict_mixture(network, components, hyper.prior, problem, X).to_units(units_of(problem))
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


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("settings", [{}, {"prior": "ard", "procedure": "lm"}, {"optimiser": "adam"}])
def test_the_estimator_answers_the_same(in_blocks, targets, settings):
    problem = ridges(70, outputs=2)
    X, y = 10 + problem.X.numpy(), 5 * problem.y.numpy()[:, :targets]
    y = y[:, 0] if targets == 1 else y

    def answers():
        model = OnlineLaplaceRegressor(hidden=4, members=2, max_steps=12, random_state=0, **settings).fit(
            X, y
        )
        mean, std = model.predict(X[:33], return_std=True)
        return [
            mean,
            std,
            model.predict(X[:7], return_cov=True)[1],
            model.sample_y(X[:7], 3, random_state=1),
            *model.predict_interval(X[:33]),
            np.array(
                [model.score(X, y), model.score_log_likelihood(X, y), model.log_evidence_, model.gamma_]
            ),
        ]

    for mine, whole in zip(in_blocks(answers), answers(), strict=True):
        np.testing.assert_allclose(mine, whole, rtol=1e-8)


@pytest.mark.parametrize("procedure", ["ol", "lm", "offline", "retrain"])
def test_a_table_gets_the_same_records(in_blocks, procedure):
    where = yacht(1).train
    table = Table("rows", where.X[0].numpy(), where.y[0, :, 0].numpy(), tuple("abcdef"), "y")
    spec = Specification(hidden=(4,), steps=12, offline_steps=12, retrain_rounds=2, looks=3, members=2)

    def scores():
        records = run_procedure(table, procedure, [0, 1], spec).records
        names = ("test_rmse", "test_log_likelihood", "train_log_likelihood", "crps", "laplace_evidence")
        return np.array([[getattr(record, name) for name in names] for record in records])

    np.testing.assert_allclose(in_blocks(scores), scores(), rtol=1e-10)


def test_snapshots_see_the_same(in_blocks):
    network, problem, w, hyper = start(1, "scalar", (2,))

    def taken():
        return snapshots.take_weights(network, problem, w, hyper, 0) | snapshots.take_update(
            network, problem, w, hyper, 0
        )

    whole = taken()
    for name, values in in_blocks(taken).items():
        # Each left singular vector may point either way, and only squares of `target` are ever looked at.
        square = name == "update.target"
        exact = values.dtype != torch.float32
        left, right = (v.square() if square else v for v in (values, whole[name]))
        torch.testing.assert_close(left, right, rtol=1e-8 if exact else 1e-5, atol=1e-10)


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


STEPS = {
    "ol": lambda network, problem: Online(network, problem, MEANS["ol"]),
    "lm": lambda network, problem: Online(network, problem, MEANS["lm"]),
}


@pytest.mark.parametrize("procedure", STEPS)
@pytest.mark.parametrize("n", [1500, 180, 60], ids=["many rows", "as many rows as weights", "dual"])
def test_a_step_and_a_look_hold_two_of_j_and_three_of_h(procedure, n, monkeypatch):
    monkeypatch.setattr(memory, "BLOCK", 2**13)
    case = make_case(MLP(14, (10,)), n, replicas=(1,))
    d = case.network.d_w
    J, H = 8 * n * d, 8 * min(n, d) ** 2
    chosen = STEPS[procedure](case.network, case.problem)
    watch = Watch(look=looking(case.network, case.problem).look, every=3)

    def train():
        run(chosen, chosen.init(case.w, case.hyper), 6, watch)

    train()
    assert peak_of_large(train, min(H, J)) <= 2 * J + 3 * H


def test_a_step_in_blocks_holds_no_j(in_blocks):
    case = make_case(MLP(14, (10,)), 3000, replicas=(1,))
    online = Online(case.network, case.problem, at_mode)
    H = 8 * case.network.d_w**2

    def train():
        state = online.init(case.w, case.hyper)
        for _ in range(2):
            state = online.step(state)

    assert in_blocks(lambda: peak_of_large(train, H)) <= 3 * H < 8 * 3000 * case.network.d_w / 5
