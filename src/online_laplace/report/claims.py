"""What the paper says of its experiments, each claim with the statistic that tests it here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from online_laplace.report import trends
from online_laplace.store.results import METHODS, Results

HOLDS, IN_PART, FAILS, UNTESTED = "holds", "holds in part", "does not hold", "not tested"

OL, LM, OFFLINE_F, OFFLINE_H = METHODS


class Finding(NamedTuple):
    """What was measured on one table, and whether that is as claimed."""

    table: str
    value: str
    agrees: bool


class Claim(NamedTuple):
    """A claim, how it is tested, what came out and what that means."""

    text: str
    statistic: str
    findings: list[Finding]

    @property
    def verdict(self) -> str:
        """In one phrase, with the count of tables where they differ."""
        agreeing = sum(finding.agrees for finding in self.findings)
        if not self.findings:
            return UNTESTED
        if agreeing == len(self.findings):
            return HOLDS
        return f"{IN_PART}: {agreeing} of {len(self.findings)} tables" if agreeing else FAILS


def check_claims(results: Results) -> list[Claim]:
    """Every claim; those that need a procedure that was not run, or more splits than one, are not tested."""
    ran = set(results.header["profile"]["procedures"])
    claims = []
    for text, statistic, needs, judge in _CLAIMS:
        tables = results.tables if needs <= ran else []
        found = [judge(results, table) for table in tables]
        claims.append(Claim(text, statistic, [finding for finding in found if finding is not None]))
    return claims


def _short(value: float) -> str:
    """Two or three digits, without an exponent where a person can do without."""
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.2g}"


def _bound(results: Results, table: str) -> Finding:
    gap, scale = trends.smallest_gap(results, table)
    return Finding(table, _short(gap), gap >= -1e-9 * scale)


def _falls(procedure: str) -> Callable[[Results, str], Finding]:
    def judge(results: Results, table: str) -> Finding:
        ratio = float(np.median(trends.distance_ratio(results, table, procedure)))
        return Finding(table, f"× {_short(ratio)}", ratio < 1)

    return judge


def _apart(results: Results, table: str) -> Finding:
    offline, online = (trends.final_relative_distance(results, table, p) for p in ("offline", "ol"))
    return Finding(table, f"{_short(offline)} against {_short(online)}", offline > 2 * online)


def _gap_closes(results: Results, table: str) -> Finding:
    gaps = {p: trends.final_gap(results, table, p) for p in ("ol", "lm")}
    value = f"OL {_short(gaps['ol'])}, LM {_short(gaps['lm'])}"
    return Finding(table, value, max(gaps.values()) < 1)


def _larger_updates(results: Results, table: str) -> Finding:
    larger = trends.larger_lm_updates(results, table)
    if len(larger) == 0:
        return Finding(table, "no stored updates", False)
    splits = "split" if len(larger) == 1 else "splits"
    return Finding(table, f"{larger.sum()} of {len(larger)} {splits}", larger.mean() > 0.5)


def _busier(results: Results, table: str) -> Finding:
    lm, ol = (float(np.median(trends.early_travel(results, table, p))) for p in ("lm", "ol"))
    return Finding(table, f"{_short(lm)} against {_short(ol)}", lm > ol)


def _slower(results: Results, table: str) -> Finding:
    lm, ol = (trends.final_relative_distance(results, table, p) for p in ("lm", "ol"))
    return Finding(table, f"{_short(lm)} against {_short(ol)}", lm > ol)


def _peaks_early(results: Results, table: str) -> Finding:
    peaks = trends.evidence_peaks(results, table)
    before = float(np.mean([peak < best for peak, best in peaks]))
    where = float(np.median([peak for peak, _ in peaks]))
    return Finding(table, f"{before:.0%} before; peak at {where:.0%} of training", before > 0.5)


def _not_monotonic(results: Results, table: str) -> Finding:
    falls = trends.evidence_falls(results, table)
    return Finding(table, f"{_short(float(np.median(falls)))} nats", bool(np.mean(falls > 1) > 0.5))


def _best_or_second(results: Results, table: str) -> Finding:
    order = trends.ranking(results, table)
    place = order.index(OL) + 1
    best = results.spread(table, order[0], "test_log_likelihood")
    mine = results.spread(table, OL, "test_log_likelihood")
    return Finding(table, f"place {place}, {best.mean - mine.mean:.2f} behind the best", place <= 2)


def _alike(results: Results, table: str) -> Finding | None:
    difference = trends.paired(results, table, OL, LM)
    if math.isnan(difference.error):
        return None  # one split has no standard error to judge by
    value = f"OL − LM = {difference.mean:.2f} ± {difference.error:.2f}"
    if table in ("energy", "yacht"):
        last = trends.ranking(results, table)[-1] == LM
        return Finding(table, f"{value}; LM is {'last' if last else 'not last'}", last)
    return Finding(table, value, abs(difference.mean) < 2 * difference.error)


def _offline_behind(results: Results, table: str) -> Finding | None:
    offline = max((OFFLINE_F, OFFLINE_H), key=lambda m: results.spread(table, m, "test_log_likelihood").mean)
    difference = trends.paired(results, table, OL, offline)
    if math.isnan(difference.error):
        return None
    behind = difference.mean > difference.error
    value = f"OL − best offline = {difference.mean:.2f} ± {difference.error:.2f}"
    return Finding(table, value, behind if table != "yacht" else not behind)


def _through_rmse(results: Results, table: str) -> Finding:
    likelihood = trends.paired(results, table, OL, OFFLINE_F).mean
    ol, offline = (results.spread(table, m, "test_rmse").mean for m in (OL, OFFLINE_F))
    value = f"Δ log-likelihood {likelihood:+.2f}, RMSE {ol / offline - 1:+.0%}"
    return Finding(table, value, (likelihood > 0) == (ol < offline))


def _no_overfitting(results: Results, table: str) -> Finding:
    ol, offline = (trends.rise_from_best(results, table, p) for p in ("ol", "offline"))
    return Finding(table, f"OL {ol:+.1%}, offline {offline:+.1%}", ol < offline)


# Claim, statistic, the procedures it needs, and how it is judged on one table.
_CLAIMS: tuple[tuple[str, str, set[str], Callable[[Results, str], Finding | None]], ...] = (
    (
        "The Laplace evidence L_f never exceeds the tangent model's evidence L_h.",
        "The smallest L_h − L_f over all observations of all runs, in nats.",
        set(),
        _bound,
    ),
    (
        "Under OL the weights and the tangent model's mode come together.",
        "‖w − v*‖ at the end over ‖w − v*‖ at the first observation after the start; "
        "median over splits, below 1.",
        {"ol"},
        _falls("ol"),
    ),
    (
        "Under LM they come together as well.",
        "The same ratio for LM.",
        {"lm"},
        _falls("lm"),
    ),
    (
        "Training with fixed hyperparameters does not bring them together.",
        "‖w − v*‖ / ‖v*‖ at the last step, offline against OL; median over splits, more than twice as large.",
        {"ol", "offline"},
        _apart,
    ),
    (
        "Online training comes close to a joint fixed point, where both evidences agree.",
        "L_h − L_f at the end, median over splits, below 1 nat for OL and for LM.",
        {"ol", "lm"},
        _gap_closes,
    ),
    (
        "The tighter bound proposes the larger change of α.",
        "Before the first step, where both see the same network and the same α: in how many splits LM's "
        "proposal is further from the current α than OL's; more than half.",
        {"ol", "lm"},
        _larger_updates,
    ),
    (
        "LM's hyperparameters move more in early training.",
        "The distance that log α travels over the observations of the first tenth of training, "
        "LM against OL; median over splits.",
        {"ol", "lm"},
        _busier,
    ),
    (
        "LM converges less closely than OL.",
        "‖w − v*‖ / ‖v*‖ at the end, LM against OL; median over splits.",
        {"ol", "lm"},
        _slower,
    ),
    (
        "The evidence that is climbed peaks early, before the lowest test error.",
        "The share of OL and LM runs whose highest evidence comes before their lowest test RMSE; more than "
        "half.",
        {"ol", "lm"},
        _peaks_early,
    ),
    (
        "The evidence does not rise monotonically.",
        "How far the evidence ends below its highest value, median over OL and LM runs; above 1 nat in most "
        "of them.",
        {"ol", "lm"},
        _not_monotonic,
    ),
    (
        "OL is the best or second best in test log-likelihood.",
        "The place of OL among all methods by mean test log-likelihood.",
        {"ol", "lm", "offline"},
        _best_or_second,
    ),
    (
        "LM predicts like OL, except on energy and yacht, where it is the worst of all.",
        "The paired difference in test log-likelihood, mean ± standard error: within two standard errors of "
        "zero; on energy and yacht, LM's place.",
        {"ol", "lm", "offline"},
        _alike,
    ),
    (
        "Offline training keeps up on yacht alone.",
        "The paired difference in test log-likelihood between OL and the better offline method: more than "
        "one standard error, except on yacht.",
        {"ol", "offline"},
        _offline_behind,
    ),
    (
        "What OL gains in log-likelihood over offline training goes with a lower test error.",
        "The signs of both differences agree.",
        {"ol", "offline"},
        _through_rmse,
    ),
    (
        "Online hyperparameters keep a network from overfitting.",
        "How far the test RMSE ends above its lowest value of the run, median over splits: less for OL than "
        "for offline training without its validation stop.",
        {"ol", "offline"},
        _no_overfitting,
    ),
)
