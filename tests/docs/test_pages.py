"""Every code block of the documentation and of the README runs, and prints what the page says it prints."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from online_laplace import core
from page_blocks import MARKER, ROOT, SHELL, agrees, blocks, run_python, run_shell

PAGES = sorted((ROOT / "docs").rglob("*.md"))
README = ROOT / "README.md"
# Languages of blocks that are shown and not run: an equation, a file's contents, a sketch.
SHOWN = ("text", "json", "csv")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, where nothing is shown on a screen and the paper's report is not drawn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "100")

    def write_report(results: Any, folder: Path) -> Path:
        """Its figures take most of a minute, and have tests of their own."""
        return folder / "report.html"

    monkeypatch.setattr("online_laplace.cli.drawing.write_report", write_report)
    return tmp_path


def run(page: Path) -> dict[str, Any]:
    """Run its blocks one after another; the names that they leave."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        where = f"{named(page)}:{block.line}"
        # A language in braces is a directive of the site: a list of pages, a reference, a warning.
        if block.not_run or block.language in (*SHOWN, "indented") or block.language.startswith("{"):
            continue
        if block.language == "python":
            printed = run_python(block.code, where, names)
        elif block.language in SHELL:
            printed = run_shell(block.code)
        else:
            pytest.fail(f"{where}: a block of {block.language or 'no'} language is neither run nor shown")
        if block.shown is not None:
            assert agrees(block.shown, printed), f"{where} printed something else:\n{printed}"
    return names


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=named)
def test_the_code_of_the_page_runs(page: Path) -> None:
    run(page)


@pytest.mark.usefixtures("folder")
def test_the_code_of_the_readme_runs() -> None:
    # What is indented there is about make, which is what runs these tests.
    indented = [block for block in blocks(README) if block.language == "indented"]
    assert all(line.startswith("make ") for block in indented for line in block.code.splitlines() if line)
    run(README)


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    """What the skeletons for newcomers define."""
    return run(ROOT / "CONTRIBUTING.md")


def counts() -> core.Rows:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(30, 2, generator=generator, dtype=torch.float64)
    return core.Rows(X, torch.poisson((0.5 + X[:, :1]).exp(), generator=generator))


def test_the_skeleton_of_a_likelihood_is_one(parts: dict[str, Any]) -> None:
    rows, likelihood = counts(), parts["Poisson"]()
    f = (0.3 * rows.X[:, 1:] - 0.2).requires_grad_()
    minus_log_p = -torch.distributions.Poisson(f.exp()).log_prob(rows.y).sum()
    (gradient,) = torch.autograd.grad(minus_log_p, f)
    z, root, loss = likelihood.local(f.detach(), rows.y)
    assert loss.shape == (30,)
    torch.testing.assert_close(loss.sum(), minus_log_p.detach())
    torch.testing.assert_close(-(root @ z.unsqueeze(-1)).squeeze(-1), gradient)
    torch.testing.assert_close((root @ root.mT).squeeze(-1), f.exp().detach())  # the Hessian, e^f
    f_new = f.detach() + 0.1 * rows.X[:, :1]
    fall = likelihood.fall(f.detach(), f_new, rows.y)
    torch.testing.assert_close(fall.sum(-1), loss - likelihood.local(f_new, rows.y).loss)
    assert likelihood.predict(f_new, torch.zeros(30, 1, 1), torch.ones(1)).mean.shape == (30, 1)


@pytest.mark.parametrize("replicas", [(), (3,)])
def test_the_skeletons_of_a_structure_and_a_prior_agree_with_ours(
    parts: dict[str, Any], replicas: tuple[int, ...]
) -> None:
    network, rows = core.MLP(2, (3,)), counts()
    labels = parts["labels_of"](network)
    ours, dense = (
        core.Model.of(network, parts["Poisson"](), labels, one) for one in (core.exact, parts["dense"])
    )
    assert ours.prior.names == ("layer 0.weight", "biases", "layer 1.weight")
    w = network.init(0).expand(*replicas, -1)
    hyper, tangent = ours.initial_hyper(w, alpha=0.7), ours.linearise(w, rows)
    H, D = (model.precision(tangent, hyper) for model in (ours, dense))
    J = network.linearise(w, rows.X[:4])[1].whole
    for name, given in {
        "solve": [w], "log_contraction": [], "group_gamma": [], "covariance": [J], "joint_covariance": [J],
    }.items():  # fmt: skip
        torch.testing.assert_close(getattr(D, name)(*given), getattr(H, name)(*given))
    assert D.sample(5, torch.Generator().manual_seed(0)).shape == (*replicas, 5, network.d_w)
    halves = [dense.linearise(w, rows.part(part)) for part in (slice(0, 9), slice(9, 30))]
    added = dense.ggn(halves[0]) + dense.ggn(halves[1])
    torch.testing.assert_close(added.at(hyper).log_contraction(), H.log_contraction())


def test_the_skeleton_of_a_procedure_trains_with_the_other_skeletons(parts: dict[str, Any]) -> None:
    network, rows = core.MLP(2, (3,)), counts()
    model = core.Model.of(network, parts["Poisson"](), parts["labels_of"](network), parts["dense"])
    w = core.initial_weights(network, [0, 1], rows.X)
    procedure = parts["PlainOnline"](model, core.at_weights, rate=1e-2)
    monitor = core.Monitor(lambda state: core.observe(model, state.w, state.hyper, rows), every=25)
    start = procedure.init(w, model.initial_hyper(w), rows)
    end, history = core.run(procedure, start, rows, 50, monitor)
    assert history.steps == [0, 25, 50]
    evidence = history.trace("laplace_evidence")
    assert (evidence[-1] > evidence[0]).all()
    assert [outcome.kind for outcome in end.outcomes()] == ["step limit"] * 2


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_code_of_the_page_escapes(page: Path) -> None:
    """Indented code has no language, so it could not be run; a marker must stand right before a block."""
    assert not [block for block in blocks(page) if block.language == "indented"]
    marked = [block for block in blocks(page) if block.not_run]
    assert len(marked) == len(MARKER.findall(page.read_text()))


def test_the_table_of_coverages_is_that_of_the_stored_run() -> None:
    names = runpy.run_path(str(ROOT / "benchmarks" / "calibration_table.py"))
    page = names["PAGE"].read_text()
    assert names["filled"](page, json.loads(names["DATA"].read_text())) == page


def test_an_output_agrees_when_its_words_do_and_its_numbers_nearly() -> None:
    assert agrees("noise 0.20 of 3\n", "noise   0.21 of 3")
    assert not agrees("noise 0.20 of 3\n", "noise 0.40 of 3")
    assert not agrees("noise 0.20\n", "nose 0.20")
    assert agrees("first 1 …\nlast 2\n", "first 1 in 0.3 s\nlast 2")
