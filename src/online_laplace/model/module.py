"""Any torch module as a network: flat weights through functional_call, Jacobians through torch.func."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property, partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from online_laplace.model.jacobian import DenseJacobian
from online_laplace.model.network import TensorSlot, slots


class ModuleNetwork:
    """A torch module f: (n, d_x) → (n, k) whose rows do not interact.

    The module itself is never changed; its parameters only give the shapes and, through `init`, a start. It
    is taken in eval mode, in which a function has one value: dropout lets everything pass, and normalisation
    uses the statistics that the module came with.
    """

    def __init__(self, module: nn.Module, d_out: int) -> None:
        """Wrap `module`, which maps (n, …) inputs to (n, d_out) outputs."""
        self.module = copy.deepcopy(module).double().cpu().eval()
        self.d_out = d_out

    @property
    def recordable(self) -> bool:
        """Nobody knows: a module may do anything."""
        return False

    @cached_property
    def tensors(self) -> tuple[TensorSlot, ...]:
        """The module's parameters in the order in which it names them."""
        return slots([(name, tuple(p.shape)) for name, p in self.module.named_parameters()])

    @property
    def d_w(self) -> int:
        return self.tensors[-1].stop

    def init(self, seed: int) -> Tensor:
        """The weights the module's own `reset_parameters` methods draw under `seed`. Shape (d_w,)."""
        module = copy.deepcopy(self.module)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for part in module.modules():
                if callable(reset := getattr(part, "reset_parameters", None)):
                    reset()
        return nn.utils.parameters_to_vector(module.parameters()).detach()

    def _buffers(self, like: Tensor) -> dict[str, Tensor]:
        """The module's buffers where the weights are, in their dtype if they are real numbers."""
        return {
            name: buffer.to(like) if buffer.is_floating_point() else buffer.to(like.device)
            for name, buffer in self.module.named_buffers()
        }

    def _rows(self, w: Tensor, X: Tensor) -> Tensor:
        """One replica's outputs: (d_w,) and (n, d_x) → (n, k)."""
        values = {slot.name: slot.read(w) for slot in self.tensors} | self._buffers(w)
        outputs: Tensor = functional_call(self.module, values, (X,))
        return outputs

    def _row_jacobian(self, w: Tensor, X: Tensor) -> Tensor:
        """One replica's J (n, k, d_w): reverse mode, row by row under vmap."""

        def row(v: Tensor, x: Tensor) -> Tensor:
            return self._rows(v, x.unsqueeze(0)).squeeze(0)

        return vmap(jacrev(row), in_dims=(None, 0))(w, X)

    def forward(self, w: Tensor, X: Tensor) -> Tensor:
        return _per_replica(self._rows, w, X)

    def linearise(self, w: Tensor, X: Tensor) -> tuple[Tensor, DenseJacobian]:
        return self.forward(w, X), DenseJacobian(_per_replica(self._row_jacobian, w, X))


def _per_replica(function: Callable[[Tensor, Tensor], Tensor], w: Tensor, X: Tensor) -> Tensor:
    """Apply a one-replica function along the leading axes of w, and of X where X has them too."""
    if w.ndim == 1:
        return function(w, X)
    return vmap(partial(_per_replica, function), in_dims=(0, 0 if X.ndim > 2 else None))(w, X)
