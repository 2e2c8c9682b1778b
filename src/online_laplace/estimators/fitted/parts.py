"""What a pool's entries become: parts that predict, without those that cannot, and with those retrained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Scaler
from online_laplace.estimators.fitted.at_once import FittedAtOnce
from online_laplace.estimators.fitted.networks import FittedNetworks
from online_laplace.estimators.fitted.pool import Part
from online_laplace.pool.at_once import Predictor
from online_laplace.pool.candidates import Candidate
from online_laplace.pool.pool import stacked
from online_laplace.pool.problem import Problem
from online_laplace.pool.views import VIEWS
from online_laplace.pool.weighting import Entry
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows

# Of a target of variance one: below it a network is asked whether its curvature is worth anything.
LEAST_NOISE = 1e-9


def leads(entry: Entry) -> tuple[bool, bool, bool, float]:
    """Networks before lines before what was learnt at once: who asks for one network gets the first."""
    candidate = entry.candidate
    return entry.weight > 0, candidate.is_network, isinstance(candidate, Candidate), entry.weight


def sound_parts(
    entries: list[Entry], problem: Problem, X: Floats, make: Callable[[Entry], Part]
) -> tuple[list[Entry], tuple[Part, ...]]:
    """What predicts, and the entries as they are weighted without those whose curvature is worthless.

    Where the noise is next to nothing, as beside a gross error that stretches the scale of the target, H may
    have lost its digits: what gives negative variances at the training rows themselves cannot predict.
    """
    while True:
        used = sorted((e for e in entries if e.weight > 0), key=leads, reverse=True)
        parts = tuple(map(make, used))
        worthless = {
            id(entry)
            for entry, part in zip(used, parts, strict=True)
            if noise_is_negligible(entry) and not part.networks.is_sound_at(X)
        }
        if not worthless:
            return entries, parts
        entries = stacked([e.without_a_say() if id(e) in worthless else e for e in entries], problem)


def joined_by(parts: tuple[Part, ...], again: Iterable[Part]) -> tuple[Part, ...]:
    """The parts, and after them those that were trained on all rows, which have their weight in the mean.

    A mean errs less the more rows its networks saw. The mixture is that of members which left rows out: by
    what they say of these, and by their differences, it is as wide as it should be.
    """
    found, more = [], {(part.candidate, part.length): part for part in again}
    for part in parts:
        refit = more.get((part.candidate, part.length))
        if refit is None:
            found.append(part)
            continue
        found.append(replace(part, mean_weight=0.0))
        more[part.candidate, part.length] = replace(refit, weight=0.0, refit=True)
    return (*found, *more.values())


def noise_is_negligible(entry: Entry) -> bool:
    """Whether a network takes so little for noise that its curvature may have lost its digits."""
    noise = entry.stage.said.get("noise")
    return noise is not None and bool((noise < LEAST_NOISE).any())


def part_of(problem: Problem, rows: Rows, inputs: Scaler, target: Scaler, entry: Entry) -> Part:
    """What an entry predicts for new rows, in the user's units."""
    candidate, judged = entry.candidate, entry.judged
    likelihood = problem.kind.predicting(problem.likelihood_of(candidate.noise), judged)
    fitted: FittedNetworks | FittedAtOnce
    if isinstance(candidate, Candidate):
        model = replace(problem.model(candidate), likelihood=likelihood)
        snapshots = Snapshots(*(v.flatten(0, 1).clone() for v in entry.stage.networks))
        fitted = FittedNetworks(model, snapshots, rows, inputs, target, VIEWS[candidate.view](rows.X))
    else:
        assert not isinstance(entry.stage.learnt, Snapshots)
        fitted = FittedAtOnce(Predictor(entry.stage.learnt, likelihood), rows, inputs, target)
    return Part(candidate, entry.stage.length, fitted, entry.weight, entry.mean_weight)
