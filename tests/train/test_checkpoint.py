"""A Gauss-Newton run as named arrays: taken up anywhere, it goes on bit for bit."""

from __future__ import annotations

import pytest
import torch

from online_laplace.files.sealed import read_arrays, write_arrays
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.posterior.predictive import Units
from online_laplace.train.checkpoint import history_arrays, pack, resume
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.history import Evaluation, History, observe
from online_laplace.train.loop import Watch, run
from online_laplace.train.online import MEANS
from problems import ridges, wave

ONE = torch.ones(1, 1, dtype=torch.float64)


def setting(procedure, prior, form):
    """A procedure with two outputs and three replicas, its first weights and hyperparameters."""
    network, problem = MLP(2, (3,), 2), ridges(25, outputs=2, replicas=(3,))
    w = torch.stack([network.init(seed) for seed in range(3)])
    hyper = initial_hyper(network, w, prior=prior, beta_per_output=prior != "scalar")
    return GaussNewton(network, problem, MEANS[procedure], form), w, hyper


def assert_same(one, other):
    """Every array of two runs is the same, bit for bit."""
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert values.dtype == other[name].dtype, name
        assert torch.equal(values.nan_to_num(), other[name].nan_to_num()), name


@pytest.mark.parametrize("form", ["primal", "dual"])
@pytest.mark.parametrize("prior", ["scalar", "ard"])
@pytest.mark.parametrize("procedure", MEANS)
def test_a_run_taken_up_from_a_file_goes_on_as_if_it_had_never_stopped(procedure, prior, form, tmp_path):
    newton, w, hyper = setting(procedure, prior, form)
    state = newton.init(w, hyper)
    halves = []
    for step in range(1, 31):
        state = newton.step(state)
        if step % 3 == 0:
            state = state.remember()
        if step == 9:
            state = state.settle(torch.tensor([False, True, False]))  # one has ended, two go on
        if step in (1, 10, 20):
            file = tmp_path / f"{step}.safetensors"
            write_arrays(file, pack(state, History()), {})
            halves.append((step, file))
    unbroken = pack(state, History())
    assert {"state.damping", "state.growth", "state.best.w", "state.trail.beta"} <= unbroken.keys()
    for step, file in halves:
        again, _ = resume(newton, newton.init(w, hyper), read_arrays(file)[0])
        assert again.step == step
        for _ in range(step, 30):
            again = newton.step(again)
            if again.step % 3 == 0:
                again = again.remember()
            if again.step == 9:
                again = again.settle(torch.tensor([False, True, False]))
        assert_same(pack(again, History()), unbroken)


class StopsAt:
    """A keeper in memory that interrupts the run once."""

    def __init__(self, step):
        self.step, self.kept = step, None

    def load(self):
        return self.kept

    def save(self, state, history):
        self.kept = {name: values.clone() for name, values in pack(state, history).items()}
        if self.step is not None and state.step >= self.step:
            self.step = None
            raise KeyboardInterrupt


@pytest.mark.parametrize("stop", [0, 5, 15, 25])
def test_an_interrupted_run_comes_to_the_same_certificate_and_the_same_end(stop):
    network, problem = MLP(2, (2,)), ridges()
    w = torch.stack([network.init(3), network.init(4)])
    newton = GaussNewton(network, problem, MEANS["ol"])
    where = Evaluation(problem, None, Units(0 * ONE, ONE))

    def attempt(keeper=None):
        def look(state):
            return observe(network, state.w, state.hyper, where)

        watch = Watch(look=look, every=5, tolerance=1e-10, keeper=keeper)
        return run(newton, newton.init(w, initial_hyper(network, w)), 40, watch, look_back=4)

    whole, history = attempt()
    keeper = StopsAt(stop)
    with pytest.raises(KeyboardInterrupt):
        attempt(keeper)
    resumed, seen = attempt(keeper)
    assert seen.steps == history.steps
    assert_same(pack(resumed, History()), pack(whole, History()))
    assert_same(history_arrays(seen), history_arrays(history))
    assert "certificate.gap" in history_arrays(seen)
    assert resumed.outcomes() == whole.outcomes()


def test_what_a_checkpoint_holds_does_not_grow_with_the_rows():
    network = MLP(2, (3,))
    w = network.init(0)
    sizes = []
    for n in (10, 100):
        newton = GaussNewton(network, wave(n), MEANS["ol"])
        state = newton.step(newton.init(w, initial_hyper(network, w)))
        sizes.append(sum(values.numel() for values in pack(state, History()).values()))
    assert sizes[0] == sizes[1] < 15 * (network.d_w + 2)
