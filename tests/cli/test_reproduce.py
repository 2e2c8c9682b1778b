"""`online-laplace reproduce`, and what it says when it cannot."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from online_laplace.cli import drawing
from online_laplace.cli.main import main
from online_laplace.errors import InputError
from online_laplace.protocol.profile import Unit, named_profile, override
from online_laplace.protocol.specification import Specification

TINY = [
    "--tables",
    "yacht",
    "--splits",
    "2",
    "--set",
    "hidden=4",
    "--set",
    "steps=8",
    "--set",
    "observations=4",
]


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["online-laplace", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_one_command_trains_draws_and_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert command(monkeypatch, "reproduce", *TINY, "--out", str(out), "--workers", "1") == 0
    assert "Held-out results" in capsys.readouterr().out
    assert (out / "report.html").stat().st_size > 100_000
    assert (out / "report.md").read_text().startswith("# ")
    assert len(list((out / "figures").glob("*.pdf"))) == 10

    shutil.rmtree(out / "figures")
    assert command(monkeypatch, "redraw", str(out)) == 0
    assert len(list((out / "figures").glob("*.png"))) == 10
    assert "older" not in capsys.readouterr().out


def test_an_export_is_drawn_from_the_copy_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_store: Path
) -> None:
    drawn = []
    monkeypatch.setattr(drawing, "write_report", lambda results, folder: drawn.append((results, folder)))
    assert command(monkeypatch, "export", str(tiny_store), str(tmp_path / "kept")) == 0
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"results.json", "arrays.safetensors"}
    ((results, folder),) = drawn
    assert folder == tmp_path / "kept"
    assert results.arrays[Unit("yacht", "ol", 0)]["history.alpha"].dtype == "float32"
    assert command(monkeypatch, "export", str(tiny_store), str(tmp_path / "kept")) == 0  # over its own


@pytest.mark.parametrize(
    ("name", "message"),
    [("mine", "report.md exists and was not written by"), ("store/results", "lies in"), ("store", "lies in")],
)
def test_an_export_overwrites_neither_its_source_nor_files_of_the_users(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tiny_store: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    message: str,
) -> None:
    monkeypatch.setattr(drawing, "write_report", lambda results, folder: folder)
    shutil.copytree(tiny_store, tmp_path / "store")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.md").write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    assert command(monkeypatch, "export", str(tmp_path / "store"), str(tmp_path / name)) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "mine/report.md").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile", "papr"], "did you mean 'paper'"),
        (["--tables", "yatch"], "did you mean 'yacht'"),
        (["--set", "activatoin=relu"], "did you mean 'activation'"),
        (["--set", "alpha=minus"], "alpha cannot be 'minus': it takes a number, and is now 1.0"),
        (["--set", "steps=abc"], "steps cannot be 'abc': it takes a whole number\n"),
        (["--set", "hidden=wide"], "it takes whole numbers such as 50 or [50,50], and is now [50]"),
        (["--set", "alpha"], "name=value"),
        (["--splits", "0"], "--splits must be at least 1"),
        (["--out", "/dev/null/runs"], "cannot be written"),
        (["--out", "/dev/null"], "is a file"),
        (["--backend", "dask"], "--scheduler"),
        (["--backend", "cloud"], "unknown backend"),
        (["--workers", "0"], "--workers must be at least 1"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, "reproduce", *arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["redraw", "export"])
def test_a_folder_without_results_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    arguments = [name, str(tmp_path), *([str(tmp_path / "x")] if name == "export" else [])]
    assert command(monkeypatch, *arguments) == 2
    assert f"{tmp_path} holds no results" in capsys.readouterr().err


def test_any_setting_can_be_given_as_name_and_value() -> None:
    given = ["activation=relu", "hidden=[8,4]", "steps=7", "alpha=2", "tolerance=1e-3"]
    spec = override(Specification(), given)
    assert spec == Specification(activation="relu", hidden=(8, 4), steps=7, alpha=2.0, tolerance=1e-3)
    with pytest.raises(InputError, match="hidden"):
        override(Specification(), ["hidden=wide"])


def test_the_paper_profile_is_five_tables_ten_splits_and_the_papers_steps() -> None:
    profile = named_profile("paper")
    steps = {
        (b.table, b.procedure): profile.specification_for(b).steps
        for b in profile.batches()
        if b.splits == tuple(range(10))
    }
    online = {"housing": 1000, "wine": 1000, "concrete": 2000, "energy": 30000, "yacht": 10000}
    assert steps == {
        **{(table, procedure): n for table, n in online.items() for procedure in ("ol", "lm")},
        **{(table, "offline"): 30000 for table in online},
    }


def test_an_experiment_runs_with_torch_numpy_scipy_and_safetensors_alone(tmp_path: Path) -> None:
    script = """
import sys
for name in ("typer", "rich", "pydantic", "joblib", "matplotlib", "sklearn", "pandas", "PIL"):
    sys.modules[name] = None
from online_laplace.workers.run_profile import main
sys.exit(main(sys.argv[1:]))
"""
    settings = [
        "--set",
        "hidden=4",
        "--set",
        "steps=6",
        "--set",
        "observations=3",
        "--splits",
        "2",
        "--tables",
        "yacht",
    ]
    where = ["--out", str(tmp_path / "store")]
    done = subprocess.run(
        [sys.executable, "-c", script, *settings, *where], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "yacht-offline-0-1 done, " in done.stderr
    assert "3 of 3 batches" in done.stderr
    assert len(list((tmp_path / "store/results").rglob("*.json"))) == 6
