"""The numbers people read are those of the stored runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest
import torch
from safetensors.torch import load_file

from online_laplace.data import TABLES, load_table
from online_laplace.protocol.runner import run_procedure
from online_laplace.protocol.specification import Specification

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def stored_fits() -> list[dict]:
    return json.loads((ROOT / "docs/data/presets.json").read_text())["fits"]


def stored(configuration: str) -> list[dict]:
    if configuration in ("fast", "balanced", "best"):
        return [
            {"table": fit["table"], "split": fit["split"]}
            | {"test_log_likelihood": fit["log_likelihood"], "test_rmse": fit["rmse"]}
            for fit in stored_fits()
            if fit["preset"] == configuration
        ]
    if configuration == "catboost":
        tables = json.loads((ROOT / "docs/data/peers_test.json").read_text())["tables"]
        return [
            {"table": table, "split": one["split"]}
            | {"test_log_likelihood": one["log_likelihood"], "test_rmse": one["rmse"]}
            for table, models in tables.items()
            for one in models["catboost"]
        ]
    if configuration == "deep ensembles":
        records: list[dict] = json.loads((ROOT / "docs/data/deep_ensemble.json").read_text())
        return records
    if configuration == "paper":
        paper = json.loads((ROOT / "results/paper/results.json").read_text())
        return [record for record in paper["records"] if record["procedure"] == "ol"]
    scores = json.loads((ROOT / "docs/data/default_scores.json").read_text())
    return [row for row in scores if row["configuration"] == configuration]


@pytest.mark.parametrize(
    ("row", "configuration"),
    [
        ("online-laplace, `best`", "best"),
        ("online-laplace, `balanced`, the default", "balanced"),
        ("online-laplace, `fast`", "fast"),
        ("online-laplace, one network of 50 units, 5 members", "default, 5 members"),
        ("the paper's OL, our stored run", "paper"),
        ("CatBoost, `RMSEWithUncertainty`", "catboost"),
        ("deep ensembles, 5 networks", "deep ensembles"),
    ],
)
def test_the_readme_quotes_the_stored_runs(row, configuration):
    line = next(line for line in README.splitlines() if line.startswith(f"| {row} |"))
    cells = [cell.replace("**", "").replace("−", "-") for cell in line.split("|")[2:-1]]
    records = stored(configuration)
    for table, cell in zip(TABLES, cells, strict=True):
        mine = [record for record in records if record["table"] == table]
        assert len(mine) >= 9
        log_likelihood, rmse = (float(number) for number in re.findall(r"-?\d+\.\d+", cell))
        assert log_likelihood == round(mean(record["test_log_likelihood"] for record in mine), 2)
        assert rmse == round(mean(record["test_rmse"] for record in mine), 2)


def test_the_readme_tells_what_a_fit_costs():
    measured = json.loads((ROOT / "docs/data/preset_cost.json").read_text())["tables"]
    spans = [[round(each[preset]["fit"]) for each in measured.values()] for preset in ("fast", "balanced")]
    best = [fit for fit in stored_fits() if fit["preset"] == "best"]
    spans.append([round(mean(f["cpu_seconds"] for f in best if f["table"] == table)) for table in TABLES])
    fast, balanced, slow = (f"{min(span)} to {max(span)}" for span in spans)
    said = f"{fast} seconds with `fast` and {balanced} seconds with `balanced` on two cores, and {slow} CPU"
    assert said in " ".join(README.split())


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("project/choices", "choices"),
        ("results/regression", "scores"),
        ("gauss-newton", "arrivals"),
        ("gauss-newton", "leaps"),
        ("gauss-newton", "bends"),
    ],
)
def test_the_tables_of_the_docs_are_those_that_their_script_prints(page, table):
    command = [sys.executable, ROOT / "benchmarks/tables.py", table]
    _check_printed(command, page)


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("results/regression", "scores"),
        ("results/regression", "weights"),
        ("results/regression", "paired"),
        ("results/regression", "further"),
        ("results/regression", "cost"),
        ("results/calibration", "coverage"),
        ("results/evidence-or-held-out", "picked"),
        ("project/choices", "development"),
    ],
)
def test_the_tables_of_the_presets_are_those_that_their_script_prints(page, table):
    _check_printed([sys.executable, ROOT / "benchmarks/preset_tables.py", table], page)


def _check_printed(command, page):
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    assert printed.count("\n") > 3
    assert printed in (ROOT / f"docs/{page}.md").read_text()


@pytest.mark.parametrize(
    ("row", "data", "splits"),
    [
        ("laplace-torch, 1000 epochs", "laplace_torch.json", range(2)),
        ("our OL with Adam, the paper's steps", "paper", range(2)),
        ("network of 50 units, 1 member", "default, 1 member", range(2)),
        ("network of 50 units, 5 members", "default, 5 members", range(2)),
    ],
)
def test_the_comparison_with_laplace_torch_quotes_the_stored_runs(row, data, splits):
    page = (ROOT / "docs/results/regression.md").read_text().partition("### laplace-torch")[2]
    line = next(line for line in page.splitlines() if line.startswith(f"| {row} |"))
    if data.endswith(".json"):
        records = json.loads((ROOT / "docs/data" / data).read_text())
    else:
        records = stored(data)
    for table, cell in zip(TABLES, line.split("|")[2:-1], strict=True):
        mine = [record for record in records if record["table"] == table and record["split"] in splits]
        assert len(mine) == len(splits)
        means = [mean(record[key] for record in mine) for key in ("test_log_likelihood", "test_rmse")]
        assert cell.replace("**", "").strip() == f"{means[0]:.2f}; {means[1]:.2f}"


def test_the_results_of_classes_are_those_of_the_stored_runs():
    program = [sys.executable, "benchmarks/classifier.py", "docs/data/classifier.json", "--table"]
    lines = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert lines in (ROOT / "docs/results/classes.md").read_text()


@pytest.mark.parametrize(
    ("table", "procedure", "step"),
    [("housing", "ol", 10), ("housing", "lm", 10), ("concrete", "ol", 20), ("yacht", "offline", 300)],
)
def test_the_stored_paper_run_begins_as_the_code_of_today_does(table, procedure, step):
    arrays = load_file(ROOT / "results/paper/arrays.safetensors")
    run = run_procedure(load_table(table), procedure, [0], Specification(steps=step, observations=1))
    today = run.trained[0].history.arrays()
    place = arrays[f"{table}/{procedure}/0/history.steps"].tolist().index(step)
    for name in ("alpha", "beta", "laplace_evidence", "tangent_evidence", "test.rmse"):
        then = arrays[f"{table}/{procedure}/0/history.{name}"][place].double().reshape(-1)
        # kept in float32
        torch.testing.assert_close(today[name][-1].reshape(-1), then, rtol=1e-6, atol=0)


def test_the_pages_count_the_claims_as_the_report_does():
    report = (ROOT / "results/paper/report.md").read_text()
    counts = r"Of (\d+) claims tested, (\d+ hold on every table, \d+ on some and \d+ on none)"
    found = re.search(counts, report)
    assert found is not None
    for name in ("README.md", "docs/reproduce.md"):
        page = " ".join((ROOT / name).read_text().split())
        assert found[1] in page and found[2] in page
    rows = [line for line in report.splitlines() if line.startswith("| ")]
    page = (ROOT / "docs/reproduce.md").read_text()
    for table in TABLES:
        line = next(row for row in rows if row.startswith(f"| {table} |"))
        assert re.sub(" [★•]", "", line) in page
