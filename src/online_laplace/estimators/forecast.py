"""How long a fit will take and how much memory it needs, before it begins."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from online_laplace.memory import size_in_words
from online_laplace.pool.candidates import Candidate
from online_laplace.threads import one_thread_each

# A step is so many times the products of its curvature: measured as 3.1 to 4.0 over tables of 1,000 to 20,000
# rows and networks of 400 to 2,200 weights, observations included; 6 for 300 rows, where it takes no time.
STEPS_IN_PRODUCTS = 3.5
# Seconds that every fit takes, and those from which on a sample of rows is worth a word.
START = 1.0
LONG = 600.0
# What a sample is suggested for.
COMFORTABLE = 120.0
PROBE = 384


@dataclass(frozen=True)
class Forecast:
    """At most so many seconds and bytes; `sample` rows would take two minutes, None where it is little."""

    seconds: float
    bytes: int
    sample: int | None = None

    def __str__(self) -> str:
        """One line for the person who waits."""
        words = (
            f"training takes at most about {duration(self.seconds)} and {size_in_words(self.bytes)} of memory"
        )
        if self.sample is None:
            return words
        return f"{words}; a random sample of {self.sample:,} rows would take {duration(COMFORTABLE)}"


def forecast(estimator: Any, rows: int, features: int, targets: int = 1) -> Forecast | None:
    """What fitting this many rows will take.

    None on an accelerator, whose speed is not measured here, and for a pool, which times its first steps.
    """
    if not estimator._is_named:
        return None
    settings = estimator._settings()
    if torch.device(settings.device).type != "cpu":
        return None
    held = Candidate(settings.architecture).footprint(
        features, settings.target.likelihood_of(targets), settings.members
    )
    side_by_side = min(torch.get_num_threads(), settings.members)
    rate = products_per_second()

    def seconds(n: int) -> float:
        small, large = sorted((n * held.outputs, held.weights))
        work = STEPS_IN_PRODUCTS * settings.members * (small**2 * large + small**3)
        return START + settings.plan.steps * work / rate / side_by_side

    return Forecast(seconds(rows), held.bytes(rows), _sample(rows, seconds) if seconds(rows) > LONG else None)


def products_per_second() -> float:
    """Multiply-adds a second of one thread, measured in some milliseconds on a product of matrices."""
    with one_thread_each():
        A = torch.ones(PROBE, PROBE, dtype=torch.float64)
        times = []
        for _ in range(3):
            start = time.perf_counter()
            A @ A
            times.append(time.perf_counter() - start)
    return float(PROBE**3 / max(min(times), 1e-9))


def duration(seconds: float) -> str:
    """A time as a person says it: 40 seconds, 5 minutes, 3 hours."""
    if seconds < 90:
        return _count(max(1, _rounded(seconds)), "second")
    if seconds < 90 * 60:
        return _count(_rounded(seconds / 60), "minute")
    return (
        _count(_rounded(seconds / 3600), "hour")
        if seconds < 48 * 3600
        else _count(_rounded(seconds / 86400), "day")
    )


def _sample(rows: int, seconds: Any) -> int | None:
    """The largest round number of rows that takes a comfortable time; None where even few take longer."""
    for zeros in range(len(str(rows)), 1, -1):
        for digit in (5, 2, 1):
            n = digit * 10**zeros
            if n < rows and seconds(n) <= COMFORTABLE:
                return n
    return None


def _rounded(value: float) -> int:
    """To one digit below a hundred, two above: an estimate has no more."""
    return int(round(value) if value < 10 else round(value, -1) if value < 100 else round(value, -2))


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
