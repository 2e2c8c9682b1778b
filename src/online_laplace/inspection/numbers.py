"""Charts of a model of numbers: predictions, residuals, calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from online_laplace.data.checks import Floats
from online_laplace.estimators.distribution import PredictiveDistribution
from online_laplace.inspection.subject import Subject
from online_laplace.pages.charts import Chart, altair, axis_title, rows
from online_laplace.pages.words import FOUR_DIGITS, axis_format, readable
from online_laplace.predictive.coverage import LEVELS
from online_laplace.style import BLUE, GREY, ORANGE, SKY
from online_laplace.tables.problems import row_count

# More points than this hide each other, and make a file that no browser likes.
MOST_POINTS = 1000


def few(count: int) -> Any:
    """All rows, or as many as a chart can show, evenly taken."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int))


def prediction_charts(subject: Subject) -> list[Chart]:
    """Predicted against true values, and what is left over; each row with its 90% interval."""
    predicted = subject.estimator.predict_dist(subject.X)
    chosen = few(len(subject.y))
    truth = np.asarray(subject.y, dtype=np.float64)
    mean, (lower, upper) = predicted.mean(), predicted.interval(0.9)
    residual = truth - mean
    data = rows(
        row=(chosen + 1).tolist(),
        truth=truth[chosen],
        mean=mean[chosen],
        lower=lower[chosen],
        upper=upper[chosen],
        residual=residual[chosen],
        low=(lower - mean)[chosen],
        high=(upper - mean)[chosen],
    )
    worst = int(np.argmax(np.abs(residual)))
    return [
        _against_truth(subject, data, truth, mean, residual, worst),
        _residuals(subject, data, mean, residual, worst),
    ]


def _tips(subject: Subject) -> list[Any]:
    alt = altair()
    named = {
        "truth": "true value",
        "mean": "predicted",
        "lower": "5%",
        "upper": "95%",
        "residual": "residual",
    }
    return [
        alt.Tooltip("row:Q", title=f"of the {subject.where.partition(',')[0]}, number"),
        *(alt.Tooltip(f"{name}:Q", title=words, format=FOUR_DIGITS) for name, words in named.items()),
    ]


def _against_truth(
    subject: Subject, data: Any, truth: Floats, mean: Floats, residual: Floats, worst: int
) -> Chart:
    alt = altair()
    ends = [float(min(truth.min(), mean.min())), float(max(truth.max(), mean.max()))]
    shape = axis_format(ends)
    scale = alt.Scale(zero=False, nice=True)
    x = alt.X("truth:Q", title=axis_title("true", subject.measured), scale=scale, axis=alt.Axis(format=shape))
    y_title = axis_title("predicted", subject.measured)
    bars = alt.Chart(data).mark_rule(color=SKY, opacity=0.45, aria=False)
    bars = bars.encode(
        x, alt.Y("lower:Q", title=y_title, scale=scale, axis=alt.Axis(format=shape)), y2="upper:Q"
    )
    dots = alt.Chart(data).mark_circle(color=BLUE, size=36, opacity=0.85)
    dots = dots.encode(x, alt.Y("mean:Q", title=y_title), tooltip=_tips(subject))
    diagonal = alt.Chart(rows(truth=ends, mean=ends)).mark_line(color=GREY, strokeDash=[5, 4], aria=False)
    spread = float(np.var(truth))
    share = f"R² {1 - float(np.mean(residual**2)) / spread:.2f}. " if spread > 0 else ""
    return Chart(
        "Predictions",
        f"On the {subject.where}. A dot on the dashed line is predicted exactly; the bars are 90% "
        "intervals for "
        "a new observation. Point at a dot for its numbers.",
        f"{row_count(len(truth))}: predicted against true {subject.target}, with 90% intervals. "
        f"{share}True values "
        f"run from {readable(float(truth.min()))} to {readable(float(truth.max()))}. The largest miss is row "
        f"{worst + 1}: {readable(float(mean[worst]))} where the truth is {readable(float(truth[worst]))}.",
        bars + diagonal.encode(x="truth:Q", y="mean:Q") + dots,
        height=340,
    )


def _residuals(subject: Subject, data: Any, mean: Floats, residual: Floats, worst: int) -> Chart:
    alt = altair()
    x_title = axis_title("predicted", subject.measured)
    y_title = axis_title("true minus predicted", f"({subject.unit})" if subject.unit else "")
    scale = alt.Scale(zero=False, nice=True)
    x = alt.X("mean:Q", title=x_title, scale=scale, axis=alt.Axis(format=axis_format(mean)))
    y = alt.Y("residual:Q", title=y_title, axis=alt.Axis(format=axis_format(residual)))
    band = alt.Chart(data).mark_rule(color=SKY, opacity=0.3, aria=False)
    band = band.encode(x, alt.Y("low:Q", title=y_title), y2="high:Q")
    zero = alt.Chart(rows(residual=[0.0])).mark_rule(color=GREY, strokeDash=[5, 4], aria=False)
    dots = alt.Chart(data).mark_circle(color=BLUE, size=36, opacity=0.85).encode(x, y, tooltip=_tips(subject))
    average = float(residual.mean())
    return Chart(
        "Residuals",
        f"On the {subject.where}. What the prediction missed by; a pattern here is something the "
        "model has not "
        "learnt. The bars are where 90% of new observations were expected.",
        f"{len(mean):,} residuals against predicted {subject.target}: on average "
        f"{readable(average)}, half of them "
        f"within ± {readable(float(np.median(np.abs(residual))))}, the largest "
        f"{readable(float(residual[worst]))} "
        f"at row {worst + 1}.",
        band + zero.encode(y="residual:Q") + dots,
        height=340,
    )


def calibration_charts(subject: Subject) -> list[Chart]:
    """How often the truth lay inside intervals of every size, and where in its distribution it fell."""
    predicted = subject.estimator.predict_dist(subject.X)
    return [_coverage(subject, predicted), _where_it_fell(subject, predicted.cdf(subject.y).ravel())]


def _coverage(subject: Subject, predicted: PredictiveDistribution) -> Chart:
    alt = altair()
    levels = np.linspace(0, 1, 51)
    # Two standard errors of a share among that many rows: what chance alone would do.
    chance = 2 * np.sqrt(levels * (1 - levels) / len(subject.y))
    data = rows(
        expected=levels,
        observed=predicted.coverages(subject.y, levels),
        low=np.clip(levels - chance, 0, 1),
        high=np.clip(levels + chance, 0, 1),
    )
    percent = alt.Axis(format=".0%")
    x = alt.X("expected:Q", title="expected share of rows inside", axis=percent)
    y_title = "observed share of rows inside"
    base = alt.Chart(data)
    band = base.mark_area(color=GREY, opacity=0.22, aria=False)
    band = band.encode(x, alt.Y("low:Q", title=y_title, axis=percent), y2="high:Q")
    diagonal = base.mark_line(color=GREY, strokeDash=[5, 4], aria=False).encode(x, alt.Y("expected:Q"))
    tips = [alt.Tooltip(f"{name}:Q", format=".0%") for name in ("expected", "observed")]
    line = base.mark_line(color=BLUE, point={"color": BLUE, "size": 14})
    line = line.encode(x, alt.Y("observed:Q", title=y_title, axis=percent), tooltip=tips)
    shares = zip(LEVELS, predicted.coverages(subject.y), strict=True)
    listed = [[f"{level:.0%}", f"{share:.0%}"] for level, share in shares]
    whole = " Those of counts end at whole numbers and hold more." if predicted.counts else ""
    return Chart(
        "Coverage of intervals",
        f"On the {subject.where}. Honest intervals lie on the dashed line, up to chance (grey). "
        "Above it they are "
        f"too wide, below it too narrow.{whole}",
        "Share of rows inside central intervals against the share expected: "
        + ", ".join(f"{observed} inside the {expected} intervals" for expected, observed in listed)
        + f", of {row_count(len(subject.y))}.",
        band + diagonal + line,
        table=(["interval", "rows inside"], listed),
    )


def _where_it_fell(subject: Subject, pit: Floats) -> Chart:
    alt = altair()
    bins = int(np.clip(len(pit) // 15, 5, 20))
    counts, edges = np.histogram(pit, bins, (0, 1))
    even = len(pit) / bins
    data = rows(start=edges[:-1], end=edges[1:], rows=counts, even=np.full(bins, even))
    x = alt.X(
        "start:Q", title="place of the truth in its predicted distribution", axis=alt.Axis(format=".0%"),
        bin="binned",
    )  # fmt: skip
    tips = [
        alt.Tooltip("start:Q", title="from", format=".0%"),
        alt.Tooltip("end:Q", title="to", format=".0%"),
        alt.Tooltip("rows:Q", title="rows"),
    ]
    bars = alt.Chart(data).mark_bar(color=BLUE, opacity=0.85)
    bars = bars.encode(x, x2="end:Q", y=alt.Y("rows:Q", title="rows"), tooltip=tips)
    level = alt.Chart(rows(rows=[even])).mark_rule(color=ORANGE, strokeDash=[5, 4], size=2, aria=False)
    return Chart(
        "Where the truth fell",
        "Bars of one height (dashed): honest. A heap in the middle: intervals too wide; at both "
        "ends: too narrow; "
        "on one side: predictions too low or too high.",
        f"Histogram of P(Y ≤ y) over {row_count(len(pit))} in {bins} bars, {readable(even)} rows each "
        "if honest; the "
        f"counts are {', '.join(map(str, counts))}.",
        bars + level.encode(y="rows:Q"),
    )
