"""A Gauss-Newton run as named arrays: taken up anywhere, it goes on bit for bit."""

from __future__ import annotations

import pytest
import torch

from online_laplace.curvature import dual, exact, primal
from online_laplace.files.sealed import read_arrays, write_arrays
from online_laplace.model.mlp import MLP
from online_laplace.train.checkpoint import pack, resume
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.history import History
from online_laplace.train.loop import Monitor, run
from online_laplace.train.observe import observe
from online_laplace.train.online import MEANS
from problems import make_model, ridges, wave


def setting(procedure, prior, form):
    """A procedure with two outputs and three replicas, its first weights, hyperparameters and rows."""
    model = make_model(MLP(2, (3,), 2), prior, per_output=prior != "scalar", curvature=form)
    w = torch.stack([model.network.init(seed) for seed in range(3)])
    return (
        GaussNewton(model, MEANS[procedure]),
        w,
        model.initial_hyper(w),
        ridges(25, outputs=2, replicas=(3,)),
    )


def assert_same(one, other):
    """Every array of two runs is the same, bit for bit."""
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert values.dtype == other[name].dtype, name
        assert torch.equal(values.nan_to_num(), other[name].nan_to_num()), name


@pytest.mark.parametrize("form", [primal, dual], ids=lambda form: form.name)
@pytest.mark.parametrize("prior", ["scalar", "ard"])
@pytest.mark.parametrize("procedure", MEANS)
def test_a_run_taken_up_from_a_file_goes_on_as_if_it_had_never_stopped(procedure, prior, form, tmp_path):
    newton, w, hyper, rows = setting(procedure, prior, form)
    state = newton.init(w, hyper, rows)
    halves = []
    for step in range(1, 31):
        state = newton.step(state, rows)
        if step % 3 == 0:
            state = state.take_snapshot()
        if step == 9:
            state = state.stop(torch.tensor([False, True, False]))  # one has ended, two go on
        if step in (1, 10, 20):
            file = tmp_path / f"{step}.safetensors"
            write_arrays(file, pack(state, History()), {})
            halves.append((step, file))
    unbroken = pack(state, History())
    assert {"state.damping", "state.growth", "state.best.w", "state.snapshots.beta"} <= unbroken.keys()
    for step, file in halves:
        again, _ = resume(newton, newton.init(w, hyper, rows), rows, read_arrays(file)[0])
        assert again.step == step
        for _ in range(step, 30):
            again = newton.step(again, rows)
            if again.step % 3 == 0:
                again = again.take_snapshot()
            if again.step == 9:
                again = again.stop(torch.tensor([False, True, False]))
        assert_same(pack(again, History()), unbroken)


class StopsAt:
    """A checkpoint in memory that interrupts the run once."""

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
    model, rows = make_model(MLP(2, (2,)), curvature=exact), ridges()
    w = torch.stack([model.network.init(3), model.network.init(4)])
    newton = GaussNewton(model, MEANS["ol"])

    def attempt(checkpoint=None):
        monitor = Monitor(
            observe=lambda state: observe(model, state.w, state.hyper, rows),
            every=5,
            tolerance=1e-10,
            checkpoint=checkpoint,
        )
        state = newton.init(w, model.initial_hyper(w), rows)
        return run(newton, state, rows, 40, monitor, snapshot_every=4)

    whole, history = attempt()
    checkpoint = StopsAt(stop)
    with pytest.raises(KeyboardInterrupt):
        attempt(checkpoint)
    resumed, seen = attempt(checkpoint)
    assert seen.steps == history.steps
    assert_same(pack(resumed, History()), pack(whole, History()))
    assert_same(seen.arrays(), history.arrays())
    assert "certificate.gap" in seen.arrays()
    assert resumed.outcomes() == whole.outcomes()


def test_what_a_checkpoint_holds_does_not_grow_with_the_rows():
    model = make_model(MLP(2, (3,)))
    w = model.network.init(0)
    sizes = []
    for n in (10, 100):
        newton, rows = GaussNewton(model, MEANS["ol"]), wave(n)
        state = newton.step(newton.init(w, model.initial_hyper(w), rows), rows)
        sizes.append(sum(values.numel() for values in pack(state, History()).values()))
    assert sizes[0] == sizes[1] < 15 * (model.network.d_w + 2)


@pytest.mark.parametrize("prior", ["scalar", "ard"])
def test_a_history_is_its_arrays_and_back(prior):
    model, rows = make_model(MLP(2, (2,)), prior), ridges()
    w = torch.stack([model.network.init(3), model.network.init(4)])
    history = History()
    assert History.of(history.arrays()).arrays().keys() == {"steps"}
    for step in (0, 7):
        history.append(step, observe(model, w + step, model.initial_hyper(w), rows))
    again = History.of(history.arrays())
    assert again.steps == [0, 7]
    assert_same(again.arrays(), history.arrays())
    for mine, theirs in zip(again.observations, history.observations, strict=True):
        assert mine.keys() == theirs.keys() >= {"alpha", "gamma", "certificate.gap", "laplace_evidence"}
    assert again.trace("certificate.distance").shape == (2, 2)
