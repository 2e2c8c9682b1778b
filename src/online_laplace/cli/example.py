"""`online-laplace example`: a file to try the other commands on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from online_laplace.cli.options import Force


def example(
    file: Annotated[Path, typer.Argument(help="Where the table goes, such as houses.csv.")],
    force: Force = False,
) -> None:
    """Write a made-up table of houses and their prices, to try fit, predict and inspect on."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.data.example import ROWS, TARGET, example_table
    from online_laplace.errors import InputError
    from online_laplace.files.earlier import Kind
    from online_laplace.files.outputs import Output, check_outputs, write_output

    if not file.name.lower().endswith(".csv"):
        raise InputError(f"{file} must end in .csv, which is what will be in it")
    content = example_table()
    ours = Kind("the example", lambda path: path.read_bytes() == content)
    check_outputs([Output("the example", file, ours)], [], force=force)
    write_output(str(file), file, content)
    typer.echo(f"{ROWS} made-up houses in {file}; try:")
    quoted = shlex.quote(str(file))
    typer.echo(f"online-laplace fit {quoted} --target {TARGET} --out model/ --missing impute --holdout 0.2")
