"""The loop that is done for you: it trains, reports, stops with an outcome, and goes on from a checkpoint."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from module_problems import mlp
from online_laplace import OnlineLaplace
from online_laplace.errors import DivergedError, InputError, MissingExtraError
from online_laplace.modules import Cadence, TensorBoard, fit
from problems import wave

CADENCE = Cadence(every=2, decay=0.8, refresh=2)


def loader(n: int = 60, noise: float = 0.1) -> DataLoader:
    rows = wave(n, noise=noise)
    generator = torch.Generator().manual_seed(3)
    return DataLoader(TensorDataset(rows.X, rows.y), batch_size=15, shuffle=True, generator=generator)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.02)


def test_it_trains_and_reports():
    updates, epochs = [], []
    found = fit(
        mlp(1, inputs=2, hidden=6), loader(), "gaussian", epochs=80, optimiser=adam, cadence=CADENCE,
        curvature="kron", on_update=updates.append, on_epoch=lambda *seen: epochs.append(seen), quiet=True,
    )  # fmt: skip
    assert str(found.outcome) == "step limit" and found.outcome.step == 80
    assert updates == found.history and len(updates) == CADENCE.costs(320)[0] == 100
    assert [epoch for epoch, _ in epochs] == list(range(1, 81))
    assert found.history[-1].evidence > found.history[0].evidence + 20
    assert 0.05 < float(found.tuner.beta.rsqrt()) < 0.3  # the noise is 0.1, that of a start 1
    X = loader().dataset.tensors[0]
    assert found.posterior.predict(X).std.shape == (60, 1)


@pytest.mark.parametrize("curvature", ["full", "kron"])
def test_a_fit_taken_up_from_its_checkpoint_ends_as_if_it_had_never_stopped(tmp_path, curvature):
    def run(*stops, path):
        for epochs in stops:
            module = mlp(1, inputs=2)
            found = fit(
                module, loader(), "gaussian", epochs=epochs, optimiser=adam, cadence=CADENCE,
                checkpoint=path, curvature=curvature, quiet=True,
            )  # fmt: skip
        return found, [p.detach() for p in module.parameters()]

    stopped, w = run(3, 7, path=tmp_path / "stopped")
    whole, v = run(7, path=tmp_path / "whole")
    assert stopped.losses == whole.losses and stopped.history == whole.history
    assert all(torch.equal(a, b) for a, b in zip(w, v, strict=True))
    with pytest.raises(InputError, match=r"checkpoint of another run: .*n_data is 60, not 30"):
        fit(mlp(1, inputs=2), loader(30), "gaussian", checkpoint=tmp_path / "whole", curvature=curvature)
    (tmp_path / "whole").write_bytes((tmp_path / "whole").read_bytes()[:-9])
    with pytest.raises(InputError, match=r"no checkpoint that can be used"):
        run(8, path=tmp_path / "whole")


def saved(path, epochs=3, hidden=4, optimiser=adam, likelihood="gaussian", curvature="diagonal"):
    module = mlp(1, inputs=2, hidden=hidden)
    found = fit(
        module, loader(), likelihood, epochs=epochs, optimiser=optimiser, cadence=CADENCE,
        checkpoint=path, curvature=curvature, quiet=True,
    )  # fmt: skip
    return found, module


def test_a_checkpoint_with_more_epochs_than_were_asked_for_is_refused(tmp_path):
    saved(tmp_path / "run", 4)
    with pytest.raises(InputError, match=r"has 4 epochs already, and 2 were asked for. Ask for 4 or more"):
        saved(tmp_path / "run", 2)
    found, _ = saved(tmp_path / "run", 4)
    assert found.outcome.step == len(found.losses) == 4


def test_a_checkpoint_of_another_likelihood_is_refused(tmp_path):
    saved(tmp_path / "run")
    with pytest.raises(InputError, match=r"its likelihood is Gaussian, not Bernoulli"):
        saved(tmp_path / "run", likelihood="bernoulli")


@pytest.mark.parametrize("curvature", ["diagonal", "last-layer"])
def test_a_checkpoint_that_is_refused_leaves_the_module_as_it_was(tmp_path, curvature):
    saved(tmp_path / "run", hidden=4, curvature=curvature)
    module = mlp(1, inputs=2, hidden=5)
    before = [p.detach().clone() for p in module.parameters()]
    with pytest.raises(InputError, match=r"checkpoint of another run"):
        fit(module, loader(), "gaussian", checkpoint=tmp_path / "run", curvature=curvature, optimiser=adam)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_a_checkpoint_whose_module_has_other_frozen_parts_leaves_it_as_it_was(tmp_path):
    def module(width):
        found = mlp(1, inputs=2)
        found.register_buffer("kept", torch.zeros(width))
        return found

    settings = dict(checkpoint=tmp_path / "run", curvature="diagonal", epochs=2, quiet=True)
    fit(module(3), loader(), "gaussian", **settings)
    other = module(4)
    before = [p.detach().clone() for p in other.parameters()]
    with pytest.raises(InputError, match=r"(?s)checkpoint of another run.*size mismatch"):
        fit(other, loader(), "gaussian", **settings)
    assert all(torch.equal(a, b) for a, b in zip(before, other.parameters(), strict=True))


def test_a_checkpoint_of_another_optimiser_is_refused(tmp_path):
    saved(tmp_path / "run")
    with pytest.raises(InputError, match=r"its optimiser is Adam, not SGD"):
        saved(tmp_path / "run", 4, optimiser=lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9))
    with pytest.raises(InputError, match=r"its Adam has amsgrad=False, not True"):
        saved(tmp_path / "run", 4, optimiser=lambda p: torch.optim.Adam(p, lr=0.02, amsgrad=True))


def test_a_learning_rate_that_is_given_anew_counts_from_the_checkpoint_on(tmp_path):
    _, before = saved(tmp_path / "run", 3)
    _, after = saved(tmp_path / "run", 4, optimiser=lambda p: torch.optim.Adam(p, lr=0.0))
    assert all(torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))


def test_an_optimiser_without_plain_steps_is_refused():
    with pytest.raises(InputError, match=r"LBFGS asks for the loss several times a step.*loop of your own"):
        fit(mlp(1, inputs=2), loader(), "gaussian", optimiser=torch.optim.LBFGS)
    with pytest.raises(InputError, match=r"optimiser must return an optimiser of torch.* not NoneType"):
        fit(mlp(1, inputs=2), loader(), "gaussian", optimiser=lambda parameters: None)


def test_a_loader_that_does_not_give_each_row_once_is_refused_before_the_second_epoch():
    rows, epochs = wave(60), []
    data = TensorDataset(rows.X, rows.y)
    settings = dict(epochs=9, quiet=True, on_epoch=lambda *seen: epochs.append(seen))
    with pytest.raises(InputError, match=r"n_data is 60, but the loader has 50 rows.*drop_last=False"):
        fit(mlp(1, inputs=2), DataLoader(data, batch_size=25, drop_last=True), "gaussian", **settings)
    padded = DataLoader(data, batch_size=8, sampler=[*range(60), 0])
    with pytest.raises(InputError, match=r"n_data is 60, but the loader has 61 rows"):
        fit(mlp(1, inputs=2), padded, "gaussian", **settings)
    assert epochs == []
    whole = DataLoader(data, batch_size=20, drop_last=True)  # which drops nothing
    assert fit(mlp(1, inputs=2), whole, "gaussian", epochs=1, quiet=True).posterior is not None


def test_what_is_no_loader_is_refused_with_what_is():
    rows = wave(30)
    data = TensorDataset(rows.X, rows.y)
    cases = {
        r"TensorDataset is a dataset of single rows: wrap it in a DataLoader": data,
        r"this is tensors: wrap inputs and targets in a DataLoader": (rows.X, rows.y),
        r"the loader must give batches one after another, and 5 does not": 5,
        r"gone through once an epoch, and generator only once": (batch for batch in [(rows.X, rows.y)]),
    }
    for message, given in cases.items():
        with pytest.raises(InputError, match=message):
            fit(mlp(1, inputs=2), given, "gaussian")


def test_a_run_whose_posterior_fails_still_tells_what_it_has(monkeypatch):
    def fails(*_):
        raise DivergedError("the curvature could not be factorised")

    monkeypatch.setattr(OnlineLaplace, "posterior", fails)
    found = fit(mlp(1, inputs=2), loader(), "gaussian", epochs=2, quiet=True)
    assert found.outcome.kind == "diverged" and "factorised" in found.outcome.detail
    assert found.posterior is None and len(found.losses) == 2


def test_a_run_that_diverges_ends_with_an_outcome():
    found = fit(
        mlp(1, inputs=2), loader(), "gaussian", epochs=5, quiet=True,
        optimiser=lambda parameters: torch.optim.SGD(parameters, lr=1e200),
    )  # fmt: skip
    assert found.outcome.kind == "diverged" and found.outcome.step == 1
    assert "the loss is not a finite number" in found.outcome.detail and found.posterior is None


def test_a_loader_that_contradicts_n_data_or_knows_no_number_of_rows():
    class Stream(IterableDataset):
        def __iter__(self):
            rows = wave(30)
            return iter(zip(rows.X, rows.y, strict=True))

    with pytest.raises(InputError, match=r"n_data is 7, but the loader's dataset has 60 rows"):
        fit(mlp(1, inputs=2), loader(), "gaussian", n_data=7)
    with pytest.raises(InputError, match=r"does not know how many rows it has: give n_data"):
        fit(mlp(1, inputs=2), DataLoader(Stream(), batch_size=10), "gaussian")
    stream = DataLoader(Stream(), batch_size=10)
    assert fit(mlp(1, inputs=2), stream, "gaussian", n_data=30, epochs=1, quiet=True).posterior is not None
    empty = DataLoader(TensorDataset(torch.empty(0, 2)))
    with pytest.raises(InputError, match=r"the loader is empty"):
        fit(mlp(1, inputs=2), empty, "gaussian")
    with pytest.raises(InputError, match=r"epochs must be a whole number of at least 1"):
        fit(mlp(1, inputs=2), loader(), "gaussian", epochs=0)


def test_tensorboard_is_written_every_update_and_epoch(monkeypatch, tmp_path):
    points = []

    class Writer:
        def __init__(self, folder):
            points.append(folder)

        def add_scalar(self, name, value, step):
            points.append((name, value, step))

        def close(self):
            points.append("closed")

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    board = TensorBoard(tmp_path)
    found = fit(
        mlp(1, inputs=2), loader(), "gaussian", epochs=2, cadence=CADENCE, curvature="kron", quiet=True,
        on_update=board.on_update, on_epoch=board.on_epoch,
    )  # fmt: skip
    board.close()
    last = found.history[-1]
    assert points[0] == str(tmp_path) and points[-1] == "closed"
    assert ("loss", found.losses[1], 2) in points and ("evidence", last.evidence, last.call) in points
    assert ("alpha/0.weight", last.alpha["0.weight"], last.call) in points
    assert ("gamma/2.bias", last.gamma["2.bias"], last.call) in points
    assert ("noise/0", last.beta[0] ** -0.5, last.call) in points


def test_without_tensorboard_its_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'online-laplace\[tensorboard\]'"):
        TensorBoard(tmp_path)
