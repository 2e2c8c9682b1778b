"""Charts of a model of classes: what it takes for what, and whether its probabilities come true."""

from __future__ import annotations

import numpy as np

from online_laplace.estimators.labels import places
from online_laplace.inspection.subject import Subject
from online_laplace.pages.charts import INK, Chart, altair, axis_title, rows
from online_laplace.pages.words import wrapped
from online_laplace.predictive.reliability import reliability
from online_laplace.style import BLUE, GREY

# Fewer bins than the score has: a chart must not be mostly chance.
DRAWN_BINS = 10


def confusion_chart(subject: Subject) -> Chart:
    """Numbers of rows by true and predicted class, shaded by their share of the true class."""
    alt = altair()
    classes = [str(label) for label in subject.model.columns.written(subject.estimator.classes_)]
    k = len(classes)
    counts = np.zeros((k, k), dtype=int)
    taken = subject.estimator.predict_proba(subject.X).argmax(axis=1)
    np.add.at(counts, (places(subject.y, subject.estimator.classes_), taken), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    i, j = (index.ravel() for index in np.indices((k, k)))
    data = rows(
        true=[classes[one] for one in i],
        predicted=[classes[one] for one in j],
        rows=counts[i, j].tolist(),
        share=share[i, j],
    )
    level = k * max(map(len, classes)) < 45
    turned = alt.Axis(labelAngle=0 if level else -40)
    x = alt.X("predicted:N", title=axis_title("predicted", subject.target), sort=None, axis=turned)
    y = alt.Y("true:N", title=axis_title("true", subject.target), sort=None)
    tips = [
        alt.Tooltip("true:N"),
        alt.Tooltip("predicted:N"),
        alt.Tooltip("rows:Q"),
        alt.Tooltip("share:Q", title="share of the true class", format=".0%"),
    ]
    # What is empty shows the page's own paper, light or dark.
    shade = alt.Opacity("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.06, 1]))
    cells = alt.Chart(data).mark_rect(color=BLUE).encode(x, y, shade, tooltip=tips)
    ink = alt.condition("datum.share > 0.55", alt.value("white"), alt.value(INK))
    drawn = cells
    if k <= 12:  # more leave no room for a number in every cell
        drawn = cells + alt.Chart(data).mark_text(aria=False).encode(x, y, text="rows:Q", color=ink)
    wrong = [
        (int(counts[a, b]), classes[a], classes[b])
        for a in range(k)
        for b in range(k)
        if a != b and counts[a, b]
    ]
    most = max(wrong, default=None)
    often = (
        "Nothing was mistaken."
        if most is None
        else f"Most often ({most[0]}×) {most[1]} was taken for {most[2]}."
    )
    return Chart(
        "Confusion",
        f"On the {subject.where}. Rows of each class by the class they are taken for; right ones are on the "
        "diagonal.",
        f"{k} by {k} table of rows by true and predicted {subject.target}: {int(np.trace(counts)):,} of "
        f"{int(counts.sum()):,} on the diagonal. {often}",
        drawn,
        table=(
            ["true \\ predicted", *classes],
            [[name, *map(str, line)] for name, line in zip(classes, counts, strict=True)],
        ),
        height=max(200, min(520, 60 + 34 * k)),
    )


def reliability_chart(subject: Subject) -> Chart:
    """How often the likeliest class is right against the probability that it was given."""
    alt = altair()
    estimator = subject.estimator
    found = reliability(estimator.predict_proba(subject.X), places(subject.y, estimator.classes_), DRAWN_BINS)
    chance = 2 * np.sqrt(found.said * (1 - found.said) / found.rows)
    data = rows(
        said=found.said,
        came_true=found.came_true,
        low=np.clip(found.said - chance, 0, 1),
        high=np.clip(found.said + chance, 0, 1),
        rows=found.rows.tolist(),
    )
    whole = alt.Scale(domain=[0, 1])
    percent = alt.Axis(format=".0%")
    x = alt.X("said:Q", title="probability given to the likeliest class", axis=percent, scale=whole)
    y_title = wrapped("share of rows in which it was right")
    bars = alt.Chart(data).mark_rule(color=GREY, size=2, opacity=0.7, aria=False)
    bars = bars.encode(x, alt.Y("low:Q", title=y_title, axis=percent, scale=whole), y2="high:Q")
    ends = alt.Chart(rows(said=[0.0, 1.0], came_true=[0.0, 1.0]))
    diagonal = ends.mark_line(color=GREY, strokeDash=[5, 4], aria=False)
    tips = [
        alt.Tooltip("said:Q", title="said", format=".0%"),
        alt.Tooltip("came_true:Q", title="came true", format=".0%"),
        alt.Tooltip("rows:Q"),
    ]
    size = alt.Size("rows:Q", scale=alt.Scale(range=[30, 260]), legend=None)
    dots = alt.Chart(data).mark_circle(color=BLUE, opacity=0.9)
    dots = dots.encode(x, alt.Y("came_true:Q", title=y_title), size, tooltip=tips)
    listed = [[f"{s:.0%}", f"{t:.0%}", f"{n}"] for s, t, n in zip(*found, strict=True)]
    return Chart(
        "Reliability",
        f"On the {subject.where}. On the dashed line, what is said with a probability comes true "
        "that often; the "
        "bars are what chance would do, larger dots are more rows.",
        "Share right against probability said: "
        + "; ".join(f"said {s}, came true {t} of {n} rows" for s, t, n in listed)
        + f". Off by {found.error:.1%} on average.",
        bars + diagonal.encode(x="said:Q", y="came_true:Q") + dots,
        table=(["said", "came true", "rows"], listed),
    )
