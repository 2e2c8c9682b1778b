"""Which figures there are, what they are called, and what a reader is told of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
from online_laplace.files.atomic import write_bytes
from online_laplace.store.results import Results
from online_laplace.style import house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawn(NamedTuple):
    """A figure on disk, and what is said of it."""

    name: str
    words: Words
    png: bytes


class _Plan(NamedTuple):
    name: str
    draw: Callable[[Results], Figure | None]
    words: Words


def draw_all(results: Results, folder: Path) -> list[Drawn]:
    """Draw every figure as PNG and PDF into `folder`; those the results have no data for are left out."""
    drawn = []
    with house_style():
        for plan in _plans(results):
            figure = plan.draw(results)
            if figure is not None:
                # Laid out once and for all: it costs more than drawing, and each format would do it again.
                figure.draw_without_rendering()
                figure.set_layout_engine("none")
                png = _bytes(figure, "png")
                write_bytes(folder / f"{plan.name}.png", png)
                write_bytes(folder / f"{plan.name}.pdf", _bytes(figure, "pdf"))
                drawn.append(Drawn(plan.name, plan.words, png))
    return drawn


def _bytes(figure: Figure, kind: str) -> bytes:
    content = io.BytesIO()
    # No date inside: the same results give the same file.
    metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    figure.savefig(content, format=kind, metadata=metadata)
    return content.getvalue() if kind == "pdf" else _palette(content)


def _palette(png: io.BytesIO) -> bytes:
    """The same picture in 256 colours: a quarter of the size, and no difference to see."""
    from PIL import Image

    smaller = io.BytesIO()
    Image.open(png).convert("RGB").quantize(256).save(smaller, format="png", optimize=True)
    return smaller.getvalue()


def _plans(results: Results) -> Iterator[_Plan]:
    """Every figure, in the order of the report."""
    first = results.tables[0]
    yield _Plan("taylor", taylor.draw, _words("taylor"))
    yield _Plan("evidence", evidence.draw, _words("evidence"))
    yield _Plan("weights", weights.draw, _words("weights", table=first))
    yield _Plan("convergence", convergence.draw, _words("convergence"))
    for name, score in scores.SCORES.items():
        words = _words("score", score=score[0].upper() + score[1:], splits=len(results.splits))
        yield _Plan(name, partial(scores.draw, name=name), words)
    for table in results.tables:
        words = _words("evolution", table=table)
        yield _Plan(f"evolution_{table}", partial(evolution.draw, table=table), words)
    yield _Plan("update", update.draw, _words("update", table=first))


def _words(name: str, **details: object) -> Words:
    return Words(*(text.format(**details) for text in WORDS[name]))
