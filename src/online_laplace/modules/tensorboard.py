"""Updates of the precisions as curves in TensorBoard: an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from online_laplace.errors import MissingExtraError
from online_laplace.modules.record import Update


class TensorBoard:
    """Writes what `fit` tells of a run: `fit(…, on_update=board.on_update, on_epoch=board.on_epoch)`.

    In a loop of one's own, `board.on_update(tuner.last)`. α and γ are written by group, the noise as its
    standard deviation, the evidence, and the loss per row by epoch.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open a run in this folder. Raises MissingExtraError without the package tensorboard."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("tensorboard", "tensorboard") from error
        self.writer: Any = SummaryWriter(str(folder))

    def on_update(self, done: Update) -> None:
        """One point of every curve, at the number of the call."""
        self.writer.add_scalar("evidence", done.evidence, done.call)
        for what, values in (("alpha", done.alpha), ("gamma", done.gamma)):
            for name, value in values.items():
                self.writer.add_scalar(f"{what}/{name}", value, done.call)
        for number, beta in enumerate(done.beta):
            self.writer.add_scalar(f"noise/{number}", beta**-0.5, done.call)

    def on_epoch(self, epoch: int, loss: float) -> None:
        """The loss per row."""
        self.writer.add_scalar("loss", loss, epoch)

    def close(self) -> None:
        """Write what is left."""
        self.writer.close()
