"""A batch saved on disk while it trains, together with the snapshots taken on the way."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from torch import Tensor

from online_laplace.data import Table
from online_laplace.files.sealed import DamagedFileError, read_arrays, write_arrays
from online_laplace.protocol import snapshots
from online_laplace.protocol.profile import Batch
from online_laplace.protocol.runner import prepare
from online_laplace.protocol.specification import Specification
from online_laplace.store.store import Store
from online_laplace.train.checkpoint import Arrays, pack
from online_laplace.train.history import History
from online_laplace.train.loop import State

# How the names of snapshots begin, beside the state and the history of the run itself.
_TAKEN = ("snapshot.", "update.")


@dataclass
class BatchCheckpoint:
    """Saves a batch in its store at most once every `pause` seconds.

    Where a run was interrupted decides only which observations are repeated, never what they show.
    """

    store: Store
    batch: Batch
    table: Table
    spec: Specification
    pause: float = 5.0
    taken: dict[str, Tensor] = field(default_factory=dict)
    seconds_before: float = 0.0
    _last: State | None = None
    _saved_at: float = -math.inf
    _began_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Choose the moments of the snapshots."""
        plan = self.spec.plan(self.batch.table, self.batch.procedure)
        self._moments = snapshots.on_grid(snapshots.MOMENTS, plan.steps, plan.observe_every)
        self._updates = snapshots.on_grid(snapshots.UPDATES, plan.steps, plan.observe_every)
        self._model, data = prepare(self.table, self.batch.procedure, self.batch.splits, self.spec)
        self._rows = data.train

    @property
    def seconds(self) -> float:
        """How long the batch has trained, earlier attempts included."""
        return self.seconds_before + time.monotonic() - self._began_at

    def load(self) -> Arrays | None:
        """What an earlier attempt left; None, and a note, if it cannot be used."""
        path = self.store.checkpoint_path(self.batch)
        if not path.exists():
            return None
        try:
            arrays, about = read_arrays(path)
            if {**about, "seconds": 0} != self._about(0):
                raise DamagedFileError("it belongs to another run")
        except DamagedFileError as error:
            self.store.set_aside(path, str(error))
            return None
        self.seconds_before = about["seconds"]
        self.taken = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_TAKEN)}
        return arrays

    def save(self, state: State, history: History) -> None:
        """Take the snapshots that are due, then save all of it."""
        # A run that was just resumed stands where its last attempt took its snapshot already.
        if state.step not in self._steps("snapshot.step"):
            self._snapshot(state)
        self._last = state
        if time.monotonic() - self._saved_at >= self.pause:
            arrays = {**pack(state, history), **self.taken}
            write_arrays(self.store.checkpoint_path(self.batch), arrays, self._about(self.seconds))
            self._saved_at = time.monotonic()

    def finish(self) -> dict[str, Tensor]:
        """All snapshots; of a run that ended before its last step, also one where it ended."""
        if self._last is not None and self._last.step not in self._steps("snapshot.step"):
            self._take_weights(self._last)
        return self.taken

    def discard(self) -> None:
        """Forget a batch whose results are stored."""
        self.store.checkpoint_path(self.batch).unlink(missing_ok=True)

    def _snapshot(self, state: State) -> None:
        if state.step in self._moments:
            self._take_weights(state)
        if state.step in self._updates and self.batch.procedure != "offline" and state.hyper.scalar:
            taken = snapshots.take_update(self._model, self._rows, state.w, state.hyper, state.step)
            self.taken = snapshots.join(self.taken, taken)

    def _take_weights(self, state: State) -> None:
        taken = snapshots.take_weights(self._model, self._rows, state.w, state.hyper, state.step)
        self.taken = snapshots.join(self.taken, taken)

    def _steps(self, name: str) -> list[int]:
        steps: list[int] = self.taken[name][0].tolist() if name in self.taken else []
        return steps

    def _about(self, seconds: float) -> dict[str, object]:
        run, batch = self.store.header["run"], self.batch
        return {
            "run": run,
            "table": batch.table,
            "procedure": batch.procedure,
            "splits": list(batch.splits),
            "seconds": seconds,
        }
