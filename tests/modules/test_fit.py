"""The loop that is done for you: it trains, reports, stops with an outcome, and goes on from a checkpoint."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from module_problems import mlp
from online_laplace.errors import InputError, MissingExtraError
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
