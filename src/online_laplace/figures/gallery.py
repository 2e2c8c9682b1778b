"""Which figures there are, what they are called, and what a reader is told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from online_laplace.figures import (
    convergence,
    evidence,
    evolution,
    scores,
    taylor,
    update,
    weights,
)
from online_laplace.figures.captions import WORDS, Words
from online_laplace.figures.picture import Picture
from online_laplace.files.atomic import write_bytes
from online_laplace.pages.charts import altair
from online_laplace.pages.still import pdf, png, still
from online_laplace.store.results import Results


class Drawn(NamedTuple):
    """A figure on disk, what is said of it, and the panels that it is made of."""

    name: str
    words: Words
    picture: Picture


class _Plan(NamedTuple):
    name: str
    draw: Callable[[Results], Picture | None]
    words: Words


def draw_all(results: Results, folder: Path) -> list[Drawn]:
    """Draw every figure as PNG and PDF into `folder`; those the results have no data for are left out.

    Raises MissingExtraError where there is nothing to draw with.
    """
    altair()
    drawn = []
    for plan in _plans(results):
        picture = plan.draw(results)
        if picture is not None:
            whole = still(picture.panels, picture.columns)
            write_bytes(folder / f"{plan.name}.png", png(whole))
            write_bytes(folder / f"{plan.name}.pdf", pdf(whole))
            drawn.append(Drawn(plan.name, plan.words, picture))
    return drawn


def _plans(results: Results) -> Iterator[_Plan]:
    """Every figure, in the order of the report."""
    first = results.tables[0]
    yield _Plan("taylor", taylor.draw, _words("taylor"))
    yield _Plan("evidence", evidence.draw, _words("evidence"))
    yield _Plan("weights", weights.draw, _words("weights", table=first))
    yield _Plan("convergence", convergence.draw, _words("convergence"))
    for name, score in scores.SCORES.items():
        words = _words("score", score=score[0].upper() + score[1:], splits=_splits(len(results.splits)))
        yield _Plan(name, partial(scores.draw, name=name), words)
    for table in results.tables:
        words = _words("evolution", table=table)
        yield _Plan(f"evolution_{table}", partial(evolution.draw, table=table), words)
    yield _Plan("update", update.draw, _words("update", table=first))


def _splits(count: int) -> str:
    return "of one split" if count == 1 else f"mean ± standard error over {count} splits"


def _words(name: str, **details: object) -> Words:
    return Words(*(text.format(**details) for text in WORDS[name]))
