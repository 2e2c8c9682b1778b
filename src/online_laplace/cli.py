"""The command line: parses, calls, prints. It holds no mathematics."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from online_laplace.errors import InputError, OnlineLaplaceError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Neural networks that tune their own weight decay and noise level while they train.",
)


@app.callback()
def _root() -> None:
    """Keep `train` a subcommand even while it is the only one."""


@app.command()
def train(
    tables: Annotated[
        list[str],
        typer.Argument(help="Embedded tables, or CSV files whose last column is the target."),
    ],
    procedure: Annotated[
        str, typer.Option(help="One or more of ol, lm, offline, retrain; comma-separated.")
    ] = "ol",
    splits: Annotated[int, typer.Option(help="How many train/test splits, from the first on.")] = 10,
    steps: Annotated[
        int | None, typer.Option(help="Steps of training; the paper's number by default.")
    ] = None,
    activation: Annotated[str, typer.Option(help="tanh, relu, gelu or silu.")] = "tanh",
    hidden: Annotated[str, typer.Option(help="Units per hidden layer, such as 50 or 50,50.")] = "50",
    prior: Annotated[str, typer.Option(help="scalar, layerwise or ard.")] = "scalar",
    alpha: Annotated[float, typer.Option(help="Initial prior precision of online training.")] = 1.0,
    beta: Annotated[float, typer.Option(help="Initial noise precision of online training.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the initial weights.")] = 0,
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    device: Annotated[str, typer.Option(help="A torch device: cpu, cuda.")] = "cpu",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write one object per result to this file.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train networks on tables, split by split, and report how well they predict."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.experiments.console import print_summary, train_with_progress
    from online_laplace.experiments.specification import Specification

    spec = Specification(
        hidden=_widths(hidden),
        activation=activation,
        prior=prior,
        alpha=alpha,
        beta=beta,
        steps=steps,
        seed=seed,
        dtype=dtype,
        device=device,
    )
    if json_file is not None:
        _check_writable(json_file)
    console = Console()
    records = train_with_progress(
        tables, [name.strip() for name in procedure.split(",")], splits, spec, quiet=quiet
    )
    print_summary(records, console)
    if json_file is not None:
        json_file.write_text(json.dumps([record.to_dict() for record in records], indent=1) + "\n")


def _widths(text: str) -> tuple[int, ...]:
    """Read `50,50` as (50, 50)."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise InputError(f"--hidden takes whole numbers such as 50 or 50,50, not {text!r}") from error


def _check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before the training that would fill it."""
    if path.is_dir():
        raise InputError(f"--json {path} is a folder: name a file")
    try:
        with path.open("a"):
            pass
    except OSError as error:
        raise InputError(f"--json {path} cannot be written: {error.strerror}") from error


def main() -> None:
    """Run the command line; a mistake of the caller's is one line on stderr and exit code 2."""
    try:
        app()
    except OnlineLaplaceError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
