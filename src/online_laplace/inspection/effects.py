"""The effect of each column: what is predicted, on average over rows, when that column alone is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError
from online_laplace.inspection.subject import Subject
from online_laplace.pages.words import readable

if TYPE_CHECKING:
    import pandas as pd

# Columns whose effects are drawn, rows that are averaged over, places along a column, functions drawn.
MOST_COLUMNS, MOST_ROWS, PLACES, DRAWS = 12, 40, 25, 60
# A band of a normal distribution that holds 90%.
_NINETY = 1.645


@dataclass(frozen=True)
class Effect:
    """One column's effect at its places: mean and band, (places, series); a series is a class, or the one."""

    column: str
    places: list[float] | list[str]
    series: list[str]
    mean: Floats
    lower: Floats
    upper: Floats
    band: str  # what the band is, in words

    @property
    def is_text(self) -> bool:
        """Whether the places are categories."""
        return isinstance(self.places[0], str)

    @property
    def size(self) -> float:
        """How far the prediction moves along the column."""
        return float(np.ptp(self.mean, axis=0).max())

    def words(self) -> str:
        """What the chart shows, for those who cannot see it."""
        told = []
        for s, name in enumerate(self.series):
            low, high = int(self.mean[:, s].argmin()), int(self.mean[:, s].argmax())
            told.append(
                f"{f'{name}: ' if name else ''}lowest {readable(float(self.mean[low, s]))} at "
                f"{shown_place(self.places[low])}, highest {readable(float(self.mean[high, s]))} at "
                f"{shown_place(self.places[high])}"
            )
        return "; ".join(told)


def effects(subject: Subject) -> list[Effect]:
    """The effects of the columns, the largest first; of many columns, of those that seem to matter."""
    changes = list(_changes(subject))
    if len(changes) > 2 * MOST_COLUMNS:
        # A look at few rows and places is enough to tell which of hundreds are worth drawing.
        changes = sorted(changes, key=lambda change: -_glance(subject, change[2]))[: 2 * MOST_COLUMNS]
    found = [_effect(subject, *change) for change in changes]
    return sorted(found, key=lambda effect: -effect.size)


def _glance(subject: Subject, settings: list[dict[str, float]]) -> float:
    """Roughly how far the prediction moves along a column."""
    import pandas as pd

    places = settings[:: max(1, len(settings) // 6)]
    background = subject.X.iloc[:: max(1, len(subject.X) // 8)]
    changed = pd.concat([background.assign(**setting) for setting in places], ignore_index=True)
    estimator = subject.estimator
    each = estimator.predict_proba(changed) if subject.has_classes else estimator.predict(changed)
    return float(np.ptp(each.reshape(len(places), len(background), -1).mean(axis=1), axis=0).max())


def _changes(subject: Subject) -> Iterator[tuple[str, list[Any], list[dict[str, float]]]]:
    """Each column with its places and, for each of them, what the features are set to."""
    columns = subject.model.columns
    for name in columns.numeric:
        seen = np.unique(np.asarray(subject.X[name], dtype=np.float64))
        # Few values are places themselves; of many, the outermost percent would only stretch the axis.
        low, high = np.quantile(subject.X[name], [0.01, 0.99])
        grid = seen if len(seen) <= PLACES else np.linspace(low, high, PLACES)
        if len(grid) > 1:
            yield name, grid.tolist(), [{name: float(value)} for value in grid]
    for name, categories in zip(columns.text, columns.categories, strict=True):
        if len(categories) > 1:
            off = {f"{name}={category}": 0.0 for category in categories}
            yield name, list(categories), [{**off, f"{name}={one}": 1.0} for one in categories]


def _effect(subject: Subject, column: str, places: list[Any], settings: list[dict[str, float]]) -> Effect:
    import pandas as pd

    few = np.unique(np.linspace(0, len(subject.X) - 1, min(len(subject.X), MOST_ROWS)).astype(int))
    background = subject.X.iloc[few]
    changed = pd.concat([background.assign(**setting) for setting in settings], ignore_index=True)
    shape = (len(places), len(few), -1)
    if subject.has_classes:
        p = subject.estimator.predict_proba(changed).reshape(shape)
        lower, upper = np.quantile(p, [0.25, 0.75], axis=1)
        series = [str(label) for label in subject.model.columns.written(subject.estimator.classes_)]
        return Effect(column, places, series, p.mean(axis=1), lower, upper, "the middle half of the rows")
    each = subject.estimator.predict(changed).reshape(shape)
    mean = each.mean(axis=1)
    std = _std_of_average(subject.estimator, changed, len(places))
    if std is None:
        lower, upper = np.quantile(each, [0.25, 0.75], axis=1)
        return Effect(column, places, [""], mean, lower, upper, "the middle half of the rows")
    half = _NINETY * std[:, None]
    return Effect(column, places, [""], mean, mean - half, mean + half, "a 90% band of the average itself")


def _std_of_average(estimator: Any, changed: pd.DataFrame, places: int) -> Floats | None:
    """How unsure the average over rows is, from whole functions drawn; None where none can be drawn."""
    likelihood = getattr(estimator, "likelihood", "gaussian")
    if likelihood != "gaussian" or not hasattr(estimator, "sample_y"):
        return None  # what is drawn of counts is no mean
    try:
        drawn = estimator.sample_y(changed, DRAWS, 0, noise=False)
    except InputError:
        return None
    std: Floats = drawn.reshape(places, -1, DRAWS).mean(axis=1).std(axis=1)
    return std


def shown_place(value: Any) -> str:
    """A category as it is, a number as it is read."""
    return value if isinstance(value, str) else readable(value)
