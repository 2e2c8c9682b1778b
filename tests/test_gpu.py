"""The same program on a CUDA device: the numbers of the CPU, to what rounding allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS, Online
from online_laplace.train.replay import Replay, stepper
from online_laplace.types import Rows
from problems import make_model, table_splits

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
SPLITS = [0, 1, 2]


def end_of(name: str, device: str, way: str, prior: str, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    here = table_splits(name, len(SPLITS)).train
    rows = Rows(here.X.to(device), here.y.to(device))
    network = MLP(rows.X.shape[-1])
    model = make_model(network, prior, like=rows.X)
    w = initial_weights(network, SPLITS, rows.X)
    if way == "gauss-newton":
        # a step that is not predicated puts the weights of a pruned group to zero at once, not with the next
        procedure = GaussNewton(model, MEANS["ol"], predicated=True)
    else:
        procedure = Online(model, MEANS[way])
    state = procedure.init(w, model.initial_hyper(w), rows)
    for _ in range(steps):
        state = procedure.step(state, rows)
    # γ = α ‖w‖² of each group: the α of a group whose weights are near zero magnifies what is allowed to them
    gamma = state.hyper.alpha * model.prior.sum(state.w.square())
    return state.w.cpu(), torch.cat([gamma, state.hyper.beta], dim=-1).cpu()


@pytest.mark.parametrize("prior", ["scalar", "ard"])
@pytest.mark.parametrize("name", ["yacht", "energy"])  # dual, primal
@pytest.mark.parametrize(
    ("way", "steps", "rtol"), [("ol", 60, 1e-8), ("lm", 15, 1e-6), ("gauss-newton", 15, 1e-6)]
)
def test_a_trajectory_on_the_gpu_is_the_one_on_the_cpu(name, way, prior, steps, rtol):
    if way == "lm" and prior == "ard":
        steps = 5  # LM with ARD prunes early, on rounding errors
    here, there = (end_of(name, device, way, prior, steps) for device in ("cpu", "cuda"))
    for one, other in zip(here, there, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("procedure", ["ol", "offline", "retrain"])
def test_a_record_of_the_gpu_is_the_one_of_the_cpu(procedure):
    from online_laplace.data import load_table
    from online_laplace.protocol.runner import run_procedure
    from online_laplace.protocol.specification import Specification

    spec = Specification(steps=20, observations=2, retrain_rounds=2)
    table = load_table("yacht")
    here = run_procedure(table, procedure, SPLITS, spec).records
    there = run_procedure(table, procedure, SPLITS, replace(spec, device="cuda")).records
    for one, other in zip(here, there, strict=True):
        for name in ("test_rmse", "test_log_likelihood", "alpha", "beta", "gamma", "laplace_evidence"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6), name
        assert one.outcome == other.outcome


@pytest.mark.parametrize("likelihood", ["student-t", "poisson", "gaussian"])
def test_every_likelihood_is_trained_on_the_gpu_as_on_the_cpu(likelihood):
    from online_laplace import OnlineLaplaceRegressor

    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    y = random.poisson(np.exp(0.5 * X[:, 0] + 1)).astype(float)
    settings = {"hidden": 5, "members": 2, "max_steps": 12, "likelihood": likelihood, "random_state": 0}
    here, there = (OnlineLaplaceRegressor(device=device, **settings).fit(X, y) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(here.predict(X), there.predict(X), rtol=1e-5, atol=1e-5)


def test_the_product_of_some_rows_is_taken_where_they_lie():
    from online_laplace.curvature.kernels import gram

    whole = torch.randn(3, 90, 70, dtype=torch.float64, device="cuda")
    for A in (whole, whole[:, 10:75], whole[..., :40], whole[1]):
        torch.testing.assert_close(gram([A]).triu(), (A.mT @ A).triu())


@pytest.mark.parametrize("name", ["yacht", "energy"])  # layered, primal
def test_recorded_gauss_newton_steps_are_those_from_python(name):
    here = table_splits(name, len(SPLITS)).train
    rows = Rows(here.X.cuda(), here.y.cuda())
    network = MLP(rows.X.shape[-1])
    model = make_model(network, like=rows.X)
    w = initial_weights(network, SPLITS, rows.X)
    procedure = GaussNewton(model, MEANS["ol"])
    state = procedure.init(w, model.initial_hyper(w), rows)
    take_steps = stepper(procedure, state, rows)
    assert isinstance(take_steps, Replay)
    recorded = take_steps(take_steps(state, 9), 3)
    for _ in range(12):
        state = procedure.step(state, rows)
    assert recorded.step == state.step == 12
    for one, other in ((recorded.w, state.w), (recorded.hyper.alpha, state.hyper.alpha)):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
