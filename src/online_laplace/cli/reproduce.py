"""`online-laplace reproduce`: the whole experiment, its figures and its report."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from online_laplace.cli.options import names


def reproduce(
    profile: Annotated[str, typer.Option(help="quick (a few minutes) or paper.")] = "quick",
    out: Annotated[
        Path | None, typer.Option(help="The folder of the results; runs/PROFILE by default.")
    ] = None,
    tables: Annotated[str | None, typer.Option(help="Only these tables; comma-separated.")] = None,
    procedures: Annotated[str | None, typer.Option(help="Only these of ol, lm, offline.")] = None,
    splits: Annotated[int | None, typer.Option(help="How many splits, from the first on.")] = None,
    splits_per_batch: Annotated[
        int | None, typer.Option(help="How many splits train as one program; all by default.")
    ] = None,
    device: Annotated[str, typer.Option(help="A torch device: cpu, cuda.")] = "cpu",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the protocol, such as steps=200."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.")] = None,
    backend: Annotated[str, typer.Option(help="local, or dask for a cluster.")] = "local",
    scheduler: Annotated[str | None, typer.Option(help="The Dask scheduler's address.")] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Set an earlier run in the folder aside and begin anew.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Lines instead of live bars.")] = False,
) -> None:
    """Run the experiment, draw its figures and write its report; after an interruption, go on."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.cli.drawing import draw
    from online_laplace.pages.charts import altair
    from online_laplace.protocol.profile import adjusted, named_profile
    from online_laplace.protocol.runner import Record
    from online_laplace.protocol.summary import print_summary
    from online_laplace.store.results import Results
    from online_laplace.store.store import Store
    from online_laplace.workers.experiment import train_all
    from online_laplace.workers.fan_out import Workers, run_batches

    chosen = adjusted(
        named_profile(profile),
        tables=None if tables is None else names(tables),
        procedures=None if procedures is None else names(procedures),
        splits=splits,
        splits_per_batch=splits_per_batch,
        settings=[f"device={device}", *(settings or [])],
    )
    folder = out or Path("runs") / profile
    chosen_workers = Workers(workers, backend, scheduler)
    altair()  # without it, say so before the work and not after it
    try:
        train_all(chosen, folder, partial(run_batches, workers=chosen_workers), restart=restart, quiet=quiet)
        results = Results.of(Store.open(folder))
        print_summary([Record(**record) for record in results.records], Console())
        draw(results, folder)
    except KeyboardInterrupt:
        typer.echo("\nstopped: the same command goes on from here", err=True)
        raise typer.Exit(130) from None
