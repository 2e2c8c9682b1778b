"""How good a model is, in a sentence that needs no statistics to be read."""

from __future__ import annotations

import math

import numpy as np

from online_laplace.estimators.labels import places
from online_laplace.inspection.subject import Subject
from online_laplace.predictive.reliability import reliability
from online_laplace.tables.problems import counted

_FLATTERED = "training rows"


def verdict(subject: Subject) -> str:
    """One or two sentences on the rows that the model is judged by."""
    if len(subject.y) == 1:
        return _of_one_row(subject)
    told = _of_classes(subject) if subject.has_classes else _of_numbers(subject)
    if subject.where.startswith(_FLATTERED):
        told += " These are the rows it was fitted to: on new ones it will do worse."
    return told


def _of_numbers(subject: Subject) -> str:
    predicted = subject.estimator.predict_dist(subject.X)
    typical = float(np.median(np.abs(subject.y - predicted.mean())))
    guess = float(np.median(np.abs(subject.y - np.median(subject.y))))
    inside = float(predicted.coverages(subject.y, [0.9])[0])
    rows = _rows(subject)
    # Intervals of counts end at whole numbers, and hold more than they say.
    judged = "" if predicted.counts and inside > 0.9 else _judged(inside, 0.9, len(subject.y))
    first = (
        f"Predictions of {subject.target} are typically within ± {subject.amount(typical)} of the "
        "truth: half "
        f"of them are closer. The same guess for every row would be within ± {subject.amount(guess)}."
    )
    return f"{first} The 90% intervals held {inside:.0%} of {rows}{judged}."


def _of_classes(subject: Subject) -> str:
    found = places(subject.y, subject.estimator.classes_)
    p = subject.estimator.predict_proba(subject.X)
    right = float(np.mean(p.argmax(axis=1) == found))
    commonest = float(np.bincount(found).max() / len(found))
    off = reliability(p, found).error
    return (
        f"{subject.target} is named correctly in {right:.0%} of {_rows(subject)}; always naming the "
        "commonest "
        f"class would be right in {commonest:.0%}. The probabilities are off by {100 * off:.0f} percentage "
        "points on average."
    )


def _of_one_row(subject: Subject) -> str:
    """What one row shows, of which nothing is typical."""
    if subject.has_classes:
        named = subject.estimator.predict(subject.X)[0] == subject.y[0]
        first = f"{subject.target} is {'' if named else 'not '}named correctly in {_rows(subject)}"
    else:
        predicted = subject.estimator.predict_dist(subject.X)
        missed = abs(float(subject.y[0] - predicted.mean()[0]))
        where = "inside" if predicted.coverages(subject.y, [0.9])[0] else "outside"
        first = (
            f"In {_rows(subject)} the prediction of {subject.target} is {subject.amount(missed)} from the "
            f"truth, which lies {where} its 90% interval"
        )
    return f"{first}. One row is too few to judge by."


def _rows(subject: Subject) -> str:
    return counted(len(subject.y), subject.where.partition(",")[0])


def _judged(inside: float, level: float, count: int) -> str:
    """Whether a share of rows is what it should be, up to two standard errors of chance."""
    if count < 20:
        return ", which are too few to judge by"
    if abs(inside - level) <= 2 * math.sqrt(level * (1 - level) / count):
        return ", as they should"
    return ": they are too narrow" if inside < level else ": they are wider than they need to be"
