"""Rows that several processes share: where their sums meet, and what is said when one of them has gone."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from online_laplace.errors import InputError, ProcessLostError
from online_laplace.types import Reduce, alone


def is_first() -> bool:
    """Whether this process is the one that writes for all; a process by itself is."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def check_meeting(model: nn.Module, reduce: Reduce) -> None:
    """Refuse a module whose processes share its gradients but not the sums over rows. Raises InputError."""
    if isinstance(model, DistributedDataParallel) and reduce is alone and dist.get_world_size() > 1:
        raise InputError(
            "the module is trained by several processes, each of which would learn precisions of its own "
            "from its own rows: give reduce=AllReduce() of online_laplace.modules"
        )


class AllReduce:
    """Turns a sum over the rows of this process into that over the rows of all: a `Reduce`.

    Every process must come to every sum. Where one has gone, the others get a ProcessLostError after the
    process group's own timeout at the latest.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        """Meet in `group`, by default all processes. Raises InputError where there is none."""
        if not dist.is_available() or not dist.is_initialized():
            raise InputError(
                "there is no process group: call torch.distributed.init_process_group first, as under "
                "torchrun, or leave reduce out"
            )
        self.group = group

    def __call__(self, total: Tensor) -> Tensor:
        """The sum over all processes, in memory of its own."""
        total = total.detach().clone(memory_format=torch.contiguous_format)
        try:
            dist.all_reduce(total, group=self.group)
        except RuntimeError as error:
            raise ProcessLostError(
                "another process has gone, or the network between them: "
                f"{str(error).splitlines()[0]}. This one's precisions are those of the last update; "
                "state_dict() is whole, and a new job goes on from it or from the last checkpoint"
            ) from error
        return total
