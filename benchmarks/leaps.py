"""How many updates the hyperparameters take at fixed weights, with leaps and without.

    python benchmarks/leaps.py [docs/data/leaps.json]

Two networks of 20 units on splits 10 and 11, after 25 Gauss-Newton steps; then MacKay's iteration from
α = β = 1 to |Δ log| < 1e-9.
"""

from __future__ import annotations

import json
import sys

from online_laplace.curvature import exact
from online_laplace.data import load_table
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.likelihood import Gaussian
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.model.prior import PRIORS
from online_laplace.protocol.runner import prepare
from online_laplace.protocol.specification import Specification
from online_laplace.train.gauss_newton import GaussNewton


def rows_of(name: str) -> list[dict]:
    spec = Specification(hidden=(20,))
    model, data = prepare(load_table(name), "ol", [10, 11], spec)
    w = initial_weights(model.network, [1, 2], spec.like())
    newton = GaussNewton(model, at_weights)
    state = newton.init(w, model.initial_hyper(w), data.train)
    for _ in range(25):
        state = newton.step(state, data.train)
    tangent = model.linearise(state.w, data.train)
    rows = []
    for prior in PRIORS:
        start = Model.of(model.network, Gaussian(), prior, exact, w).initial_hyper(w)
        for mean, objective in ((at_weights, "L_f"), (at_mode, "L_h")):
            plain, leapt = (
                maximise_evidence(
                    tangent, start, mean, exact, leap=leap, tolerance=1e-9, max_updates=3000
                ).updates
                for leap in (False, True)
            )
            rows.append(
                {"table": name, "prior": prior, "objective": objective, "plain": plain, "leaps": leapt}
            )
    return rows


if __name__ == "__main__":
    found = rows_of("yacht") + rows_of("concrete")
    for row in found:
        print(row)
    with open(sys.argv[1] if len(sys.argv) > 1 else "docs/data/leaps.json", "w") as file:
        json.dump(found, file, indent=1)
