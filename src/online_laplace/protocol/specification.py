"""Every setting of the protocol, in one value that is recorded with every result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from online_laplace.curvature import FORMS
from online_laplace.errors import InputError, known_name
from online_laplace.hyper.prior import STRUCTURES
from online_laplace.model.activations import ACTIVATIONS
from online_laplace.train.adam import Adam
from online_laplace.train.procedures import OPTIMISERS
from online_laplace.train.trajectory import KEEP

# The paper's schedule; a table it does not name gets the middle one.
ONLINE_STEPS = {"housing": 1000, "wine": 1000, "concrete": 2000, "energy": 30000, "yacht": 10000}
OTHER_STEPS = 2000

MEMBER_WEIGHTS = ("equal", "evidence")
DTYPES = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class Specification:
    """The protocol of one experiment; the defaults are the paper's, and ours where it is silent."""

    hidden: tuple[int, ...] = (50,)
    activation: str = "tanh"
    prior: str = "scalar"
    alpha: float = 1.0
    beta: float = 1.0
    optimiser: str = "adam"
    keep: str = "last"
    members: int = 1
    member_weights: str = "equal"
    learning_rate: float = 0.01
    learning_rate_decay: float = 0.9999
    steps: int | None = None
    tolerance: float = 1e-6
    offline_alpha: float = 0.1
    offline_beta: float = 1.0
    offline_steps: int = 30000
    retrain_rounds: int = 10
    validation_fraction: float = 0.1
    test_fraction: float = 0.1
    split_seed: int = 1
    seed: int = 0
    dtype: str = "float64"
    device: str = "cpu"
    form: str = "auto"
    looks: int = 100

    def __post_init__(self) -> None:
        """Check every setting at the door, before anything is trained."""
        known_name("activation", self.activation, ACTIVATIONS)
        known_name("prior", self.prior, STRUCTURES)
        known_name("dtype", self.dtype, DTYPES)
        known_name("curvature form", self.form, FORMS)
        known_name("optimiser", self.optimiser, OPTIMISERS)
        known_name("choice of what to keep", self.keep, KEEP)
        known_name("weighting of members", self.member_weights, MEMBER_WEIGHTS)
        if any(width < 1 for width in self.hidden):
            raise InputError(f"every hidden layer needs at least one unit, not {self.hidden}")
        positive = ("alpha", "beta", "offline_alpha", "offline_beta", "learning_rate")
        for name in (*positive, "learning_rate_decay"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise InputError(f"{name} must be a positive, finite number, not {value}")
        if not self.tolerance >= 0:
            raise InputError(f"tolerance must be zero or positive, not {self.tolerance}")
        for name in ("offline_steps", "retrain_rounds", "looks", "members"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.steps is not None and self.steps < 1:
            raise InputError(f"steps must be at least 1, not {self.steps}")
        if self.seed < 0:
            raise InputError(f"seed must not be negative, not {self.seed}")
        check_device(self.device)

    def steps_for(self, table: str, procedure: str) -> int:
        """How many steps a procedure takes on a table: what was asked for, or the paper's number."""
        if self.steps is not None:
            return self.steps
        return self.offline_steps if procedure == "offline" else ONLINE_STEPS.get(table, OTHER_STEPS)

    def weight_seed(self, split: int, member: int = 0) -> int:
        """The seed of one network's first weights: its own for every split and member, never shared."""
        words = np.random.SeedSequence([self.seed, split, member]).generate_state(1)
        return int(words[0])

    @property
    def adam(self) -> Adam:
        """Adam at these rates."""
        return Adam(lr=self.learning_rate, decay=self.learning_rate_decay)

    def like(self) -> torch.Tensor:
        """An empty tensor of the asked-for dtype on the asked-for device."""
        return torch.empty(0, dtype=DTYPES[self.dtype], device=self.device)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)


def check_device(device: str) -> None:
    """Raise InputError for a device this machine or this torch does not have."""
    try:
        torch.ones(1, device=device).item()  # "meta" makes tensors but holds no numbers
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"device {device!r} cannot be used here: {reason}") from error
