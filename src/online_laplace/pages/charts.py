"""Interactive charts: Vega-Lite, written with Altair, its JavaScript taken from vl-convert and no network."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from online_laplace.errors import MissingExtraError
from online_laplace.pages.words import wrapped

# One look for light and dark: ink is the page's own colour, so that no chart has to know which it is.
INK = "currentColor"
CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "tickColor": INK,
        "domainColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.12,
        "domainOpacity": 0.5,
        "tickOpacity": 0.5,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelOverlap": True,
        "tickCount": 5,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 12,
        "orient": "top",
        "direction": "horizontal",
        # Several legends one below the other: side by side they would be wider than a narrow chart.
        "layout": {"top": {"direction": "vertical", "anchor": "start"}},
        "labelLimit": 240,
        "title": None,
        "symbolOpacity": 1,
        "symbolStrokeWidth": 3,
    },
    "text": {"color": INK},
}


def altair() -> Any:
    """The module. Raises MissingExtraError where it, or what writes its charts into pages, is not there."""
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("altair", "pages") from error
    return altair


def javascript() -> str:
    """Everything that draws charts in a browser: Vega, Vega-Lite and vega-embed in one script."""
    version = vega_lite_version()
    import vl_convert

    # What is bundled by default; its annotation knows only of code to be bundled along.
    bundled: Any = vl_convert.javascript_bundle
    return str(bundled(vl_version=version))


def vega_lite_version() -> str:
    """The version that Altair writes for, as vl-convert names it."""
    return ".".join(altair().SCHEMA_VERSION.removeprefix("v").split(".")[:2])


@dataclass(frozen=True)
class Chart:
    """A chart with what is said of it: to all in the caption, in `alt` to those who cannot see it."""

    title: str
    caption: str
    alt: str
    drawing: Any  # an Altair chart
    table: tuple[list[str], list[list[str]]] | None = None  # its numbers: the names of columns, and the rows
    height: int = 280

    def specification(self) -> str:
        """The chart as JSON that can stand inside a script element."""
        drawn = self.drawing.properties(width="container", height=self.height, description=self.alt)
        value = drawn.to_dict()
        value["config"] = CONFIG
        value["autosize"] = {"type": "fit-x", "contains": "padding"}
        # "<" inside a string would be able to end the element.
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace(
            "<", "\\u003c"
        )


def rows(**columns: Any) -> Any:
    """Columns of equal length as a chart's data; numbers to six digits, null for what is not finite."""
    names = list(columns)
    values = [dict(zip(names, map(_plain, row), strict=True)) for row in zip(*columns.values(), strict=True)]
    return altair().InlineData(values=values)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if value is None or isinstance(value, (str, bool, int)):
        return value
    number = float(f"{float(value):.6g}")
    return number if number - number == 0 else None


def legend_of(labels: Iterable[str]) -> Any:
    """A legend with as many columns as even the narrowest chart has room for."""
    longest = max(len(label) for label in labels)
    return altair().Legend(columns=max(1, 260 // (34 + 7 * longest)))


def axis_title(*names: str) -> list[str]:
    """A title of any length, as lines that an axis has room for."""
    return wrapped(" ".join(name for name in names if name))
