"""Two processes that share the rows: the numbers of one, and a clear end where one of them goes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from module_problems import inputs_for, mlp, targets
from online_laplace import OnlineLaplace
from online_laplace.errors import InputError
from online_laplace.modules import AllReduce
from process_ranks import CURVATURES, N, one_of_two, train


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left."""
    here = tmp_path_factory.mktemp("processes")
    mp.spawn(one_of_two, args=(str(here), free_port()), nprocs=2)
    return here


@pytest.mark.parametrize("mini", [False, True])
@pytest.mark.parametrize("curvature", CURVATURES)
def test_two_processes_give_the_numbers_of_one(folder, curvature, mini):
    alone_found = train(curvature, 0, 1, parallel=False, mini=mini)
    for rank in (0, 1):
        found = torch.load(folder / f"{rank}.pt", weights_only=True)
        for name, value in alone_found.items():
            torch.testing.assert_close(found[f"{curvature} {mini} {name}"], value, rtol=1e-9, atol=1e-9)


def test_a_process_that_goes_ends_the_others_with_a_clear_error_and_a_usable_checkpoint(folder):
    told = (folder / "told.txt").read_text()
    assert "another process has gone" in told and "state_dict() is whole" in told
    tuner = OnlineLaplace(mlp(2), "gaussian", n_data=N)
    tuner.load_state_dict(torch.load(folder / "checkpoint.pt", weights_only=True))
    x, y = inputs_for(tuner.model, N), targets("gaussian", N)
    assert tuner.update(x, y) is not None


def test_processes_that_share_gradients_must_share_sums(monkeypatch, tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    try:
        module = nn.parallel.DistributedDataParallel(mlp(2))
        OnlineLaplace(module, "gaussian", n_data=N)  # one process has all rows
        monkeypatch.setattr(dist, "get_world_size", lambda: 2)
        with pytest.raises(InputError, match=r"precisions of its own .*give reduce=AllReduce\(\)"):
            OnlineLaplace(module, "gaussian", n_data=N)
        OnlineLaplace(module, "gaussian", n_data=N, reduce=AllReduce())
        for curvature in ("matrix-free", "sampling", "subset"):
            with pytest.raises(InputError, match=r"for one process: leave reduce out, or use kron"):
                OnlineLaplace(module, "gaussian", n_data=N, reduce=AllReduce(), curvature=curvature)
    finally:
        dist.destroy_process_group()


def test_without_a_process_group_there_is_nowhere_to_meet():
    with pytest.raises(InputError, match=r"init_process_group first"):
        AllReduce()
