"""Imports point one way: a room knows those before it, and a leaf is known to all."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "online_laplace"

# What anybody may import, and what imports only its like.
LEAVES = {
    "_version",
    "defaults",
    "errors",
    "files",
    "memory",
    "pages",
    "process",
    "progress",
    "style",
    "terminal",
    "threads",
}

# From the rows of a table to the command line, as CONTRIBUTING.md has it. A room imports those before it.
ROOMS = [
    "types",
    "data",
    "predictive",
    "likelihood",
    "model",
    "curvature",
    "evidence",
    "hyper",
    "train",
    "posterior",
    "modules",
    "ensemble",
    "pool",
    "protocol",
    "selection",
    "store",
    "workers",
    "figures",
    "report",
    "estimators",
    "plots",
    "tables",
    "inspection",
    "core",
    "cli",
]

# Imports against the flow that are known and not mended yet: (file, the room it imports).
KNOWN: set[tuple[str, str]] = set()


class Import(NamedTuple):
    """One import of something of ours: `file` and `target` are paths within the package."""

    file: str
    line: int
    target: str

    @property
    def room(self) -> str:
        return room_of(self.file)

    @property
    def target_room(self) -> str:
        return room_of(self.target)


def room_of(path: str) -> str:
    """`train/loop.py`, `train/loop` or `train` → `train`; the package's own front door → `__init__`."""
    return path.split("/")[0].removesuffix(".py") or "__init__"


def imports(file: str, source: str) -> Iterator[Import]:
    """Every import of ours in a source, inside functions and for type checkers too."""
    package = ["online_laplace", *file.split("/")[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            # `from online_laplace import style` is an import of style, and so is `from . import style`.
            names = [f"{base}.{a.name}" for a in node.names] if base == "online_laplace" else [base]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == "online_laplace":
                yield Import(file, node.lineno, "/".join(rest) if is_module(rest) else "")


def is_module(parts: list[str]) -> bool:
    """Whether a name below the package is a module and not something that its front door offers."""
    return bool(parts) and (parts[0] in {*LEAVES, *ROOMS} or (PACKAGE / parts[0]).is_dir())


def against_the_flow(one: Import) -> str | None:
    """What is wrong with an import, in words; None where nothing is."""
    mine, theirs = one.room, one.target_room
    where = f"{one.file}:{one.line}: "
    if mine == "__init__" or (one.file, theirs) in KNOWN or mine == theirs:
        return None
    if theirs == "__init__":
        return where + f"{mine} imports from the package's front door: name the module instead"
    for room in (mine, theirs):
        if room not in LEAVES and room not in ROOMS:
            return where + f"{room} has no place in the flow: give it one here and in CONTRIBUTING.md"
    if theirs in LEAVES:
        return None
    if mine in LEAVES:
        return where + f"{mine} is a leaf and imports {theirs}: leaves import only leaves"
    if ROOMS.index(theirs) > ROOMS.index(mine):
        return where + f"{mine} imports {theirs}, which comes after it"
    return None


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path.read_text()


def test_no_import_goes_against_the_flow() -> None:
    found = [against_the_flow(one) for file, source in sources() for one in imports(file, source)]
    assert not [words for words in found if words is not None], "\n".join(filter(None, found))


def test_every_known_exception_is_still_there() -> None:
    there = {(one.file, one.target_room) for file, source in sources() for one in imports(file, source)}
    assert there >= KNOWN, f"mended, so take it out of KNOWN: {KNOWN - there}"


@pytest.mark.parametrize(
    ("file", "source", "words"),
    [
        (
            "data/splits.py",
            "import os\nfrom online_laplace.train.loop import run",
            "data/splits.py:2: data imports train, which comes after it",
        ),
        ("model/mlp.py", "def f():\n    import online_laplace.cli.main", "model/mlp.py:2: model imports cli"),
        (
            "hyper/prior.py",
            "if TYPE_CHECKING:\n    from ..posterior.metrics import Scores",
            "hyper/prior.py:2: hyper imports posterior",
        ),
        ("train/loop.py", "from online_laplace import report", "train/loop.py:1: train imports report"),
        ("train/loop.py", "from .. import report", "train/loop.py:1: train imports report"),
        ("progress.py", "from online_laplace.types import Hyper", "progress.py:1: progress is a leaf"),
        ("store/store.py", "from online_laplace import __version__", "imports from the package's front door"),
        ("attic/old.py", "from online_laplace.data import Table", "attic has no place in the flow"),
    ],
)
def test_an_import_against_the_flow_is_named_with_its_line(file: str, source: str, words: str) -> None:
    (one,) = imports(file, source)
    assert words in (against_the_flow(one) or "")


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("train/loop.py", "from online_laplace.model.network import Network"),
        ("train/loop.py", "from online_laplace import style, memory"),
        ("train/loop.py", "from .outcome import Outcome"),
        ("train/loop.py", "import torch"),
        ("style.py", "from online_laplace.errors import InputError"),
        ("__init__.py", "from online_laplace.estimators import load"),
    ],
)
def test_an_import_with_the_flow_is_left_alone(file: str, source: str) -> None:
    assert [against_the_flow(one) for one in imports(file, source)] in ([], [None], [None, None])


def test_contributing_shows_the_rooms_in_their_order() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    table = page[page.index("| room |") :].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    named = [name.removesuffix(".py") for cell in cells for name in re.findall(r"`([\w.]+)/?`", cell)]
    here = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if not path.name.startswith("_")}
    assert [name for name in named if name not in LEAVES] == [room for room in ROOMS if room in here]
    assert {name for name in named if name in LEAVES} == (LEAVES & here)


def test_neither_an_import_nor_a_fit_sets_anything_for_the_process() -> None:
    modules = [
        "online_laplace." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for file, _ in sources()
        if not file.endswith("__main__.py") and file not in ("__init__.py", "curvature/tiles.py")
    ]
    # torch itself may set something, so it comes before the look.
    program = (
        "import importlib, os, sys, torch, scipy.linalg, sklearn, joblib\n"
        "before = dict(os.environ)\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "from online_laplace import OnlineLaplaceRegressor, process\n"
        "X = torch.linspace(-1, 1, 20)[:, None].numpy()\n"
        "OnlineLaplaceRegressor(hidden=4, members=2, max_steps=3, random_state=0).fit(X, X[:, 0])\n"
        "assert process.keep_freed_blocks.cache_info().currsize == 0\n"
        "print({k: v for k, v in os.environ.items() if before.get(k) != v})"
    )
    without = {k: v for k, v in os.environ.items() if k != "CUDA_DEVICE_MAX_CONNECTIONS"}
    done = subprocess.run(
        [sys.executable, "-c", program, *modules], capture_output=True, text=True, env=without
    )
    assert done.stdout == "{}\n", done.stderr
