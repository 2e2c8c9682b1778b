"""Every setting of the protocol, in one value that is recorded with every result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from online_laplace.curvature import STRUCTURES
from online_laplace.ensemble.architecture import Architecture
from online_laplace.ensemble.training import Plan
from online_laplace.errors import SettingError, known_name
from online_laplace.likelihood import Gaussian, Likelihood, VaryingGaussian
from online_laplace.memory import check_device
from online_laplace.model.precision import Structure
from online_laplace.train.adam import Adam

# The paper's schedule; a table it does not name gets the middle one.
ONLINE_STEPS = {"housing": 1000, "wine": 1000, "concrete": 2000, "energy": 30000, "yacht": 10000}
OTHER_STEPS = 2000

NOISES: dict[str, type[Gaussian] | type[VaryingGaussian]] = {"constant": Gaussian, "varying": VaryingGaussian}
MEMBER_WEIGHTS = ("equal", "evidence")
DTYPES = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class Specification:
    """The protocol of one experiment; the defaults are the paper's, and ours where it is silent."""

    hidden: tuple[int, ...] = (50,)
    activation: str = "tanh"
    prior: str = "scalar"
    noise: str = "constant"
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
    observations: int = 100

    def __post_init__(self) -> None:
        """Check every setting at the door, before anything is trained."""
        known_name("dtype", self.dtype, DTYPES)
        known_name("noise", self.noise, NOISES)
        known_name("curvature form", self.form, STRUCTURES)
        known_name("weighting of members", self.member_weights, MEMBER_WEIGHTS)
        positive = ("alpha", "beta", "offline_alpha", "offline_beta", "learning_rate")
        for name in (*positive, "learning_rate_decay"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise SettingError(name, f"must be a positive, finite number, not {value}")
        for name in ("offline_steps", "retrain_rounds", "members"):
            if getattr(self, name) < 1:
                raise SettingError(name, f"must be at least 1, not {getattr(self, name)}")
        if self.seed < 0:
            raise SettingError("seed", f"must not be negative, not {self.seed}")
        # An architecture and a plan check themselves.
        self.plan("", "ol")
        assert self.architecture
        check_device(self.device)

    @property
    def architecture(self) -> Architecture:
        """The network and its prior."""
        return Architecture(self.hidden, self.activation, self.prior)

    @property
    def likelihood(self) -> Likelihood:
        """Gaussian noise, constant or varying by row."""
        return NOISES[self.noise]()

    @property
    def curvature(self) -> Structure:
        """The structure that `form` names."""
        return STRUCTURES[self.form]

    def plan(self, table: str, procedure: str) -> Plan:
        """How a procedure trains on a table."""
        return Plan(
            procedure=procedure,
            optimiser=self.optimiser,
            steps=self.steps_for(table, procedure),
            tolerance=self.tolerance,
            observations=self.observations,
            keep=self.keep,
            adam=Adam(lr=self.learning_rate, decay=self.learning_rate_decay),
            rounds=self.retrain_rounds,
        )

    def initial_precisions(self, procedure: str) -> tuple[float, float]:
        """The α and β that a procedure starts from; offline training stays there."""
        offline = procedure == "offline"
        return (self.offline_alpha, self.offline_beta) if offline else (self.alpha, self.beta)

    def steps_for(self, table: str, procedure: str) -> int:
        """How many steps a procedure takes on a table: what was asked for, or the paper's number."""
        if self.steps is not None:
            return self.steps
        return self.offline_steps if procedure == "offline" else ONLINE_STEPS.get(table, OTHER_STEPS)

    def weight_seed(self, split: int, member: int = 0) -> int:
        """The seed of one network's first weights: its own for every split and member, never shared."""
        words = np.random.SeedSequence([self.seed, split, member]).generate_state(1)
        return int(words[0])

    def like(self) -> torch.Tensor:
        """An empty tensor of the asked-for dtype on the asked-for device."""
        return torch.empty(0, dtype=DTYPES[self.dtype], device=self.device)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)
