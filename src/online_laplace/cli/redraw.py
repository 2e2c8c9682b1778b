"""`online-laplace redraw`: figures and report again, from results that are already there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def redraw(
    folder: Annotated[Path, typer.Argument(help="The folder of the results.")] = Path("runs/quick"),
) -> None:
    """Draw the figures and write the report of stored results; say if they are older than the code."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.cli.drawing import draw
    from online_laplace.store.export import open_results

    draw(open_results(folder), folder)
