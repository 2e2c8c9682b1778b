"""`online-laplace pack` and `unpack`: the folder of an experiment in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from online_laplace.cli.options import Force


def pack(
    folder: Annotated[Path, typer.Argument(help="The folder of an experiment, finished or not.")],
    file: Annotated[Path, typer.Argument(help="The archive to write, such as paper.tar.gz.")],
    force: Force = False,
) -> None:
    """Put results and checkpoints in one file, to carry them to another machine."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.store.archive import pack_store

    pack_store(folder, file, force=force)


def unpack(
    file: Annotated[Path, typer.Argument(help="What `pack` wrote.")],
    folder: Annotated[Path, typer.Argument(help="An empty or new folder.")],
) -> None:
    """Fill a folder from a packed file."""
    from online_laplace.store.archive import unpack_store

    unpack_store(file, folder)
