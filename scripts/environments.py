"""The tests in other environments: the lowest versions that are supported, and every Python that is here.

    python scripts/environments.py lowest
    python scripts/environments.py pythons 3.12 3.13

Each gets a virtual environment in .venvs/, kept for the next time; much is downloaded for a new one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venvs"
# What users run, and what a version of theirs could break; the site and the benchmarks are ours alone.
TESTS = [
    "tests",
    # Old versions are warned by their newer neighbours: of that nothing is wrong here.
    "-Wdefault",
    "--ignore=tests/docs",
    "--ignore=tests/release",
    "--ignore=tests/test_benchmarks.py",
    "--ignore=tests/test_many_runs_benchmark.py",
]


def main() -> int:
    """Run what the command line asks for; 1 where tests failed."""
    match sys.argv[1:]:
        case ["lowest"]:
            pins = FOLDER / "lowest.txt"
            FOLDER.mkdir(exist_ok=True)
            pins.write_text("\n".join(lowest_versions()) + "\n")
            oldest = interpreters([_first_python()])
            return _try(oldest, "lowest", pins)
        case ["pythons", *versions]:
            found = interpreters(versions)
            for version in versions:
                if version not in found:
                    print(f"Python {version} is not on this machine", flush=True)
            return _try(found, "", ROOT / "constraints.txt")
    print(__doc__)
    return 2


def lowest_versions() -> list[str]:
    """`name==lowest` for everything that users install, of the extras too."""
    project = _project()
    optional = project["optional-dependencies"]
    extras = [optional[name] for name in ("plots", "pages", "tables", "excel", "dask")]
    # Of what users bring themselves, scikit-learn reads the frames of, and knows those of its own time.
    brought = [text for text in optional["dev"] if Requirement(text).name == "polars"]
    found = {}
    for text in [*project["dependencies"], *(one for extra in extras for one in extra), *brought]:
        requirement = Requirement(text)
        (lowest,) = [one.version for one in requirement.specifier if one.operator == ">="]
        found[requirement.name] = lowest
    return [f"{name}=={version}" for name, version in found.items()]


def interpreters(versions: list[str]) -> dict[str, Path]:
    """The Python of each version, from the PATH or from pyenv, where there is one that starts."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in versions:
        named = shutil.which(f"python{version}")
        kept = sorted(pyenv.glob(f"{version}.*/bin/python"))
        for path in [*([Path(named)] if named else []), *kept]:
            told = subprocess.run(
                [path, "-c", "import sys; print(sys.version)"], capture_output=True, text=True
            )
            if told.returncode == 0 and told.stdout.startswith(f"{version}."):
                found[version] = path
                break
    return found


def _try(pythons: dict[str, Path], label: str, pins: Path) -> int:
    failed = []
    for version, python in pythons.items():
        name = label or f"python{version}"
        environment = FOLDER / name
        inside = environment / "bin" / "python"
        print(f"\n== {name}: Python {version}, versions of {pins.name}", flush=True)
        subprocess.run([python, "-m", "venv", environment], check=True)
        install = [str(inside), "-m", "pip", "install", "--quiet", "-c", str(pins), "-e", f"{ROOT}[dev]"]
        done = subprocess.run(install).returncode or subprocess.run([inside, "-m", "pip", "check"]).returncode
        if done == 0:
            tests = [str(inside), "-m", "pytest", "-n", "2", "-q", "-p", "no:cacheprovider", *TESTS]
            one_thread = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            done = subprocess.run(tests, cwd=ROOT, env=one_thread).returncode
        failed += [name] if done else []
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {len(pythons)} environments", flush=True)
    return 1 if failed or not pythons else 0


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _first_python() -> str:
    return str(_project()["requires-python"]).removeprefix(">=")


if __name__ == "__main__":
    raise SystemExit(main())
