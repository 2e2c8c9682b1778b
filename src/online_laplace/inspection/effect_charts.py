"""Effects as charts: a line with its band along numbers, dots with theirs for categories."""

from __future__ import annotations

from typing import Any

from online_laplace.inspection.effects import MOST_COLUMNS, Effect, shown_place
from online_laplace.inspection.subject import Subject
from online_laplace.pages.charts import Chart, altair, axis_title, legend_of, rows
from online_laplace.pages.words import FOUR_DIGITS, axis_format, readable
from online_laplace.style import BLUE, GREEN, ORANGE, PURPLE, VERMILLION

# More classes than there are colours to tell apart: the first are drawn, all are in the table.
_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE)


def effect_charts(subject: Subject, found: list[Effect]) -> list[Chart]:
    """One chart a column for the largest effects, all with one vertical axis so that they compare."""
    shown = found[:MOST_COLUMNS]
    seen = [float(value) for one in shown for value in (one.lower.min(), one.upper.max())]
    ends = [0.0, 1.0] if subject.has_classes else [min(seen), max(seen)]
    return [_chart(subject, one, ends) for one in shown]


def _chart(subject: Subject, effect: Effect, ends: list[float]) -> Chart:
    alt = altair()
    series = effect.series[: len(_COLOURS)]
    index = [(p, s) for s in range(len(series)) for p in range(len(effect.places))]
    data = rows(
        place=[effect.places[p] for p, _ in index],
        series=[series[s] for _, s in index],
        mean=[effect.mean[i] for i in index],
        lower=[effect.lower[i] for i in index],
        upper=[effect.upper[i] for i in index],
    )
    title = "probability" if subject.has_classes else subject.measured
    shape = ".0%" if subject.has_classes else axis_format(ends)
    scale = alt.Scale(domain=ends, nice=True, zero=False)
    y = {"title": axis_title(title), "scale": scale, "axis": alt.Axis(format=shape)}
    colour = (
        alt.Color(
            "series:N",
            scale=alt.Scale(domain=series, range=list(_COLOURS[: len(series)])),
            legend=legend_of(series),
        )
        if subject.has_classes
        else alt.value(BLUE)
    )
    kind = "N" if effect.is_text else "Q"
    x = alt.X(f"place:{kind}", title=axis_title(effect.column), **_horizontal(alt, effect))
    shape_of_place = {} if effect.is_text else {"format": FOUR_DIGITS}
    number = ".1%" if subject.has_classes else FOUR_DIGITS
    tips = [
        alt.Tooltip(f"place:{kind}", title=effect.column[:60], **shape_of_place),
        *([alt.Tooltip("series:N", title="class")] if subject.has_classes else []),
        *(alt.Tooltip(f"{name}:Q", title=words, format=number)
          for name, words in (("mean", "average prediction"), ("lower", "band from"), ("upper", "to"))),
    ]  # fmt: skip
    base = alt.Chart(data).encode(x, color=colour)
    between = {"y": alt.Y("lower:Q", **y), "y2": "upper:Q"}
    if effect.is_text:
        drawn = base.mark_rule(size=3, opacity=0.4, aria=False).encode(**between)
    else:
        drawn = base.mark_area(opacity=0.13 if subject.has_classes else 0.22, aria=False).encode(**between)
        drawn += base.mark_line(strokeWidth=2, aria=False).encode(alt.Y("mean:Q", **y))
    dots = base.mark_circle(size=60 if effect.is_text else 28, opacity=1)
    return Chart(
        effect.column,
        "",
        f"Average prediction of {subject.target} along {effect.column}: {effect.words()}. The band is "
        f"{effect.band}.",
        drawn + dots.encode(alt.Y("mean:Q", **y), tooltip=tips),
        table=_table(effect),
        height=230,
    )


def _horizontal(alt: Any, effect: Effect) -> dict[str, Any]:
    if effect.is_text:
        return {
            "sort": None,
            "axis": alt.Axis(labelLimit=120, labelAngle=-40 if len(effect.places) > 3 else 0),
        }
    values = [float(value) for value in effect.places]
    return {"scale": alt.Scale(zero=False, nice=False), "axis": alt.Axis(format=axis_format(values))}


def _table(effect: Effect) -> tuple[list[str], list[list[str]]]:
    names = [
        [f"{name}: {what}" if name else what for what in ("average", "from", "to")] for name in effect.series
    ]
    lines = []
    for p, place in enumerate(effect.places):
        line = [shown_place(place)]
        for s in range(len(effect.series)):
            line += [readable(float(values[p, s])) for values in (effect.mean, effect.lower, effect.upper)]
        lines.append(line)
    return [effect.column, *(name for group in names for name in group)], lines
