"""The Axes that a picture is drawn on, in the style of the house."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from online_laplace.style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plain(name: object) -> str:
    """A name as it is: matplotlib would take what stands between dollar signs for a formula."""
    return str(name).replace("$", r"\$")


@contextmanager
def drawing_on(ax: Axes | None) -> Iterator[Axes]:
    """Yield `ax`, or a new one that pyplot will show. Raises MissingExtraError without matplotlib."""
    with house_style():
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots()
        yield ax
