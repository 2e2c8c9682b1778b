"""What people install: the wheel and the sdist, in an environment that has nothing but what they ask for.

Nothing is downloaded. A bare environment gets links to the packages of this one that the wheel requires, and
to no others, so that a forgotten requirement is an import that fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = re.search(r'= "(.+)"', (ROOT / "src/online_laplace/_version.py").read_text())[1]


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run it as a user would, with nothing of ours on the path."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, cwd=cwd, env=clean)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("release")
    # A copy, so that building leaves nothing behind here.
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "site", "runs")
    source = shutil.copytree(ROOT, folder / "source", ignore=unwanted)
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


def required(texts: list[str], extra: str = "") -> set[str]:
    """The names of all distributions behind these requirements, and behind those."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in texts]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if one.marker is not None and not any(one.marker.evaluate({"extra": e}) for e in ("", extra)):
            continue
        if name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or []:
            inner = Requirement(text)
            extras = one.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(Requirement(text.partition(";")[0]))
    return found


def link(one: Distribution, site: Path) -> None:
    """Everything that a distribution has put into our site-packages, as links in another."""
    here = Path(str(one.locate_file(""))).resolve()
    tops = {file.parts[0] for file in one.files or [] if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        target = site / top
        if not target.exists() and (here / top).exists():
            target.symlink_to(here / top)


def environment(folder: Path, wheel: Path, extras: tuple[str, ...]) -> Path:
    """A bare environment with the wheel, what it requires, and what these extras of it require."""
    assert run(sys.executable, "-m", "venv", "--without-pip", folder).returncode == 0
    (site,) = folder.glob("lib/python*/site-packages")
    texts = [*PROJECT["dependencies"], *(t for e in extras for t in PROJECT["optional-dependencies"][e])]
    for name in sorted(required(texts)):
        link(distribution(name), site)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    done = run(*pip, "install", "--no-deps", "--no-index", "--quiet", wheel)
    assert done.returncode == 0, done.stderr
    checked = run(*pip, "check")
    assert checked.returncode == 0, checked.stdout
    return folder / "bin"


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("bare") / "venv", wheel, ())


@pytest.fixture(scope="module")
def with_extras(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("extras") / "venv", wheel, ("tables", "pages"))


def test_the_wheel_has_all_of_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {name for name in names if name.startswith("online_laplace/")}
    info = f"online_laplace-{VERSION}.dist-info/"
    assert {name for name in names - inside if not name.startswith(info)} == set()
    package = ROOT / "src" / "online_laplace"
    ours = {
        f"online_laplace/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours == inside
    assert f"{info}licenses/LICENSE" in names


def test_the_sdist_has_what_it_takes_to_build_and_to_read_on(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    names = {name.partition("/")[2] for name in tarfile.open(path).getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "SECURITY.md", "CHANGELOG.md"} <= names
    assert not [name for name in names if name.startswith((".venv", "runs", "site"))]


def test_the_metadata_name_version_licence_extras_and_every_supported_python(wheel: Path) -> None:
    text = zipfile.ZipFile(wheel).read(f"online_laplace-{VERSION}.dist-info/METADATA").decode()
    assert f"Version: {VERSION}\n" in text and "License-Expression: MIT\n" in text
    assert set(re.findall(r"Provides-Extra: (.+)", text)) == set(PROJECT["optional-dependencies"])
    pythons = re.findall(r"Classifier: Programming Language :: Python :: (3\.\d+)", text)
    assert "Requires-Python: >=3.11\n" in text and pythons == ["3.11", "3.12", "3.13"]


def test_a_bare_environment_has_no_tool_of_ours(bare: Path) -> None:
    probe = "import importlib.util as u; print([n for n in {!r} if u.find_spec(n)])"
    tools = ["pytest", "hypothesis", "ruff", "mypy", "pandas", "matplotlib", "altair", "sphinx", "pip"]
    assert run(bare / "python", "-c", probe.format(tools)).stdout == "[]\n"


def test_the_core_fits_keeps_and_predicts_in_a_bare_environment(bare: Path, tmp_path: Path) -> None:
    program = (
        "import numpy as np, online_laplace as ol\n"
        "X = np.linspace(-1, 1, 30)[:, None]\n"
        "model = ol.OnlineLaplaceRegressor(hidden=4, members=2, max_steps=10, random_state=0)\n"
        "model.fit(X, X[:, 0] ** 2).save('model')\n"
        "mean, std = ol.load('model').predict(X, return_std=True)\n"
        "assert (mean == model.predict(X)).all() and (std > 0).all()\n"
        "kind = ol.OnlineLaplaceClassifier(hidden=4, members=2, max_steps=10, random_state=0)\n"
        "assert set(kind.fit(X, X[:, 0] > 0).predict(X)) == {True, False}\n"
        "print(ol.__version__)\n"
    )
    done = run(bare / "python", "-c", program, cwd=tmp_path)
    assert done.stdout == f"{VERSION}\n", done.stderr


def test_the_command_is_on_the_path_and_names_what_is_missing(bare: Path, tmp_path: Path) -> None:
    command = bare / "online-laplace"
    assert run(command, "--version").stdout == f"online-laplace {VERSION}\n"
    short = ["--splits", "1", "--steps", "5", "--hidden", "3", "--members", "1", "--quiet", "--workers", "1"]
    done = run(command, "train", "yacht", *short, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run(command, "example", "houses.csv", cwd=tmp_path).returncode == 0
    done = run(command, "fit", "houses.csv", "--target", "price", "--out", "m", cwd=tmp_path)
    assert done.returncode == 2 and "online-laplace[tables]" in done.stderr.replace("\n", "")


def test_the_extras_are_enough_for_a_file_a_prediction_and_a_page(with_extras: Path, tmp_path: Path) -> None:
    command = with_extras / "online-laplace"
    for line in (
        "example houses.csv",
        "fit houses.csv --target price --out m --missing impute --holdout 0.2 "
        "--hidden 4 --members 2 --steps 10 --quiet",
        "predict m houses.csv --out p.csv",
        "inspect m",
    ):
        done = run(command, *line.split(), cwd=tmp_path)
        assert done.returncode == 0, line + done.stderr
    assert (tmp_path / "m" / "inspect.html").stat().st_size > 900_000


def test_what_is_installed_here_fits_together() -> None:
    done = run(sys.executable, "-m", "pip", "check")
    assert done.returncode == 0, done.stdout


# Each may be used and passed on by anybody, in any product.
FREE = (
    "MIT",
    "BSD",
    "Apache",
    "ISC",
    "PSF",
    "Python Software Foundation",
    "HPND",
    "Unlicense",
    "0BSD",
    "MPL-2.0",
)


def test_everything_that_the_wheel_brings_is_free_to_use() -> None:
    extras = [
        text for e in ("tables", "pages", "plots", "dask") for text in PROJECT["optional-dependencies"][e]
    ]
    names = sorted(required([*PROJECT["dependencies"], *extras]))
    done = run(sys.executable, "-m", "piplicenses", "--format=json", "--packages", *names)
    found = {canonicalize_name(one["Name"]): one["License"] for one in json.loads(done.stdout)}
    # Builds of torch for CUDA bring NVIDIA's libraries, which have NVIDIA's licence; those for CPUs do not.
    found = {name: one for name, one in found.items() if not name.startswith(("nvidia-", "cuda-"))}
    names = [name for name in names if not name.startswith(("nvidia-", "cuda-"))]
    assert set(found) >= set(names) - {"setuptools", "pip"}, done.stderr
    assert {name: licence for name, licence in found.items() if not any(f in licence for f in FREE)} == {}
