"""Histograms of the weights w and of the tangent model's mean v* through training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from online_laplace.figures.methods import PROCEDURE_LABELS
from online_laplace.figures.picture import Picture, colour_of
from online_laplace.pages.charts import Chart, altair, rows
from online_laplace.protocol.profile import Unit
from online_laplace.store.results import Results
from online_laplace.style import ORANGE, SKY

_NAMES = {"w": SKY, "v*": ORANGE}
_BINS = 30


def draw(results: Results) -> Picture:
    """A row a procedure, a column a moment: the first table, its first split."""
    table = results.tables[0]
    panels, columns = [], 1
    for procedure in results.header["profile"]["procedures"]:
        arrays = results.arrays[Unit(table, procedure, 0)]
        moments = range(len(arrays["snapshot.step"]))
        columns = max(columns, len(moments))
        panels += [_histograms(PROCEDURE_LABELS[procedure], arrays, moment) for moment in moments]
    return Picture(panels, columns)


def _histograms(procedure: str, arrays: dict[str, NDArray[Any]], moment: int) -> Chart:
    alt = altair()
    values = dict(zip(_NAMES, (arrays["snapshot.w"][moment], arrays["snapshot.v_star"][moment]), strict=True))
    # A few far weights would press all others into one bar: the outermost bars hold what lies beyond.
    reach = float(np.quantile(np.abs(np.concatenate(list(values.values()))), 0.98)) or 1.0
    edges = np.linspace(-reach, reach, _BINS + 1)
    shares = [np.histogram(np.clip(v, -reach, reach), edges)[0] / len(v) for v in values.values()]
    data = rows(
        start=np.tile(edges[:-1], 2),
        end=np.tile(edges[1:], 2),
        share=np.concatenate(shares),
        label=[name for name in values for _ in range(_BINS)],
    )
    drawn = alt.Chart(data).mark_bar(opacity=0.6).encode(
        alt.X("start:Q", bin="binned", title="value of a weight", axis=alt.Axis(format=".3~g", tickCount=3)),
        alt.X2("end:Q"),
        alt.Y("share:Q", stack=None, title="share", axis=alt.Axis(format=".0%", tickCount=3)),
        colour_of(_NAMES),
        tooltip=["label:N", alt.Tooltip("start:Q", title="from", format=".3f"),
                 alt.Tooltip("end:Q", title="to", format=".3f"), alt.Tooltip("share:Q", format=".1%")],
    )  # fmt: skip
    step = int(arrays["snapshot.step"][moment])
    apart = float(np.linalg.norm(values["w"] - values["v*"]) / (np.linalg.norm(values["v*"]) or 1.0))
    spreads = " and ".join(f"{name} has standard deviation {v.std():.2g}" for name, v in values.items())
    words = f"{procedure} at step {step}: {spreads}; they are {apart:.2g} of the length of v* apart."
    return Chart(f"{procedure}, step {step}", "", words, drawn, height=130)
