"""The page of a fitted model, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from online_laplace.inspection.classes import confusion_chart, reliability_chart
from online_laplace.inspection.effect_charts import effect_charts
from online_laplace.inspection.effects import MOST_COLUMNS, effects
from online_laplace.inspection.numbers import calibration_charts, prediction_charts
from online_laplace.inspection.subject import Subject
from online_laplace.inspection.training import relevance_chart, training_charts
from online_laplace.inspection.verdict import verdict
from online_laplace.pages.document import Document, pairs, table
from online_laplace.pages.words import readable

# What the columns of the estimators' leaderboards are called, and how their numbers are shown.
_TITLES = {"mean_weight": "weight in the mean", "rmse": "RMSE", "log_likelihood": "log-likelihood"}
_FORMATS = {
    "weight": ".1%",
    "mean_weight": ".1%",
    "log_likelihood": ",.3f",
    "log_evidence": ",.1f",
    "seconds": ",.1f",
}


def render_page(subject: Subject, lines: Sequence[tuple[str, str]]) -> str:
    """The whole file; `lines` are the names and sentences that the terminal shows as well."""
    page = Document(f"A model of {subject.target}")
    page.open_with(f'<p class="verdict-line">{escape(verdict(subject))}</p>')
    page.open_with(pairs(lines))
    if candidates := getattr(subject.estimator, "leaderboard_", None):
        page.section("leaderboard", "Candidates", _leaderboard(candidates))
    if subject.has_classes:
        page.section("confusion", "Confusion", page.charts([confusion_chart(subject)]))
    else:
        page.section("predictions", "Predictions", page.charts(prediction_charts(subject)))
    page.section("effects", "Effect of each column", _effects(page, subject))
    honest = [reliability_chart(subject)] if subject.has_classes else calibration_charts(subject)
    page.section("calibration", "Calibration", page.charts(honest))
    if hasattr(subject.estimator, "relevance_"):
        page.section("relevance", "Relevance", page.charts([relevance_chart(subject)]))
    if drawn := training_charts(subject):
        words = '<p class="caption">Faint: each network. Strong: their median.</p>'
        page.section("training", "Training", words + page.charts(drawn))
    return page.html()


def _effects(page: Document, subject: Subject) -> str:
    found = effects(subject)
    if not found:
        return "<p>No column takes more than one value in these rows.</p>"
    columns = subject.model.columns
    left = len(columns.numeric) + len(columns.text) - min(len(found), MOST_COLUMNS)
    more = f" Columns left out, with smaller effects: {left}." if left > 0 else ""
    words = (
        "What is predicted on average over rows when one column alone is set to a value, with "
        f"{found[0].band}; the largest effect first, all on one scale.{more} A column that goes "
        "together with "
        "others may be set to values that do not occur."
    )
    return f'<p class="caption">{escape(words)}</p>' + page.charts(effect_charts(subject, found))


def _leaderboard(candidates: Sequence[Mapping[str, Any]]) -> str:
    """Every candidate of the pool and its part in it, as the estimator lists them."""
    names = list(candidates[0])
    if all(one.get("mean_weight") == one["weight"] for one in candidates):  # as of classes
        names.remove("mean_weight")
    rows = [[_shown(name, one.get(name)) for name in names] for one in candidates]
    words = (
        "What was trained side by side, the heaviest first; the weight is each one's part in what is "
        "predicted. Scores are of rows that each was trained without."
    )
    titles = [_TITLES.get(name, name.replace("_", " ")) for name in names]
    return f'<p class="caption">{words}</p>' + table("Candidates", titles, rows)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if name in _FORMATS:
        return format(float(value), _FORMATS[name]).replace("-", "−")
    return readable(float(value), 4)
