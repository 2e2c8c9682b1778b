"""What a person sees while a pool is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from online_laplace.pool.candidates import Candidate
from online_laplace.pool.pool import Entry, Estimate, Watching
from online_laplace.progress import Bar, Bars, say


class PoolBars:
    """A line of what it will take, and a bar for every candidate, with its score once that is known."""

    def __init__(self, bars: Bars) -> None:
        """Nothing is shown before there is something to say."""
        self._bars = bars
        self._lines: dict[Candidate, Bar] = {}

    def on_start(self, candidates: Sequence[Candidate], lengths: Sequence[int], estimate: Estimate) -> None:
        """Say what is to come."""
        seconds = estimate.seconds
        took = f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
        say(f"{len(candidates)} candidates, about {took} and {estimate.bytes / 2**30:.1f} GiB of memory")
        for candidate in candidates:
            steps = lengths[-1] if candidate.is_network else lengths[0]
            self._lines[candidate] = self._bars.add(str(candidate), steps)

    def on_step(self, candidate: Candidate, step: int) -> None:
        """A group of members has come so far."""
        self._lines[candidate].update(step)

    def on_candidate(self, entries: list[Entry]) -> None:
        """Show the best that a candidate came to."""
        best = max(entries, key=lambda entry: entry.score)
        bar = self._lines[best.candidate]
        bar.update(bar.total, f"{best.score:.3f} out of fold after {best.stage.length} steps")


@contextmanager
def watched_pool(shown: bool) -> Iterator[Watching | None]:
    """Bars on stderr, if they are to be shown."""
    if not shown:
        yield None
        return
    with Bars() as bars:
        yield PoolBars(bars)
