"""What a person sees while a pool is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from online_laplace.estimators.forecast import duration
from online_laplace.memory import size_in_words
from online_laplace.pool.budget import Estimate
from online_laplace.pool.candidates import AnyCandidate
from online_laplace.pool.pool import Watching
from online_laplace.pool.weighting import Entry
from online_laplace.progress import Bar, Bars, say


class PoolBars:
    """A line of what it will take, and a bar for every candidate, with its score once that is known."""

    def __init__(self, bars: Bars) -> None:
        """Nothing is shown before there is something to say."""
        self._bars = bars
        self._lines: dict[AnyCandidate, Bar] = {}
        self._refit: Bar | None = None

    def on_start(
        self, candidates: Sequence[AnyCandidate], lengths: Sequence[int], estimate: Estimate
    ) -> None:
        """Say what is to come."""
        several = f"{len(candidates)} candidate{'' if len(candidates) == 1 else 's'}"
        took, memory = duration(estimate.seconds), size_in_words(estimate.bytes)
        say(f"{several}, at most about {took} and {memory} of memory")
        for candidate in candidates:
            steps = lengths[-1] if candidate.is_network else lengths[0]
            self._lines[candidate] = self._bars.add(str(candidate), steps)

    def on_step(self, candidate: AnyCandidate, step: int) -> None:
        """A group of members has come so far."""
        self._lines[candidate].update(step)

    def on_stage(self, entries: list[Entry], going_on: bool) -> None:
        """Show the best that a candidate has come to; where it is not trained longer, its bar is full."""
        if not entries:
            return
        best = max(entries, key=lambda entry: entry.score)
        bar, step = self._lines[best.candidate], entries[-1].stage.length
        bar.update(
            step if going_on else bar.total, f"{best.score:.3f} out of fold after {best.stage.length} steps"
        )

    def on_refit(self, done: int, of: int) -> None:
        """One more bar, for what was chosen and is trained on all rows."""
        if self._refit is None:
            self._refit = self._bars.add("the chosen, on all rows", of)
        self._refit.update(done)


@contextmanager
def watched_pool(shown: bool) -> Iterator[Watching | None]:
    """Bars on stderr, if they are to be shown."""
    if not shown:
        yield None
        return
    with Bars() as bars:
        yield PoolBars(bars)
