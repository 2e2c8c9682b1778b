"""Any torch module in its own training loop: mini-batches, structures of curvature, several processes."""

from __future__ import annotations

from online_laplace.model.tensor_prior import GPrior
from online_laplace.modules.cadence import Cadence
from online_laplace.modules.fit import Fitted, fit
from online_laplace.modules.posterior import ModulePosterior
from online_laplace.modules.processes import AllReduce
from online_laplace.modules.record import Update
from online_laplace.modules.tensorboard import TensorBoard
from online_laplace.modules.tuner import OnlineLaplace

__all__ = [
    "AllReduce",
    "Cadence",
    "Fitted",
    "GPrior",
    "ModulePosterior",
    "OnlineLaplace",
    "TensorBoard",
    "Update",
    "fit",
]
