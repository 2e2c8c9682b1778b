"""The statistics that claims are judged by, each from the histories or records of one table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from online_laplace.figures.one_step import START, OneStep
from online_laplace.store.results import CLIMBED, Method, Results, Series, Spread, spread


def smallest_gap(results: Results, table: str) -> tuple[float, float]:
    """The least L_h − L_f ever observed, and the size of the evidences it is a difference of."""
    gap, scale = np.inf, 1.0
    for procedure in results.header["profile"]["procedures"]:
        for split in results.splits:
            history = results.history(table, procedure, split)
            # The difference is stored by itself: the evidences may have been rounded since.
            gap = min(gap, float(np.nanmin(history["certificate.gap"])))
            scale = max(scale, float(np.nanmax(np.abs(history["tangent_evidence"]))))
    return gap, scale


def distance_ratio(results: Results, table: str, procedure: str) -> Series:
    """‖w − v*‖ at the end over that at the first observation after the start, split by split."""
    return np.asarray([v[-1] / v[1] for _, v in results.traces(table, procedure, "distance")])


def final_relative_distance(results: Results, table: str, procedure: str) -> float:
    """‖w − v*‖ / ‖v*‖ at the last observation, median over splits."""
    return float(np.nanmedian([v[-1] for _, v in results.traces(table, procedure, "certificate.distance")]))


def final_gap(results: Results, table: str, procedure: str) -> float:
    """L_h − L_f at the last observation, median over splits."""
    return float(np.nanmedian([v[-1] for _, v in results.traces(table, procedure, "certificate.gap")]))


def larger_lm_updates(results: Results, table: str) -> NDArray[np.bool_]:
    """For every split: whether LM's first proposal for α, made for the same network, is further away."""
    found = []
    for split in results.splits:
        step = OneStep.of(results, table, "ol", START, split)
        if step is not None:
            lm, ol = (abs(np.log(step.update(p)[0] / step.alpha)) for p in ("lm", "ol"))
            found.append(bool(lm > ol))
    return np.asarray(found, dtype=np.bool_)


def early_travel(results: Results, table: str, procedure: str) -> Series:
    """Σ |Δ log α| from observation to observation in the first tenth of training, split by split."""
    travels = []
    for steps, alpha in results.traces(table, procedure, "alpha"):
        early = alpha[steps <= max(0.1 * steps[-1], steps[1])]
        travels.append(float(np.abs(np.diff(np.log(early))).sum()))
    return np.asarray(travels)


def evidence_peaks(results: Results, table: str) -> list[tuple[float, float]]:
    """For every online run: when its evidence is highest and when its test RMSE is lowest, as shares."""
    found = []
    for procedure in results.online:
        evidences = results.traces(table, procedure, CLIMBED[procedure])
        errors = results.traces(table, procedure, "test.rmse")
        for (steps, evidence), (_, rmse) in zip(evidences, errors, strict=True):
            peak, best = steps[np.nanargmax(evidence)], steps[np.nanargmin(rmse)]
            found.append((float(peak / steps[-1]), float(best / steps[-1])))
    return found


def evidence_falls(results: Results, table: str) -> Series:
    """For every online run: how far its evidence ends below its highest value, in nats."""
    return np.asarray(
        [
            np.nanmax(evidence) - evidence[-1]
            for procedure in results.online
            for _, evidence in results.traces(table, procedure, CLIMBED[procedure])
        ]
    )


def rise_from_best(results: Results, table: str, procedure: str) -> float:
    """How far the test RMSE ends above its lowest value, as a share of it; median over splits."""
    traces = results.traces(table, procedure, "test.rmse")
    return float(np.nanmedian([v[-1] / np.nanmin(v) - 1 for _, v in traces]))


def ranking(results: Results, table: str) -> list[Method]:
    """The methods from best to worst by mean test log-likelihood; a method without results is last."""

    def key(method: Method) -> float:
        mean = results.spread(table, method, "test_log_likelihood").mean
        return -np.inf if np.isnan(mean) else mean

    return sorted(results.methods, key=key, reverse=True)


def paired(results: Results, table: str, one: Method, other: Method) -> Spread:
    """The difference in test log-likelihood, split by split: mean ± standard error."""
    name = "test_log_likelihood"
    return spread(results.values(table, one, name) - results.values(table, other, name))
