"""What the site takes from the code when it is built: the tables of the commands' options."""

from __future__ import annotations

from typing import Any

from typer.main import get_command

from online_laplace.cli.main import app

PLACE = "<!-- the commands -->"


def commands() -> str:
    """Every command with its arguments and options, as Markdown."""
    group: Any = get_command(app)
    return "\n\n".join(
        _section(name, command) for name, command in group.commands.items()
    )


def _section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [
        one
        for one in command.params
        if one.param_type_name == "option" and one.name != "help"
    ]
    words = " ".join(_argument(one) for one in arguments)
    lines = [
        f"## {name}",
        command.help or "",
        f"`online-laplace {name} {words} [options]`",
    ]
    rows = [(f"`{_argument(one)}`", "", one.help or "") for one in arguments]
    rows += [(_flags(one), _default(one), one.help or "") for one in options]
    table = ["| | default | |", "| --- | --- | --- |"]
    table += [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
        for row in rows
    ]
    return "\n\n".join([*lines, "\n".join(table)])


def _argument(one: Any) -> str:
    word = one.metavar or one.name.upper()
    return f"{word}..." if one.nargs == -1 else word


def _flags(one: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in one.opts)


def _default(one: Any) -> str:
    if one.required:
        return "required"
    if one.is_flag or one.default in (None, "", [], ()):
        return ""
    return f"`{one.default}`"
