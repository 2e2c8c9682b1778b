"""A user's module as a function of its trainable parameters: looked at, never changed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel

from online_laplace.errors import InputError
from online_laplace.model.network import TensorSlot, slots
from online_laplace.modules.batch import Inputs, arguments, row_count

Values = dict[str, Tensor]


class ModuleView:
    """The trainable parameters of a module, some of them where `names` are given, as flat weights.

    What it computes goes through a copy of the module that holds no numbers, in eval mode, in which a
    function has one value: dropout lets everything pass, and normalisation uses the buffers. Parameters and
    buffers are read from the user's module whenever `values` is called; hooks are put on the copy alone.
    """

    def __init__(self, module: nn.Module, names: Sequence[str] | None = None) -> None:
        """Look at `module`, through the wrappers of torch."""
        self.module = unwrapped(module)
        trainable = [name for name, p in self.module.named_parameters() if p.requires_grad]
        self.names = [name for name in trainable if names is None or name in names]
        self.trainable = trainable
        self.kinds = [(p.dtype, p.device) for p in self.parameters]
        self.shadow = _shadow(self.module)
        # What torch has turned out to be able to do through this module: see `rows.py`.
        self.way, self.one_by_one = 0, False

    @cached_property
    def parameters(self) -> list[nn.Parameter]:
        """The user's own parameters, in the order of the flat weights."""
        found = dict(self.module.named_parameters())
        return [found[name] for name in self.names]

    @cached_property
    def tensors(self) -> tuple[TensorSlot, ...]:
        """Where each parameter lies in the flat weights."""
        return slots([(n, tuple(p.shape)) for n, p in zip(self.names, self.parameters, strict=True)])

    @property
    def d_w(self) -> int:
        """How many weights there are."""
        return self.tensors[-1].stop

    @property
    def lengths(self) -> list[int]:
        """How many weights each parameter has."""
        return [slot.size for slot in self.tensors]

    def values(self) -> Values:
        """All parameters and buffers of the user's module as they are now, not copied."""
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        return {name: tensor.detach() for name, tensor in named}

    def snapshot(self) -> Values:
        """The same as copies, which stay as they are."""
        return {name: tensor.clone() for name, tensor in self.values().items()}

    def flat(self, values: Values) -> Tensor:
        """The weights as one vector: (d_w,)."""
        return torch.cat([values[name].reshape(-1) for name in self.names])

    def unflatten(self, w: Tensor) -> Values:
        """A vector (d_w,) as tensors by name."""
        return {slot.name: slot.read(w) for slot in self.tensors}

    def outputs(self, values: Values, X: Inputs) -> Tensor:
        """f (n, k) in eval mode. Raises InputError for outputs of another shape."""
        positional, named = arguments(X)
        f = functional_call(self.shadow, values, positional, named)
        return checked_outputs(f, row_count(X)).to(values[self.names[0]].dtype)

    def check_unchanged(self) -> None:
        """Refuse a module whose trainable parameters are no longer those it was looked at with."""
        found = dict(self.module.named_parameters())
        now = [name for name, p in found.items() if p.requires_grad]
        replaced = [n for n, p in zip(self.names, self.parameters, strict=True) if found.get(n) is not p]
        if now != self.trainable or replaced:
            changed = sorted(set(now) ^ set(self.trainable)) or replaced
            raise InputError(
                f"the trainable parameters of the module have changed ({', '.join(changed[:3])}): make a new "
                "OnlineLaplace after freezing, unfreezing or replacing layers"
            )
        for name, p, (dtype, device) in zip(self.names, self.parameters, self.kinds, strict=True):
            if (p.dtype, p.device) != (dtype, device):
                raise InputError(
                    f"{name} was {dtype} on {device} and is {p.dtype} on {p.device} now: make a new "
                    "OnlineLaplace after module.to(…), double() or float(); it can load this one's state_dict"
                )


def unwrapped(module: nn.Module) -> nn.Module:
    """The user's own module inside DistributedDataParallel, DataParallel and torch.compile."""
    while True:
        if isinstance(module, (DistributedDataParallel, nn.DataParallel)):
            module = module.module
        elif isinstance(inner := getattr(module, "_orig_mod", None), nn.Module):
            module = inner
        else:
            return module


def checked_outputs(f: object, rows: int) -> Tensor:
    """The outputs of a module, if they are (rows, outputs). Raises InputError."""
    if not isinstance(f, Tensor):
        raise InputError(
            f"the module returns {type(f).__name__}: wrap it in one that returns a tensor (rows, outputs)"
        )
    if not f.is_floating_point():
        raise InputError(
            f"the module returns {f.dtype}: outputs must be real numbers, of which there are gradients"
        )
    if f.ndim != 2 or f.shape[0] != rows:
        raise InputError(
            f"the module must return (rows, outputs), with {rows} rows here, but returned {tuple(f.shape)}: "
            "flatten or average what a row has beyond its outputs inside the module"
        )
    return f


def _shadow(module: nn.Module) -> nn.Module:
    """A copy in eval mode whose parameters and buffers are shapes on the meta device; ties are kept."""
    memo: dict[int, object] = {}
    for parameter in module.parameters():
        empty = torch.empty_like(parameter, device="meta", requires_grad=False)
        memo[id(parameter)] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    try:
        shadow: nn.Module = copy.deepcopy(module, memo)
    except Exception as error:  # a module may hold anything: files, locks, tensors with a history
        raise InputError(
            f"{type(module).__name__} cannot be copied by copy.deepcopy, which is needed to leave it as it "
            f"is: {error}"
        ) from error
    for part in shadow.modules():
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag)):
            part.sparse = False  # sparse gradients are for the optimiser; sums of squares are not sparse
        # The user's own hooks are about the user's own calls.
        part._forward_hooks.clear()
        part._forward_pre_hooks.clear()
        part._backward_hooks.clear()
    return shadow.eval()
