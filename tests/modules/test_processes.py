"""Two processes that share the rows: the numbers of one, and a clear end where one of them goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from module_problems import batches, inputs_for, mlp, targets
from online_laplace import OnlineLaplace
from online_laplace.errors import InputError, ProcessLostError
from online_laplace.modules import AllReduce, Cadence
from online_laplace.types import alone

N = 24
CURVATURES = ("full", "diagonal", "kron", "last-layer")


def train(curvature: str, rank: int, size: int, *, parallel: bool, reduce=alone, mini: bool) -> dict:
    """Some steps on this process's rows; the precisions and the predictive variance at the end."""
    module = mlp(2)
    cadence = Cadence(every=1, decay=0.5, refresh=2) if mini else None
    tuner = OnlineLaplace(
        DistributedDataParallel(module) if parallel else module,
        "gaussian", n_data=N, curvature=curvature, probes=None, reduce=reduce, cadence=cadence,
    )  # fmt: skip
    x, y = inputs_for(module, N), targets("gaussian", N)
    parts = batches(x, y, N // 3) if mini else [(x, y)]
    optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(2):
        for a, b in parts:
            mine = slice(rank * len(a) // size, (rank + 1) * len(a) // size)
            optimiser.zero_grad()
            tuner.loss(a[mine], b[mine]).backward()
            optimiser.step()
            tuner.update(a[mine], b[mine])
    posterior = tuner.posterior([(x[rank::size], y[rank::size])])
    return {
        "alpha": tuner.hyper.alpha,
        "beta": tuner.beta,
        "evidence": torch.tensor(tuner.last.evidence),
        "variance": posterior.predict(x[:3]).variance,
    }


def one_of_two(rank: int, folder: str, port: int) -> None:
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    found = {
        f"{curvature} {mini} {name}": value
        for curvature in CURVATURES
        for mini in (False, True)
        for name, value in train(curvature, rank, 2, parallel=True, reduce=AllReduce(), mini=mini).items()
    }
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.barrier()
    # The second process goes; the first one is told, and what it has learnt can be used.
    if rank == 1:
        os._exit(0)
    module = mlp(2)
    x, y = inputs_for(module, N), targets("gaussian", N)
    tuner = OnlineLaplace(module, "gaussian", n_data=N, reduce=AllReduce(), cadence=Cadence(every=1))
    before = tuner.state_dict()
    try:
        tuner.update(x[:12], y[:12])
    except ProcessLostError as error:
        after = tuner.state_dict()
        assert torch.equal(before["alpha"], after["alpha"])
        torch.save(after, Path(folder) / "checkpoint.pt")
        (Path(folder) / "told.txt").write_text(str(error))
    os._exit(0)  # a process group that has lost a member cannot be taken down in order


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


def test_without_a_process_group_there_is_nowhere_to_meet():
    with pytest.raises(InputError, match=r"init_process_group first"):
        AllReduce()
