"""Test and train scores by table and method."""

from __future__ import annotations

from online_laplace.figures.methods import COLOURS, MARKERS
from online_laplace.figures.picture import Picture
from online_laplace.pages.charts import Chart, altair, legend_of, rows
from online_laplace.pages.words import FOUR_DIGITS
from online_laplace.store.results import Results

SCORES = {
    "test_log_likelihood": "test log-likelihood",
    "test_rmse": "test RMSE",
    "train_log_likelihood": "train log-likelihood",
    "train_rmse": "train RMSE",
}


def draw(results: Results, name: str) -> Picture:
    """A panel a table, a point with a bar a method: mean ± standard error over splits."""
    return Picture([_panel(results, table, name) for table in results.tables], len(results.tables))


def _panel(results: Results, table: str, name: str) -> Chart:
    alt = altair()
    found = {method.label: results.spread(table, method, name) for method in results.methods}
    known = {label: one for label, one in found.items() if one.runs}
    error = {label: one.error if one.runs > 1 else 0.0 for label, one in known.items()}
    data = rows(
        label=list(known),
        mean=[one.mean for one in known.values()],
        error=list(error.values()),
        low=[one.mean - error[label] for label, one in known.items()],
        high=[one.mean + error[label] for label, one in known.items()],
    )
    labels = list(found)
    x = alt.X("label:N", sort=labels, title=None, axis=None)
    scale = alt.Scale(zero=False)
    legend = legend_of(labels)
    colours = alt.Scale(domain=labels, range=[COLOURS[one] for one in labels])
    colour = alt.Color("label:N", scale=colours, legend=legend)
    marks = alt.Scale(domain=labels, range=[MARKERS[one] for one in labels])
    shape = alt.Shape("label:N", scale=marks, legend=legend)
    tips = [
        alt.Tooltip("label:N", title="method"),
        alt.Tooltip("mean:Q", format=FOUR_DIGITS),
        alt.Tooltip("error:Q", title="standard error", format=FOUR_DIGITS),
    ]
    base = alt.Chart(data).encode(x, colour)
    bars = base.mark_rule(size=2, aria=False).encode(
        alt.Y("low:Q", title=SCORES[name], scale=scale), y2="high:Q"
    )
    dots = base.mark_point(filled=True, size=90, opacity=1)
    dots = dots.encode(alt.Y("mean:Q", title=SCORES[name], scale=scale), shape, tooltip=tips)
    listed = [[label, f"{one.mean:.3f}", f"{error[label]:.3f}"] for label, one in known.items()]
    told = ", ".join(f"{label} {mean} ± {spread}" for label, mean, spread in listed)
    words = f"{SCORES[name]} on {table}: {told}.".replace("-", "−")
    return Chart(
        table, "", words, bars + dots, table=(["method", "mean", "standard error"], listed), height=200
    )
