"""Charts as pictures in a file: PNG and PDF, drawn without a browser."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from online_laplace.pages.charts import CONFIG, Chart, altair, vega_lite_version

_PANEL_WIDTH = 190
_ONE_WIDTH = 420


def still(panels: Sequence[Chart], columns: int) -> dict[str, Any]:
    """The Vega-Lite of one picture with all panels, in black on white."""
    alt = altair()
    width = _ONE_WIDTH if len(panels) == 1 else _PANEL_WIDTH
    drawn = [
        panel.drawing.properties(
            width=width, height=panel.height * 0.85, title=panel.title if len(panels) > 1 else ""
        )
        for panel in panels
    ]
    whole = _without_columns(alt.concat(*drawn, columns=columns, spacing=18).to_dict())
    look = _black(CONFIG)
    look["legend"] |= {"columns": 6, "layout": {"top": {"direction": "horizontal", "anchor": "start"}}}
    title = {"fontSize": 13, "fontWeight": "normal"}
    whole["config"] = {**look, "background": "white", "font": "sans-serif", "title": title}
    return whole


def _without_columns(value: Any) -> Any:
    """Legends as wide as the picture."""
    if isinstance(value, list):
        return [_without_columns(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_columns(inner) for key, inner in value.items()}
    if isinstance(kept.get("legend"), dict):
        kept["legend"].pop("columns", None)
    return kept


def _black(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _black(inner) for key, inner in value.items()}
    return "#1d1d1f" if value == "currentColor" else value


def png(picture: dict[str, Any]) -> bytes:
    """Sharp on a fine screen, in 256 colours: a tenth of the size, and no difference to see."""
    import vl_convert
    from PIL import Image

    drawn = vl_convert.vegalite_to_png(picture, vl_version=vega_lite_version(), scale=1.6)
    smaller = io.BytesIO()
    Image.open(io.BytesIO(drawn)).convert("RGB").quantize(256).save(smaller, format="png", optimize=True)
    return smaller.getvalue()


def pdf(picture: dict[str, Any]) -> bytes:
    """Lines and letters that can be enlarged."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_pdf(picture, vl_version=vega_lite_version()))
