"""`online-laplace reproduce`: the whole experiment, its figures and its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from online_laplace.cli.options import names

if TYPE_CHECKING:
    from online_laplace.protocol.profile import Profile


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
    quiet: Annotated[bool, typer.Option("--quiet", help="A line per batch instead of live bars.")] = False,
) -> None:
    """Run the experiment, draw its figures and write its report; after an interruption, go on."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.protocol.profile import named_profile
    from online_laplace.workers.fan_out import Workers
    from online_laplace.workers.reproduce import reproduce_all

    chosen = named_profile(profile)
    chosen = _adjust(chosen, tables, procedures, splits, splits_per_batch)
    chosen = _override(chosen, [f"device={device}", *(settings or [])])
    folder = out or Path("runs") / profile
    crew = Workers(
        backend=backend, scheduler=scheduler, **({"count": workers} if workers is not None else {})
    )
    try:
        reproduce_all(chosen, folder, crew, restart=restart, quiet=quiet)
    except KeyboardInterrupt:
        typer.echo("\nstopped: the same command goes on from here", err=True)
        raise typer.Exit(130) from None


def _adjust(
    profile: Profile,
    tables: str | None,
    procedures: str | None,
    splits: int | None,
    splits_per_batch: int | None,
) -> Profile:
    if tables is not None:
        profile = replace(profile, tables=tuple(names(tables)))
    if procedures is not None:
        profile = replace(profile, procedures=tuple(names(procedures)))
    if splits is not None:
        profile = replace(profile, splits=splits, splits_per_batch=max(splits, 1))
    if splits_per_batch is not None:
        profile = replace(profile, splits_per_batch=splits_per_batch)
    return profile


def _override(profile: Profile, settings: list[str]) -> Profile:
    from online_laplace.protocol.profile import override

    return replace(profile, specification=override(profile.specification, settings))
