"""The structure of a model's curvature reaches everything above the core."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from online_laplace.curvature import diagonal, exact
from online_laplace.data import load_table
from online_laplace.data.scaling import Scaler
from online_laplace.ensemble.failures import usable_snapshots
from online_laplace.errors import InputError
from online_laplace.estimators.fitted.networks import FittedNetworks
from online_laplace.protocol.runner import prepare, run_procedure
from online_laplace.protocol.specification import Specification
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows

YACHT = load_table("yacht")


@pytest.mark.parametrize("optimiser", ["adam", "gauss-newton"])
def test_a_diagonal_curvature_trains_is_observed_and_predicts(optimiser):
    spec = Specification(
        hidden=(4,), steps=60, observations=3, members=2, optimiser=optimiser, form="diagonal"
    )
    run = run_procedure(YACHT, "ol", [0, 1], spec)
    trained = run.trained[0]
    evidence = trained.history.trace("laplace_evidence")
    assert (evidence[-1] > evidence[0]).all()
    assert all(record.test_log_likelihood is not None for record in run.records)

    model, data = prepare(YACHT, "ol", [0, 1], spec)
    assert model.curvature is diagonal
    snapshots, usable = usable_snapshots(model, data.train, trained)
    assert usable == [0, 1, 2, 3]
    one = Snapshots(*(values[:1].flatten(0, 1) for values in snapshots))
    rows = Rows(data.train.X[0], data.train.y[0])
    unscaled = Scaler(np.zeros(6), np.ones(6)), Scaler(np.zeros(1), np.ones(1))
    networks = FittedNetworks(model, one, rows, *unscaled)
    mixture = networks.mixture(rows.X.numpy())
    # j(x)ᵀ diag(h)⁻¹ j(x) by hand, with h = β Σ J² + α
    J = model.network.linearise(one.w[0], rows.X)[1].whole[:, 0]
    h = one.beta[0] * J.square().sum(0) + one.alpha[0]
    torch.testing.assert_close(mixture.within_variance[:, 0], (J.square() / h).sum(-1), rtol=1e-10, atol=0)


@pytest.mark.parametrize("procedure", ["lm", "offline"])
def test_what_needs_the_mode_refuses_a_curvature_that_does_not_know_it(procedure):
    spec = Specification(hidden=(4,), steps=5, observations=1, form="diagonal")
    with pytest.raises(
        InputError, match=f"{procedure} needs the mode .* the diagonal curvature does not know"
    ):
        run_procedure(YACHT, procedure, [0], spec)


def test_the_name_of_a_structure_in_a_protocol_is_the_structure_of_its_model():
    model, _ = prepare(YACHT, "ol", [0], Specification(hidden=(4,)))
    assert model.curvature is exact
