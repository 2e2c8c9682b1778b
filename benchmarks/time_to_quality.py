"""Seconds until the test log-likelihood is within one standard error of the best that is reached.

    python benchmarks/time_to_quality.py [docs/data/time_to_quality.json] [--tables yacht] [--methods ...]

In the environment that `make bench-peer` makes, for laplace-torch runs beside ours. Every method trains the
same network (50 tanh units) from the same first weights and α = β = 1 on the same rows of split 0, on one
thread in float64, and is observed outside the clock: at every step up to 100, then each time the count has
grown by 2%. Results already in the file are kept, so that a run can go on after it was stopped, and two runs
with different tables can go on side by side.

The standard error is that of the test rows' log densities, at the best observation. quality_table.py tells
the same against the best observation of any method, from the curves.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import peer
import torch
from bench import commit, processor, versions
from stopwatch import Stopwatch, clock, one_thread
from torch import Tensor

from online_laplace.data import TABLES, load_table
from online_laplace.ensemble.training import TrainingData
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.model.prior import Hyper
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture
from online_laplace.process import prepare
from online_laplace.protocol import runner
from online_laplace.protocol.specification import ONLINE_STEPS, Specification
from online_laplace.protocol.training import training
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS, Online
from online_laplace.train.trajectory import AVERAGED
from online_laplace.types import Rows

OUT = Path(__file__).parents[1] / "docs" / "data" / "time_to_quality.json"
SPLIT = 0
# Long enough that the best observation of each is inside, where an evening allows: the paper's count or this.
FEWEST_STEPS = 3000
NEWTON_STEPS = 300
USUAL_EPOCHS = 2000
# Short runs are timed several times.
REPEATS = 3


class Observation(NamedTuple):
    """The state of a run after `step` steps and `seconds`: the test rows' log densities (m,)."""

    step: int
    seconds: float
    log_density: Tensor


def observation_steps(steps: int) -> set[int]:
    """After which of so many steps to observe a run: the first hundred, then ever fewer, and the last."""
    chosen = [*range(1, 101)]
    while chosen[-1] < steps:
        chosen.append(math.ceil(1.02 * chosen[-1]))
    return {step for step in chosen if step <= steps} | {steps}


@dataclass(frozen=True)
class Task:
    """A table's split, made ready: what a method trains on, and how its predictions are judged."""

    spec: Specification
    model: Model
    data: TrainingData

    @classmethod
    def of(cls, table: str, spec: Specification) -> Task:
        return cls(spec, *runner.prepare(load_table(table), "ol", [SPLIT], spec))

    def start(self) -> tuple[Tensor, Hyper]:
        seeds = [self.spec.weight_seed(SPLIT, member) for member in range(self.spec.members)]
        w = initial_weights(self.model.network, seeds, self.spec.like())
        return w, self.model.initial_hyper(w)

    def predictive(self, w: Tensor, hyper: Hyper) -> GaussianPredictive:
        """At the test rows, in the table's units: one Gaussian a replica (r, m, 1)."""
        posterior = Posterior.of(self.model, w, hyper, self.data.train)
        return posterior.predict(self.data.test.X).to_units(self.data.units)

    def log_density(self, components: list[GaussianPredictive]) -> Tensor:
        """Of the test rows under the equal mixture of all replicas of all components: (m,)."""
        parts = zip(*map(_fields, components), strict=True)
        stacked = GaussianPredictive(*(torch.cat(values) for values in parts))
        y = self.data.units.inverse(self.data.test.y)
        return Mixture.equal(stacked).log_density(y[0])[:, 0]


def _fields(one: GaussianPredictive) -> tuple[Tensor, Tensor, Tensor]:
    return one.mean, one.function_variance, one.noise_variance.expand_as(one.mean)


def averaged(step: int) -> list[int]:
    """The steps whose predictives a run of `step` steps averages, as `train` keeps them."""
    every = max(1, step // (2 * AVERAGED))
    return list(range(every, step + 1, every))[-AVERAGED:]


def ours(task: Task, way: Online | GaussNewton, steps: int, **how: Any) -> tuple[list[Observation], dict]:
    """A run of ours, observed once and timed `repeats` times: the median seconds to each observation."""
    repeats, average = how["repeats"], how["average"]
    wanted = range(1, steps + 1) if average else observation_steps(steps)
    (w, hyper), rows = task.start(), task.data.train
    way.step(way.init(w, hyper, rows), rows)
    times: dict[int, list[float]] = {step: [] for step in wanted}
    seen: dict[int, GaussianPredictive] = {}
    densities: dict[int, Tensor] = {}
    observing = 0.0
    for repeat in range(repeats):
        watch = Stopwatch()
        state = way.init(w, hyper, rows)
        for step in range(1, steps + 1):
            state = way.step(state, rows)
            if step not in times:
                continue
            times[step].append(watch.seconds)
            if repeat == 0:
                with watch.paused():
                    began = clock()
                    seen[step] = task.predictive(state.w, state.hyper)
                    # Where `average`, what a run of that many steps would have ended with.
                    kept = [seen[s] for s in averaged(step)] if average else [seen.pop(step)]
                    densities[step] = task.log_density(kept)
                    observing = clock() - began
    observations = [Observation(step, median(times[step]), values) for step, values in densities.items()]
    return observations, {"share_of_wall": watch.share_of_wall, "seconds_of_a_look": observing}


def theirs(task: Task, epochs: int, hypersteps: int) -> Iterator[tuple[str, list[Observation], dict]]:
    """A run of laplace-torch in its two views: the weights it would return, and those it is at."""
    w, start = task.start()
    rows = Rows(task.data.train.X[0], task.data.train.y[0])
    settings = {
        "lr": task.spec.learning_rate,
        "decay": task.spec.learning_rate_decay,
        "hypersteps": hypersteps,
        "prior": task.spec.prior,
    }
    peer.train(rows, w[0], lambda epoch: epoch.number < 2, **settings)
    views: dict[str, list[Observation]] = {"returned": [], "last": []}
    wanted, seconds, observing = observation_steps(epochs), 0.0, 0.0

    def density(kept: peer.Kept) -> Tensor:
        hyper = start.with_values(kept.alpha[None], kept.beta[None])
        return task.log_density([task.predictive(kept.w[None], hyper)])

    def after_epoch(epoch: peer.Epoch) -> bool:
        nonlocal seconds, observing
        seconds += epoch.seconds
        if epoch.number in wanted:
            began = clock()
            views["returned"].append(Observation(epoch.number, seconds, density(epoch.best)))
            observing = clock() - began
            views["last"].append(Observation(epoch.number, seconds, density(epoch.last)))
        return True

    watch = Stopwatch()
    posterior, kept = peer.train(rows, w[0], after_epoch, epochs=epochs, **settings)
    # What its own predictive makes of the weights it returns, against ours of the same weights.
    mean, variance = posterior(task.data.test.X[0])
    own = GaussianPredictive(
        mean[None].detach(), variance.detach()[None, :, :, 0], posterior.sigma_noise.detach().square()
    )
    apart = task.log_density([own.to_units(task.data.units)]).mean() - density(kept).mean()
    notes = {
        "share_of_wall": watch.share_of_wall,
        "seconds_of_a_look": observing,
        "difference_of_its_own_predictive": apart.item(),
    }
    for view, observations in views.items():
        yield view, observations, notes


def summary(observations: list[Observation], notes: dict) -> dict:
    """The best observation, the first within one standard error of it, and the whole curve."""
    best = max(observations, key=lambda one: _number(one.log_density.mean().item()))
    error = (best.log_density.std() / math.sqrt(len(best.log_density))).item()
    level = best.log_density.mean().item() - error
    first = next(one for one in observations if _number(one.log_density.mean().item()) >= level)
    return {
        "steps": observations[-1].step,
        "seconds": observations[-1].seconds,
        "log_likelihood": observations[-1].log_density.mean().item(),
        "best_step": best.step,
        "best_log_likelihood": best.log_density.mean().item(),
        "standard_error": error,
        "first_step": first.step,
        "first_seconds": first.seconds,
        **notes,
        "curve": [
            [one.step, float(f"{one.seconds:.4g}"), float(f"{one.log_density.mean().item():.5g}")]
            for one in observations
        ],
    }


def _number(value: float) -> float:
    """An observation whose predictive is no number is worse than any other."""
    return value if math.isfinite(value) else -math.inf


def run_default(table: str, limit: int) -> Iterator[tuple[str, dict]]:
    way = training("default", {})
    task = Task.of(table, way.specification)
    newton = GaussNewton(task.model, MEANS[way.procedure])
    steps = min(limit, way.specification.steps)
    yield "online-laplace, default", summary(*ours(task, newton, steps, average=True, repeats=REPEATS))


def run_newton(table: str, limit: int) -> Iterator[tuple[str, dict]]:
    task = Task.of(table, Specification())
    newton = GaussNewton(task.model, MEANS["ol"])
    steps = min(limit, NEWTON_STEPS)
    yield (
        "online-laplace, OL by Gauss-Newton",
        summary(*ours(task, newton, steps, average=False, repeats=REPEATS)),
    )


def run_adam(table: str, limit: int) -> Iterator[tuple[str, dict]]:
    spec = Specification()
    task = Task.of(table, spec)
    online = Online(task.model, MEANS["ol"], spec.plan(table, "ol").adam)
    steps = min(limit, max(FEWEST_STEPS, ONLINE_STEPS[table]))
    yield "online-laplace, OL by Adam", summary(*ours(task, online, steps, average=False, repeats=1))


def run_peer(table: str, limit: int) -> Iterator[tuple[str, dict]]:
    epochs = min(limit, max(FEWEST_STEPS, ONLINE_STEPS[table]))
    for view, observations, notes in theirs(Task.of(table, Specification()), epochs, hypersteps=1):
        yield f"laplace-torch, {view}", summary(observations, notes)


def run_usual_peer(table: str, limit: int) -> Iterator[tuple[str, dict]]:
    task = Task.of(table, Specification(prior="layerwise", learning_rate_decay=1.0))
    for view, observations, notes in theirs(task, min(limit, USUAL_EPOCHS), hypersteps=10):
        yield f"laplace-torch as it comes, {view}", summary(observations, notes)


def line(table: str, label: str, found: dict) -> str:
    best = f"best {found['best_log_likelihood']:.2f} at step {found['best_step']} of {found['steps']}"
    first = f"within {found['standard_error']:.2f} at {found['first_step']}, {found['first_seconds']:.3g} s"
    return f"{table:9}{label:37}{best}; {first}"


METHODS: dict[str, Callable[[str, int], Iterator[tuple[str, dict]]]] = {
    "default": run_default,
    "newton": run_newton,
    "adam": run_adam,
    "peer": run_peer,
    "usual-peer": run_usual_peer,
}


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--limit", type=int, default=10**9, help="of steps, for a trial")
    options = parser.parse_args()
    with one_thread() as pools:
        for table in options.tables.split(","):
            for method in options.methods.split(","):
                if any(
                    (row["table"], row["method"]) == (table, method) for row in stored(options.out)["rows"]
                ):
                    continue
                rows = []
                for label, result in METHODS[method](table, options.limit):
                    print(line(table, label, result), flush=True)
                    kept = {"table": table, "split": SPLIT, "method": method, "label": label, **result}
                    rows.append(kept | {"commit": commit()})
                about = {"threads": 1, "pools": pools, "processor": processor(), "versions": versions()}
                store(options.out, rows, about)


def stored(out: Path) -> dict:
    return json.loads(out.read_text()) if out.exists() else {"rows": []}


def store(out: Path, rows: list[dict], about: dict) -> None:
    """Add rows to those that are in the file by now, in the order of tables and methods."""
    order = {name: place for place, name in enumerate((*TABLES, *METHODS))}
    rows = stored(out)["rows"] + rows
    rows.sort(key=lambda row: (order[row["table"]], order[row["method"]]))
    out.write_text(json.dumps(about | {"rows": rows}) + "\n")


if __name__ == "__main__":
    main()
