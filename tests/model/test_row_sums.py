"""Sums over mini-batches, and over processes that each hold some of the rows, are those over all rows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.curvature import diagonal, dual, exact, primal, spectral
from online_laplace.errors import InputError
from online_laplace.evidence import laplace_evidence, tangent_evidence
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, mackay_update, statistics
from online_laplace.likelihood import Bernoulli, Categorical, Poisson, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.tangent import TangentModel
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.observe import observe
from online_laplace.train.online import Online
from online_laplace.types import Rows
from problems import make_model, normal
from second_order import LIKELIHOODS, likelihood_case, targets_for

every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
forms = pytest.mark.parametrize("form", [primal, diagonal], ids=lambda form: form.name)


def close(mine, theirs, tolerance=1e-10):
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


@every_likelihood
@given(seed=st.integers(0, 1000), batches=st.integers(2, 5))
def test_shuffled_mini_batches_add_up_to_the_full_batch(likelihood, seed, batches):
    case = likelihood_case(likelihood, 23, primal, prior="layerwise", replicas=(2,), seed=seed)
    order = torch.randperm(23, generator=torch.Generator().manual_seed(seed))
    parts = [case.model.linearise(case.w, case.rows.part(some)) for some in order.chunk(batches)]
    whole, hyper = case.tangent, case.hyper
    sums = parts[0].sums
    ggns = {form: form(parts[0], hyper.prior) for form in (primal, diagonal)}
    for part in parts[1:]:
        sums = sums + part.sums
        ggns = {form: ggn + form(part, hyper.prior) for form, ggn in ggns.items()}
    assert sums.n == whole.sums.n == 23
    close(sums.loss, whole.sums.loss)
    close(sums.misfit, whole.sums.misfit)
    close(sums.pull, whole.sums.pull)
    close(sums.nn_loss(hyper, case.w), case.model.nn_loss(case.w, case.rows, hyper))
    close(sums.gradient(hyper, case.w), whole.gradient(hyper))
    b = normal(*case.w.shape, seed=5)
    for form, ggn in ggns.items():
        mine, theirs = ggn.at(hyper), form(whole, hyper.prior).at(hyper)
        for read in (
            lambda H: H.solve(b),
            lambda H: H.log_contraction(),
            lambda H: H.group_gamma(),
            lambda H: H.scale_gamma(),
        ):
            close(read(mine), read(theirs))


class Meeting:
    """Threads that each hold some of the rows, and meet to add up their sums."""

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties, timeout=20)
        self.brought: list[torch.Tensor | None] = [None] * parties

    def reduce(self, who: int):
        def meet(part: torch.Tensor) -> torch.Tensor:
            # what was brought is a copy: nobody may change another's numbers
            self.brought[who] = part.detach().clone()
            self.barrier.wait()
            first, *others = self.brought
            total = first.clone()
            for other in others:
                total += other
            self.barrier.wait()
            return total

        return meet


@pytest.fixture
def no_lock_between_processes(monkeypatch):
    """Before Python 3.12 a cached property locks out other threads while it is computed."""
    for value in vars(TangentModel).values():
        if hasattr(value, "lock"):
            monkeypatch.setattr(value, "lock", nullcontext())


def in_processes(work, model, rows, parties=2):
    """`work(model, rows)` by threads that share the rows between them, and by one that has them all."""
    meeting = Meeting(parties)
    cuts = [round(i * rows.n / (parties + 0.5)) for i in range(parties)] + [rows.n]  # not equal shares

    def one(who):
        mine = replace(model, reduce=meeting.reduce(who))
        try:
            return work(mine, rows.part(slice(cuts[who], cuts[who + 1])))
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(parties) as pool:
        shared = list(pool.map(one, range(parties)))
    return shared, work(model, rows)


def assert_same(shared, whole, tolerance=1e-9):
    """Every process has the same numbers to the last bit, and they are those of one that has all rows."""
    for other in shared[1:]:
        assert all(map(torch.equal, other, shared[0]))
    for mine, theirs in zip(shared[0], whole, strict=True):
        close(mine, theirs, tolerance)


@pytest.mark.usefixtures("no_lock_between_processes")
@every_likelihood
@forms
@pytest.mark.parametrize("parties", [2, 3])
def test_processes_agree_on_loss_gradient_evidence_and_update(likelihood, form, parties):
    case = likelihood_case(likelihood, 23, form, prior="layerwise", replicas=(2,))
    w, hyper = case.w, case.hyper

    def work(model, rows):
        tangent = model.linearise(w, rows)
        H = model.precision(tangent, hyper)
        numbers = [
            torch.as_tensor(tangent.n, dtype=torch.float64),
            model.nn_loss(w, rows, hyper),
            tangent.nn_loss(hyper),
            tangent.misfit,
            tangent.gradient(hyper),
            laplace_evidence(tangent, hyper, H),
            H.newton_step(tangent, hyper),
            H.log_contraction(),
            H.group_gamma(),
            H.scale_gamma(),
        ]
        means = [at_weights]
        if form.exact:
            numbers.append(tangent_evidence(tangent, hyper, H))
            means.append(at_mode)
        for mean in means:
            updated = mackay_update(hyper, statistics(tangent, hyper, H, mean(tangent, hyper, H)))
            numbers += [updated.alpha, updated.beta]
        info = observe(model, w, hyper, rows)
        return [*numbers, *info.certificate, info.tangent_evidence]

    assert_same(*in_processes(work, case.model, case.rows, parties))


def teachable(likelihood, n=30):
    """Rows with something to learn in them."""
    X = normal(n, 2, seed=0)
    signal = torch.cat([torch.sin(2 * X[:, :1]), X[:, :1] - X[:, 1:], -X[:, 1:]], dim=-1)
    if isinstance(likelihood, Categorical):
        noisy = 3 * signal[:, : likelihood.classes] + normal(n, likelihood.classes, seed=1)
        return Rows(X, torch.eye(likelihood.classes, dtype=torch.float64)[noisy.argmax(-1)])
    if isinstance(likelihood, Bernoulli):
        return Rows(X, (signal[:, :1] + 0.3 * normal(n, 1, seed=1) > 0).to(torch.float64))
    if isinstance(likelihood, Poisson):
        rate = (1 + signal[:, : likelihood.targets]).exp()
        return Rows(X, torch.poisson(rate, torch.Generator().manual_seed(1)))
    return Rows(X, signal[:, : likelihood.targets] + 0.3 * targets_for(likelihood, n, seed=1))


TRAINERS = {
    "ol by Adam": lambda model: Online(model, at_weights, Adam(lr=0.03)),
    "lm by Adam": lambda model: Online(model, at_mode, Adam(lr=0.03)),
    "ol by Gauss-Newton": lambda model: GaussNewton(model, at_weights),
    "lm by Gauss-Newton": lambda model: GaussNewton(model, at_mode),
}


@pytest.mark.usefixtures("no_lock_between_processes")
@every_likelihood
@pytest.mark.parametrize(
    ("form", "trainer"),
    [
        pytest.param(form, trainer, id=f"{trainer}, {form.name}")
        for form in (primal, diagonal)
        for trainer in TRAINERS
        if form.exact or trainer.startswith("ol")
    ],
)
def test_processes_walk_the_way_of_one(likelihood, form, trainer):
    model = make_model(MLP(2, (3,), likelihood.outputs), likelihood=likelihood, curvature=form)
    rows = teachable(likelihood)
    w = torch.stack([model.network.init(seed) for seed in range(2)])

    def work(model, rows):
        procedure = TRAINERS[trainer](model)
        state = procedure.init(w, model.initial_hyper(w), rows)
        path = []
        for _ in range(10):
            state = procedure.step(state, rows)
            path += [state.w, state.hyper.alpha, state.hyper.beta, state.best.evidence]
        assert state.ending.running.all()
        return path

    shared, whole = in_processes(work, model, rows)
    assert (whole[-4] - w).abs().max() > 0.01  # they went somewhere
    assert_same(shared, whole)


@pytest.mark.usefixtures("no_lock_between_processes")
@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
@pytest.mark.parametrize(("form", "mean"), [(primal, at_weights), (primal, at_mode), (diagonal, at_weights)])
def test_processes_tune_hyperparameters_as_one_does(form, mean, prior):
    model = make_model(MLP(2, (3,)), prior, curvature=form)
    rows = teachable(model.likelihood)
    w = normal(2, model.network.d_w, seed=4)

    def work(model, rows):
        tangent = model.linearise(w, rows)
        tuned = maximise_evidence(tangent, model.initial_hyper(w), mean, form, max_updates=20)
        return [tuned.hyper.alpha.log(), tuned.hyper.beta.log(), tuned.gamma]

    assert_same(*in_processes(work, model, rows), tolerance=1e-7)


@every_likelihood
@pytest.mark.usefixtures("no_lock_between_processes")
def test_processes_descend_the_way_of_one(likelihood):
    model = make_model(MLP(2, (3,), likelihood.outputs), "layerwise", likelihood=likelihood)
    rows = teachable(likelihood)
    w = torch.stack([model.network.init(seed) for seed in range(2)])

    def work(model, rows):
        descent = Descent(model, Adam(lr=0.03))
        state = descent.init(w, model.initial_hyper(w, alpha=0.3, beta=2.0), rows)
        for _ in range(10):
            state = descent.step(state, rows)
        return [state.w]

    shared, whole = in_processes(work, model, rows)
    assert (whole[0] - w).abs().max() > 0.01
    assert_same(shared, whole)


@pytest.mark.parametrize("form", [dual, spectral], ids=lambda form: form.name)
def test_forms_that_need_all_rows_refuse_a_part_of_them(form):
    case = likelihood_case(VaryingGaussian(), 5, form)
    model = replace(case.model, reduce=lambda total: total)
    with pytest.raises(InputError, match=f"the {form.name} form needs all rows in one process: use primal"):
        model.ggn(model.linearise(case.w, case.rows))
    # and the cheaper form is then the one that adds up
    assert type(exact(model.linearise(case.w, case.rows), model.prior)).__name__ == "PrimalGGN"
