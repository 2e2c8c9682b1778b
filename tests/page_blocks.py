"""The code blocks of a page, and what it takes to run them as a reader would."""

from __future__ import annotations

import contextlib
import io
import math
import re
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from online_laplace.cli import main

ROOT = Path(__file__).parents[1]
SHELL = ("bash", "console")
# <!-- not run: the reason --> on the line before a block keeps it from being run here.
MARKER = re.compile(r"<!-- not run: (\S.*?) -->")
NUMBER = re.compile(r"[-−+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    """One fence: where it is, its language, its lines, why it is not run (or ""), and the output shown."""

    line: int
    language: str
    code: str
    not_run: str
    shown: str | None


def blocks(path: Path) -> list[Block]:
    """All fences of a page but those that show an output, which go with the block before them."""
    found: list[Block] = []
    reason, may_show = "", False
    for token in MarkdownIt().parse(path.read_text()):
        if token.type == "html_block" and (marked := MARKER.search(token.content)):
            reason = marked[1]
        elif token.type == "fence":
            language = token.info.split()[0] if token.info.strip() else ""
            if language == "text" and may_show:
                found[-1] = replace(found[-1], shown=token.content)
                may_show = False
                continue
            found.append(Block((token.map or [0])[0] + 1, language, token.content, reason, None))
            may_show, reason = True, ""
        elif token.type == "code_block":
            found.append(Block((token.map or [0])[0] + 1, "indented", token.content, reason, None))
            may_show, reason = False, ""
        else:
            may_show = False
    return found


# What follows these commands here, so that hours become seconds. Of an option given twice the last counts.
SHORT = {
    "fit": "--members 2 --steps 10 --quiet",
    "train": "--splits 1 --steps 6 --hidden 4 --members 2 --quiet",
    "select": "--splits 1 --steps 6 --quiet",
    "reproduce": "--tables yacht --splits 1 --workers 1 --quiet --set steps=6 --set hidden=[4] "
    "--set offline_steps=6 --set observations=3",
}


def shortened(arguments: list[str]) -> list[str]:
    """The arguments of a long command with those that make it short; where it has any, its own count."""
    own = {"fit": "--members", "select": "--steps"}.get(arguments[0])
    if arguments[0] not in SHORT or own in arguments:
        return arguments
    return [*arguments, *SHORT[arguments[0]].split()]


def commands(code: str) -> list[list[str]]:
    """The lines of a shell block as lists of words; comments and prompts are dropped."""
    joined = code.replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line and not line.startswith("#")]


def run_python(code: str, where: str, names: dict[str, Any]) -> str:
    """Execute a block in the namespace of its page; what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, where, "exec"), names)
    return out.getvalue()


def run_shell(code: str) -> str:
    """Execute the commands of a block in this process; what they printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for name, *arguments in commands(code):
            assert name == "online-laplace", f"{name} is not ours: mark the block as not run, with the reason"
            before, sys.argv = sys.argv, [name, *shortened(arguments)]
            try:
                main()
            except SystemExit as ending:
                assert not ending.code, f"{shlex.join([name, *arguments])} ended with exit code {ending.code}"
            finally:
                sys.argv = before
    return out.getvalue()


def agrees(shown: str, printed: str) -> bool:
    """Whether an output is the one shown, numbers to a quarter and spaces aside; … stands for anything."""
    for pattern in shown.split("…"):
        words, numbers = _parts(pattern)
        have, values = _parts(printed)
        place = have.find(words)
        if place < 0:
            return False
        skipped = have[:place].count("#")
        pairs = zip(numbers, values[skipped : skipped + len(numbers)], strict=True)
        if not all(math.isclose(a, b, rel_tol=0.25, abs_tol=0.05) for a, b in pairs):
            return False
        rest = have[place + len(words) :]
        printed = _fill(rest, values[skipped + len(numbers) :])
    return True


def _parts(text: str) -> tuple[str, list[float]]:
    """Text with every number replaced by # and white space removed, and the numbers."""
    numbers = [float(n.replace(",", "").replace("−", "-")) for n in NUMBER.findall(text)]
    return "".join(NUMBER.sub("#", text).split()), numbers


def _fill(words: str, numbers: list[float]) -> str:
    """The inverse of `_parts`, spaces aside."""
    for number in numbers:
        words = words.replace("#", f" {number!r} ", 1)
    return words
