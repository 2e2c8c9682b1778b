"""Blocks that members leave out, and the weights and the width of a mixture."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor
from online_laplace.curvature import exact
from online_laplace.ensemble.architecture import Architecture
from online_laplace.likelihood import Categorical, Gaussian, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.pool.candidates import CONSTANT, FOREST, LINEAR, Candidate, Preset, arcs
from online_laplace.pool.classes import Classes, HeldOutProbabilities, choose
from online_laplace.pool.folds import LeftOut, assign_blocks, together
from online_laplace.pool.forest import Forest
from online_laplace.pool.members import Members
from online_laplace.pool.members_at_once import MembersAtOnce
from online_laplace.pool.narrowing import MOST_LOST, HeldOutComponents, inwards
from online_laplace.pool.numbers import Numbers
from online_laplace.pool.pool import _promising, train_pool
from online_laplace.pool.problem import Problem
from online_laplace.pool.stacking import density_weights, squared_error_weights
from online_laplace.pool.training import Paused, joined, snapshot_steps, train_stage
from online_laplace.pool.views import PIECES, Pieces
from online_laplace.pool.weighting import Entry, Judged, weighted
from online_laplace.predictive import forms
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture
from online_laplace.predictive.student import StudentPredictive
from online_laplace.types import Rows
from problems import normal, ridges

LIKE = torch.empty(0, dtype=torch.float64)


@given(seed=st.integers(0, 1000), count=st.integers(2, 5))
def test_rows_with_the_same_inputs_are_in_one_block_and_blocks_are_even(seed, count):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 2))[rng.integers(0, 40, 60)]
    blocks = assign_blocks(together(X), count)
    for value in np.unique(X[:, 0]):
        assert len(set(blocks[X[:, 0] == value])) == 1
    sizes, largest = np.bincount(blocks, minlength=count), np.unique(X[:, 0], return_counts=True)[1].max()
    assert sizes.min() > 0 and sizes.max() - sizes.min() <= largest


def test_groups_stay_together_also_where_they_share_rows_in_any_order():
    X = np.array([[0.0], [0.0], [1.0], [2.0], [3.0], [4.0]])
    groups = np.array(["a", "b", "b", "c", "c", "d"])
    sets = together(X, groups)
    assert sets[0] == sets[1] == sets[2] and sets[3] == sets[4] and len(set(sets)) == 3
    order = np.random.default_rng(0).permutation(6)
    np.testing.assert_array_equal(together(X[order], groups[order]), sets[order])


@given(seed=st.integers(0, 1000), weighted=st.booleans())
def test_where_twins_are_a_matter_of_chance_each_row_is_left_out_by_itself_in_any_order(seed, weighted):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 2, (80, 3)).astype(float), rng.integers(0, 3, 80)
    others = np.column_stack([y, rng.integers(1, 3, 80)]) if weighted else y[:, None]
    sets = together(X, None, others)
    assert len(set(sets)) == 80
    blocks = assign_blocks(sets, 4, classes=y)
    for one in np.unique(X, axis=0):
        assert len(set(blocks[(X == one).all(1)])) > 1
    # Rows alike in everything may change places, so that what lies in a block is the same in any order.
    order = rng.permutation(80)
    again = assign_blocks(together(X[order], None, others[order]), 4, classes=y[order])
    known = np.column_stack([X, others])
    for block in range(4):
        mine, theirs = known[blocks == block], known[order[again == block]]
        assert sorted(map(tuple, mine)) == sorted(map(tuple, theirs))


def test_groups_stay_together_where_twins_are_a_matter_of_chance_and_do_not_join_each_other():
    rng = np.random.default_rng(0)
    X, groups = rng.integers(0, 2, (60, 2)).astype(float), np.arange(60) // 3
    np.testing.assert_array_equal(np.unique(together(X, groups), return_counts=True)[1], 3)
    copied = np.tile(rng.standard_normal((30, 2)), (2, 1))  # groups that share a row are one
    np.testing.assert_array_equal(np.unique(together(copied, groups), return_counts=True)[1], 6)


@given(seed=st.integers(0, 1000))
def test_blocks_do_not_depend_on_the_order_of_rows_or_on_how_they_are_repeated(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, 2))
    times = rng.integers(1, 4, 25)
    classes = rng.integers(0, 3, 25)
    weighted = assign_blocks(together(X), 4, times.astype(float), classes)
    given = rng.permutation(np.repeat(np.arange(25), times))
    np.testing.assert_array_equal(assign_blocks(together(X[given]), 4, None, classes[given]), weighted[given])


def test_every_class_is_in_every_block_and_a_class_with_one_row_in_none():
    X = normal(41, 2, seed=0).numpy()
    classes = np.array([0] * 24 + [1] * 16 + [2])
    blocks = assign_blocks(together(X), 4, classes=classes)
    for one, times in ((0, 6), (1, 4)):
        assert (np.bincount(blocks[classes == one], minlength=4) == times).all()
    assert blocks[-1] == -1


@given(members=st.integers(2, 9), more=st.integers(0, 9), left_out=st.integers(1, 4))
def test_every_block_is_left_out_and_members_leave_equally_many(members, more, left_out):
    blocks = members + more
    away = arcs(blocks, members, left_out)
    assert {block for each in away for block in each} == set(range(blocks))
    assert len(away) == members and len({len(set(each)) for each in away}) == 1


def test_what_members_say_of_rows_that_they_left_out_comes_back_row_by_row():
    rows = Rows(normal(23, 2, seed=0), normal(23, 1, seed=1))
    # Eight blocks, and members leave out three of them: half of the blocks are left out twice.
    left = LeftOut.of(assign_blocks(together(rows.X.numpy()), 8), arcs(8, 4, 3), LIKE)
    training, held_out = left.training(rows), left.held_out(rows)
    assert (training.weight.sum(-1) + held_out.weight.sum(-1) == 23).all()
    collected, there = left.by_row(held_out.X, 23)
    assert there[0].all() and 0 < there[1].sum() < 23
    for time in range(2):
        torch.testing.assert_close(collected[time][there[time]], rows.X[there[time]])
    assert (collected[1][~there[1]] == 0).all()
    seen = left.seen(23)
    assert (seen.sum(0) == 4 - there.sum(0)).all()
    some = left.of_members(slice(1, 3))
    torch.testing.assert_close(some.training(rows).X, training.X[1:3])


@pytest.mark.parametrize("seed", range(4))
def test_density_weights_are_those_that_a_general_optimiser_finds(seed):
    log_density = 2 * normal(40, 3, seed=seed)
    weights = density_weights(log_density, iterations=3000)
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()

    def mean(w):
        return torch.logsumexp(torch.log_softmax(torch.as_tensor(w), 0) + log_density, -1).mean().item()

    found = minimize(
        lambda w: -mean(w), np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12}
    )
    reached = torch.logsumexp(weights.log() + log_density, -1).mean().item()
    assert reached >= -found.fun - 1e-5
    # A row of weight two is a row given twice.
    counted = torch.ones(40, dtype=torch.float64)
    counted[:7] = 2
    twice = torch.cat([log_density, log_density[:7]])
    torch.testing.assert_close(density_weights(log_density, counted), density_weights(twice))


@given(seed=st.integers(0, 1000))
def test_no_weights_of_a_grid_have_a_smaller_squared_error(seed):
    means, y = normal(30, 3, seed=seed), normal(30, seed=seed + 1)
    weights = squared_error_weights(means - y.unsqueeze(-1))
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    best = (y - means @ weights).square().sum()
    grid = [(a / 20, b / 20, 1 - (a + b) / 20) for a in range(21) for b in range(21 - a)]
    for other in grid:
        assert best <= (y - means @ torch.tensor(other, dtype=torch.float64)).square().sum() + 1e-6


@given(seed=st.integers(0, 1000), prior_rows=st.floats(0.1, 1000))
def test_prior_weights_count_as_rows_that_were_seen_before(seed, prior_rows):
    errors, prior = normal(30, 3, seed=seed), normal(3, seed=seed + 1).softmax(-1)
    weights = squared_error_weights(errors, prior=prior, prior_rows=prior_rows)

    def loss(w):
        return (errors @ w).square().sum() + prior_rows * (w - prior).square().sum()

    for other in (prior, squared_error_weights(errors), *torch.eye(3, dtype=torch.float64)):
        for share in (0.01, 0.1, 1.0):
            assert loss(weights) <= loss((1 - share) * weights + share * other) * (1 + 1e-6) + 1e-9
    # Few rows that were seen leave the weights where the others put them, and very many where they were.
    few, many = (squared_error_weights(errors, prior=prior, prior_rows=r) for r in (1e-9, 1e9))
    torch.testing.assert_close(few, squared_error_weights(errors), rtol=0, atol=1e-6)
    torch.testing.assert_close(many, prior, rtol=0, atol=1e-6)


def test_a_part_that_is_beyond_all_bounds_has_no_weight_and_harms_no_other():
    y = normal(30, seed=0)
    good = torch.stack([y + normal(30, seed=1), y + 2 * normal(30, seed=2)], dim=-1)
    expected = squared_error_weights(good - y.unsqueeze(-1))
    for wild in (1e20, 1e140, 1e200, torch.inf):
        means = torch.cat([good, wild * normal(30, 1, seed=3)], dim=-1)
        weights = squared_error_weights(means - y.unsqueeze(-1))
        if wild < 1e150:  # of so little weight it is a number like others
            assert (y - means @ weights).square().sum() <= (y - good @ expected).square().sum() + 1e-6
            assert weights[2] < 1e-15
        else:
            torch.testing.assert_close(weights, torch.cat([expected, torch.zeros(1).double()]))


def test_training_goes_on_from_one_length_to_the_next_as_if_it_had_not_stopped():
    assert snapshot_steps(30, 5) == [18, 21, 24, 27, 30] and snapshot_steps(3, 5) == [1, 2, 3]
    rows = ridges(40, replicas=(2,))
    model = Model.of(MLP(2, (3,)), Gaussian(), "scalar", exact)
    w = initial_weights(model.network, [0, 1], rows.X)

    def trained(lengths, chosen=slice(None)):
        some, paused, stages = Rows(rows.X[chosen], rows.y[chosen]), Paused.before(model, w[chosen]), []
        for length in lengths:
            stage, paused = train_stage(model, some, some, Numbers().describe, paused, length, 3)
            stages.append(stage)
        return stages

    both = trained([10, 30])
    for place, length in enumerate((10, 30)):
        (alone,) = trained([length])
        assert alone.length == both[place].length == length
        for mine, theirs in zip(both[place].networks, alone.networks, strict=True):
            assert torch.equal(mine, theirs)
    said = both[1].said
    assert said["mean"].shape == (2, 3, 40, 1) and (said["log_density"].mean() > -1)
    # Groups of members, put together, are all of them.
    apart = joined([trained([10, 30], slice(0, 1))[1], trained([10, 30], slice(1, 2))[1]])
    torch.testing.assert_close(apart.networks.w, both[1].networks.w, rtol=1e-4, atol=1e-6)
    assert len(apart.outcomes) == 2


def test_training_that_runs_out_of_time_ends_where_it_is():
    rows = ridges(40, replicas=(2,))
    model = Model.of(MLP(2, (3,)), Gaussian(), "scalar", exact)
    start = Paused.before(model, initial_weights(model.network, [0, 1], rows.X))

    def train(start, length):
        return train_stage(model, rows, rows, Numbers().describe, start, length, 3, seconds=0.0)

    stage, paused = train(start, 10)
    assert stage.length == paused.step == 1 and stage.networks.w.shape[1] == 1
    stage, paused = train(paused, 10)
    assert stage is None and paused.step == 2


@pytest.mark.parametrize("freedom", [torch.inf, 5.0], ids=["Gaussians", "t's"])
def test_the_factor_of_a_mixture_is_that_of_its_definition(freedom):
    rng = np.random.default_rng(0)
    n, c = 400, 3
    truth = torch.from_numpy(rng.standard_normal(n))
    mean = truth + 0.8 * torch.from_numpy(rng.standard_normal((c, 1, n)))
    variance = torch.full((c, 1, n), 0.8**2)
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    there = torch.ones(1, n, dtype=torch.bool)
    nu = torch.full((c, 1, n), freedom, dtype=torch.float64)
    counted = torch.ones(n, dtype=torch.float64)
    components = HeldOutComponents(mean, variance, variance, nu, weights, truth, there, counted, 0 * truth)
    factor = components.factor(members=1)

    def drawn_towards_the_middle(f):
        nothing = torch.zeros(c, n, 1, dtype=torch.float64)
        parts = (mean[:, 0, :, None], nothing, variance[:, 0, :, None])
        gaussian = GaussianPredictive(*parts)
        each = gaussian if freedom == torch.inf else StudentPredictive(*parts, nu[:, 0, :, None])
        mixture = Mixture(each, weights)
        return mixture.to_units(inwards(mixture, f))

    # P(Y ≤ y) is as far from ½ as a uniform number.
    apart = (drawn_towards_the_middle(factor).cdf(truth[:, None]) - 0.5).abs().mean()
    assert apart.item() == pytest.approx(0.25, abs=0.003)
    assert factor < 0.8  # the members err on their own, and their mixture is too wide


def test_calibration_costs_next_to_nothing_of_the_log_density_even_beside_gross_errors():
    n, one = 400, torch.ones(1, dtype=torch.float64)
    y = torch.from_numpy(np.random.default_rng(0).standard_normal(n))
    y[::40] *= 10
    zero, same = torch.zeros(1, 1, n, dtype=torch.float64), torch.ones(1, 1, n, dtype=torch.float64)
    there, counted = torch.ones(1, n, dtype=torch.bool), torch.ones(n, dtype=torch.float64)
    held_out = HeldOutComponents(zero, same, same, same / 0, one, y, there, counted, 0 * y)
    factor = held_out.factor(members=1)

    def log_density(f):
        return torch.distributions.Normal(0.0, f).log_prob(y).mean().item()

    likeliest = y.square().mean().sqrt().item()
    assert factor < 0.9 * likeliest  # most rows are nearer than the few errors would have it
    assert log_density(factor) == pytest.approx(log_density(likeliest) - MOST_LOST, abs=0.004)


def test_the_factor_of_many_members_is_continued_from_one_and_two():
    """Where members' errors are independent, a mean of many errs less, and the continued factor says so."""
    rng = np.random.default_rng(1)
    n = 4000
    truth = torch.from_numpy(rng.standard_normal(n))
    noise = 0.5 * torch.from_numpy(rng.standard_normal(n))

    def members(count):
        return (truth + 0.5 * torch.from_numpy(rng.standard_normal((count, n)))).unsqueeze(0)

    y = truth + noise
    one = torch.ones(1, dtype=torch.float64)
    counted = torch.ones(n, dtype=torch.float64)

    def held_out(count):
        there = torch.ones(count, n, dtype=torch.bool)
        variance = torch.full((1, count, n), 0.5, dtype=torch.float64)
        gaussian = torch.full_like(variance, torch.inf)
        return HeldOutComponents(members(count), variance, variance, gaussian, one, y, there, counted, 0 * y)

    continued = held_out(2).factor(members=10)
    ten = held_out(10)
    direct = math.exp(ten._best(list(range(10)), torch.ones(n, dtype=torch.bool)))
    assert held_out(1).factor(members=10) == pytest.approx(1, abs=0.05)
    assert continued == pytest.approx(direct, rel=0.1)


def test_the_temperature_of_a_mixture_of_many_members_is_continued_from_one_and_two():
    """Members that are each calibrated and differ are too unsure together, and the temperature knows it."""
    rng = np.random.default_rng(0)
    n, k = 4000, 3
    logits = 2 * torch.from_numpy(rng.standard_normal((n, k)))
    classes = torch.multinomial(logits.softmax(-1), 1, generator=torch.Generator().manual_seed(0))[:, 0]
    y = torch.nn.functional.one_hot(classes, k).double()
    counted = torch.ones(n, dtype=torch.float64)

    def held_out(count):
        told = (logits + torch.from_numpy(rng.standard_normal((count, n, k)))).log_softmax(-1)
        return HeldOutProbabilities(told, y, torch.ones(count, n, dtype=torch.bool), counted)

    eight = held_out(8)
    direct = math.exp(eight._best(torch.logsumexp(eight.log_p, 0) - math.log(8), eight.there[0]))
    one, continued = held_out(1).temperature(members=8), held_out(2).temperature(members=8)
    assert 1 < one  # each is too sure of what it made up
    assert continued < 0.95 * one and continued == pytest.approx(direct, rel=0.1)


def test_a_part_that_failed_gets_no_weight_and_harms_no_other():
    kept = [0, 2]
    for weigh, values in (
        (density_weights, normal(20, 3, seed=0)),
        (squared_error_weights, normal(20, 3, seed=1)),
    ):
        broken = values.clone()
        broken[4, 1] = torch.nan
        weights = weigh(broken)
        assert weights[1] == 0
        torch.testing.assert_close(weights[kept], weigh(values[:, kept]), rtol=1e-6, atol=1e-8)


def test_a_network_goes_on_by_its_weight_among_networks_and_not_beside_what_has_learnt_all_it_can():
    rows = Rows(normal(60, 2, seed=0), normal(60, 1, seed=1))
    good, poor = (Candidate(Architecture((width,), "tanh", "scalar")) for width in (20, 2))
    level = {FOREST: 5.0, good: 0.5, poor: -5.0}
    entries = [
        Entry(candidate, None, Judged(level[candidate] + 0.1 * normal(60, 1, seed=2), rows.y))
        for candidate in (FOREST, good, poor)
    ]
    assert max(weighted(entries, rows), key=lambda entry: entry.weight).candidate == FOREST
    assert _promising(entries, rows) == {good}
    assert _promising(entries[:1], rows) == set()
    assert _promising([entry.without_a_say() for entry in entries], rows) == set()


def test_a_gross_error_does_not_choose_the_mean_where_a_candidate_knows_errors():
    y = normal(60, 1, seed=0)
    soiled = y.clone()
    soiled[7] += 100
    rows = Rows(normal(60, 2, seed=1), soiled)
    good, drawn = y + 0.1 * normal(60, 1, seed=2), y + 0.3 * (soiled - y) + 0.3 * normal(60, 1, seed=3)
    equal = torch.zeros(60, 1, dtype=torch.float64)
    apart = ((soiled - good) / 0.1).square()
    trust = (1 + 1 / 5) / (1 + apart / 5)  # of a t with five degrees of freedom

    def weights(trust):
        told = [Judged(equal, good, trust=trust), Judged(equal, drawn)]
        entries = [Entry(LINEAR, None, judged) for judged in told]
        return [entry.mean_weight for entry in weighted(entries, rows)]

    assert weights(None)[1] > 0.9  # what runs after the error is rewarded for it
    assert weights(trust)[0] > 0.8


def test_a_view_of_pieces_shows_how_far_each_column_has_come():
    X = normal(50, 2, seed=0)
    X[:, 1] = (X[:, 1] > 0).double()  # two values have no pieces
    view = Pieces.of(X)
    seen = view(X)
    assert seen.shape == (50, 2 + PIECES) and torch.equal(seen[:, :2], X)
    low, high = X[:, 0].min(), X[:, 0].max()
    below, above = (
        view(torch.stack([low - 9, X.new_tensor(0)])),
        view(torch.stack([high + 9, X.new_tensor(1)])),
    )
    assert (below[2:] == -1).all() and (above[2:] == 1).all()
    # Along the column every piece rises after the one before it is full, and is a line in between.
    order = X[:, 0].argsort()
    passed = seen[order, 2:]
    assert (passed.diff(dim=0) >= 0).all()
    assert ((passed[:, :-1] == 1) | (passed[:, 1:] == -1)).all()
    # Rows that are given twice make the same pieces.
    torch.testing.assert_close(Pieces.of(torch.cat([X, X[:9]])).low, view.low, rtol=0, atol=0)


def test_a_row_like_none_before_cannot_cost_more_than_the_constant_does():
    """However sure the networks were of all rows, the constant keeps a share that no variance notices."""
    rows = ridges(60)
    left_out = LeftOut.of(np.arange(60) % 4, [[0], [1], [2], [3]], rows.X)
    problem = Problem(rows, left_out, lambda noise: Gaussian(), Numbers())
    candidates = (CONSTANT, Candidate(Architecture((4,), "tanh", "scalar")))
    entries = train_pool(problem, Preset(candidates, 4, 4, 1, (5, 10)), [0, 1, 2, 3])
    constant = next(entry for entry in entries if entry.candidate == CONSTANT)
    assert 1 / 61**2 <= constant.weight < 0.01 and sum(entry.weight for entry in entries) == pytest.approx(1)


def test_a_candidate_without_weight_is_not_trained_longer():
    rows = ridges(60)
    left_out = LeftOut.of(np.arange(60) % 4, [[0], [1], [2], [3]], rows.X)
    problem = Problem(rows, left_out, lambda noise: Gaussian(), Numbers())
    good, blind = (
        Candidate(Architecture((4,), "tanh", "scalar"), view=view) for view in ("everything", "nothing")
    )
    preset = Preset((CONSTANT, good, blind), 4, 4, 1, (5, 10, 20))

    def lengths(preset):
        entries = train_pool(problem, preset, [0, 1, 2, 3])
        return {c: [e.stage.length for e in entries if e.candidate == c] for c in (good, blind)}

    assert lengths(preset) == {good: [5, 10, 20], blind: [5, 10]}
    assert lengths(replace(preset, stops_early=False)) == {good: [5, 10, 20], blind: [5, 10, 20]}


def test_a_constant_of_little_weight_does_not_widen_every_row():
    rows = Rows(normal(60, 2, seed=1), normal(60, 1, seed=0))
    sure = torch.full((60, 1), 2.0, dtype=torch.float64)
    sure[0] = -6.0  # one row in sixty that the constant foresees better
    # The constant's share is no more than twice the square of what the line is off by, and never nothing.
    for off, share in ((0.1, 1 / 61**2), (1e-4, 2e-8), (0.0, 1e-12)):
        told = [Judged(sure, rows.y + off), Judged(torch.full_like(sure, -1.4), 0 * rows.y)]
        entries = [
            Entry(candidate, None, judged) for candidate, judged in zip((LINEAR, CONSTANT), told, strict=True)
        ]
        line, constant = weighted(entries, rows)
        assert constant.weight == pytest.approx(share) and line.weight == pytest.approx(1 - share)


def test_of_many_rows_some_say_which_form_and_temperature_suit_all(monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    labels = (X[:, 0] + 0.5 * random.normal(size=300) > 0).astype(int)
    quick = {"preset": "fast", "max_steps": 4, "random_state": 0}
    all_rows = OnlineLaplaceClassifier(**quick).fit(X, labels)
    monkeypatch.setattr("online_laplace.pool.classes.CHOSEN_BY", 40)
    some_rows = OnlineLaplaceClassifier(**quick).fit(X, labels)
    assert not np.array_equal(all_rows.predict_proba(X), some_rows.predict_proba(X))
    np.testing.assert_allclose(all_rows.predict_proba(X), some_rows.predict_proba(X), atol=0.1)


def test_how_long_a_step_takes_is_measured_on_some_of_the_rows(monkeypatch):
    seen = []
    train = Members.train

    def watched(self, length, *arguments, **options):
        seen.append(self.rows.n)
        return train(self, length, *arguments, **options)

    monkeypatch.setattr("online_laplace.pool.budget.MEASURED_ROWS", 50)
    monkeypatch.setattr(Members, "train", watched)
    X = np.random.default_rng(0).normal(size=(120, 2))
    model = OnlineLaplaceRegressor(preset="fast", time_limit=60, max_steps=2, random_state=0)
    model.fit(X, X[:, 0], sample_weight=np.arange(120) % 3 + 1.0)
    assert seen[:2] == [40, 40] and set(seen[2:]) == {120}


class Clock:
    """A clock that stands still but for what is said to take time."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def taking(self, seconds, function):
        def timed(*arguments, **options):
            self.now += seconds
            return function(*arguments, **options)

        return timed


def test_under_a_limit_time_is_kept_for_judging_and_what_has_none_is_not_begun(monkeypatch):
    rows = ridges(60)
    left_out = LeftOut.of(np.arange(60) % 8, [[0, 1], [2, 3], [4, 5], [6, 7]], rows.X)
    kinds = {"constant": Gaussian(), "varying": VaryingGaussian()}.__getitem__
    problem = Problem(rows, left_out, kinds, Numbers())
    forest, tiny = Forest(trees=2), Candidate(Architecture((2,), "tanh", "scalar"))
    preset = Preset((CONSTANT, LINEAR, forest, tiny), 4, 8, 2, (2, 4))
    given, clock = [], Clock(monkeypatch)

    def watched(train):
        def timed(self, *arguments, seconds=math.inf, **options):
            given.append((clock.now, seconds))
            return train(self, *arguments, seconds=seconds, **options)

        return timed

    monkeypatch.setattr("online_laplace.pool.budget.Budget._seconds_per_work", 0.0)
    for kind in (Members, MembersAtOnce):
        monkeypatch.setattr(kind, "train", watched(kind.train))
    monkeypatch.setattr(Numbers, "judge", clock.taking(3.0, Numbers.judge))

    def candidates(seconds):
        given.clear()
        clock.now = 0.0
        found = [entry.candidate for entry in train_pool(problem, preset, [0, 1, 2, 3], seconds=seconds)]
        # None may take what it takes to judge it, once there is something to judge by, and all of them.
        assert all(share <= max(0.0, seconds - now - (6 if now else 0)) for now, share in given)
        return found

    assert candidates(100.0) == [CONSTANT, LINEAR, forest, tiny, tiny]
    assert candidates(14.0) == [CONSTANT, LINEAR, forest]
    assert candidates(9.0) == [CONSTANT, LINEAR]
    monkeypatch.setattr(MembersAtOnce, "least_seconds", lambda *_: 1e3)
    assert candidates(100.0) == [CONSTANT, LINEAR, tiny, tiny]


def test_draws_of_class_probabilities_are_not_tried_of_a_large_table_where_time_is_short(monkeypatch):
    tried = set()

    def log_probabilities(form, *arguments):
        tried.add(form)
        return forms.log_probabilities(form, *arguments)

    monkeypatch.setattr("online_laplace.pool.classes.log_probabilities", log_probabilities)
    X = normal(60, 2, seed=0)
    rows = Rows(X, torch.eye(2, dtype=X.dtype)[(X[:, 0] > 0).long()])
    left_out = LeftOut.of(np.arange(60) % 4, [[0], [1], [2], [3]], X)
    for most, asked in ((59, set(forms.CLOSED)), (60, set(forms.FORMS))):
        problem = Problem(rows, left_out, lambda noise: Categorical(2), Classes(), most)
        train_pool(problem, Preset((LINEAR,), 4, 4, 1, (2,)), [0, 1, 2, 3])
        assert tried == asked


def test_a_large_table_s_mixture_is_as_wide_as_some_of_its_rows_say_where_time_is_short():
    rows = ridges(60)
    left_out = LeftOut.of(np.arange(60) % 4, [[0], [1], [2], [3]], rows.X)
    problem = Problem(rows, left_out, lambda noise: Gaussian(), Numbers())
    preset = Preset((CONSTANT, LINEAR), 4, 4, 1, (5,))
    entries = train_pool(problem, preset, [0, 1, 2, 3])
    all_rows, some = (Numbers()._held_out(entries, replace(problem, most_rows=most)) for most in (60, 25))
    assert len(all_rows.y) == 60 and len(some.y) == 20
    for name in ("mean", "squared_scale", "there", "y"):
        torch.testing.assert_close(getattr(some, name), getattr(all_rows, name)[..., ::3])


def test_rows_of_classes_that_a_constant_sees_alike_count_as_one_of_each_class():
    X = 0 * normal(50, 3, seed=0)
    y = torch.eye(4, dtype=torch.float64)[torch.arange(50) % 3]  # of the fourth class there is none
    rows = Rows(X, y, 1 + normal(50, seed=1).abs())
    left_out = LeftOut.of(np.arange(50) % 4, [[0], [1], [2], [3]], X)
    model = Model.of(MLP(3, (), 4), Categorical(4), "scalar", exact)
    classes = [Members(model, rows, left_out, Classes().describe, range(4)) for _ in range(2)]
    classes[0]._alike = False
    every, one = (members.train(6, 2) for members in classes)
    torch.testing.assert_close(every.evidence, one.evidence, rtol=1e-10, atol=0)
    torch.testing.assert_close(every.gamma, one.gamma, rtol=1e-10, atol=0)
    for name, said in every.said.items():
        torch.testing.assert_close(said, one.said[name], rtol=1e-9, atol=1e-12)
    # What is said of all rows alike is judged once, as if they had been judged one by one.
    apart = {**one.said, "f": one.said["f"] + 1e-12 * normal(*one.said["f"].shape, seed=2)}
    both = (choose(said, rows, left_out, "auto") for said in (one.said, apart))
    for judged in zip(*((each.log_density, each.choice) for each in both), strict=True):
        assert judged[0] == judged[1] if isinstance(judged[0], tuple) else torch.allclose(*judged)
