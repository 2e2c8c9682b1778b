"""What each of two processes does, in a module that a new process can import."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from module_problems import batches, inputs_for, mlp, targets
from online_laplace import OnlineLaplace
from online_laplace.errors import ProcessLostError
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
