"""The application that the commands hang on, and what becomes of their errors."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from online_laplace._version import __version__
from online_laplace.cli.archive import pack, unpack
from online_laplace.cli.example import example
from online_laplace.cli.export import export
from online_laplace.cli.fit import fit
from online_laplace.cli.inspect import inspect
from online_laplace.cli.options import option_of
from online_laplace.cli.predict import predict
from online_laplace.cli.redraw import redraw
from online_laplace.cli.reproduce import reproduce
from online_laplace.cli.select import select
from online_laplace.cli.train import train
from online_laplace.errors import InputError, OnlineLaplaceError, SettingError
from online_laplace.files.paths import brief
from online_laplace.process import prepare
from online_laplace.terminal import shown


def _plain(parameters: list[Any]) -> list[Any]:
    """Parameters whose help does not show Python's names: list[str] of several values, bool of a flag."""
    for one in parameters:
        if one.nargs == -1 or getattr(one, "is_flag", False):
            one.display_type_rich = lambda ctx: None
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return _plain(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a setting that is refused goes by the name of the option that gave it."""
        try:
            return super().invoke(ctx)
        except SettingError as error:
            raise InputError(error.told_of(option_of(error.setting, self.params))) from error


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return _plain(super().get_params(ctx))


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Neural networks that tune their own weight decay and noise level while they train.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"online-laplace {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end."),
    ] = False,
) -> None:
    """What can be asked without a command."""


for _command in (
    example, train, select, fit, predict, inspect, reproduce, redraw, export, pack, unpack,
):  # fmt: skip
    app.command(cls=_Command)(_command)


def main() -> None:
    """Run the command line; a mistake of the caller's is one line on stderr and exit code 2."""
    prepare()
    try:
        app()
    except OnlineLaplaceError as error:
        _end(str(error))
    except OSError as error:
        # What no check foresaw, such as a disk that fails: what it says is enough, with the file it is about.
        place = "" if error.filename is None else f"{brief(error.filename)}: "
        _end(f"{place}{error.strerror or error}")


def _end(words: str) -> None:
    # A message may quote a name with brackets in it, which is text and not markup.
    message = f"[bold red]error:[/] {escape(shown(words))}"
    Console(stderr=True).print(message, highlight=False, emoji=False, soft_wrap=True)
    sys.exit(2)
