"""`online-laplace export`: a finished experiment in a few small files, to keep beside the code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished experiment.")],
    target: Annotated[Path, typer.Argument(help="Where the compact copy goes.")],
) -> None:
    """Write a compact copy of finished results, with its own figures and report."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.cli.drawing import draw
    from online_laplace.files.copies import check_copy
    from online_laplace.store.export import open_results, write_export

    results = open_results(folder)
    check_copy(folder, target)
    write_export(results, target)
    # Drawn from the copy, so that what is shown is what is stored.
    draw(open_results(target), target)
