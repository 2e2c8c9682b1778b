"""`online-laplace train`: networks on tables, split by split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from online_laplace.cli.options import (
    Decimal,
    Drop,
    DropUnusable,
    Force,
    Missing,
    Target,
    names,
    outputs,
    read_tables,
    tables_read,
    widths,
    write_json,
)
from online_laplace.files.earlier import RECORDS
from online_laplace.files.outputs import check_outputs


def train(
    tables: Annotated[
        list[str],
        typer.Argument(help="Embedded tables, or files: .csv, .tsv, .parquet, .xlsx."),
    ],
    procedure: Annotated[
        str,
        typer.Option(
            help="One or more of ol, lm, offline, retrain, default (a network of 50 units); comma-separated."
        ),
    ] = "ol",
    splits: Annotated[int, typer.Option(help="How many train/test splits, from the first on.")] = 10,
    steps: Annotated[
        int | None, typer.Option(help="Steps of training; the paper's number by default.")
    ] = None,
    activation: Annotated[str | None, typer.Option(help="tanh (the paper's), relu, gelu or silu.")] = None,
    hidden: Annotated[
        str | None, typer.Option(help="Units per hidden layer, such as 50 (the paper's) or 50,50.")
    ] = None,
    prior: Annotated[str | None, typer.Option(help="scalar (the paper's), layerwise or ard.")] = None,
    noise: Annotated[str, typer.Option(help="constant (the paper's), or varying by row.")] = "constant",
    optimiser: Annotated[
        str | None, typer.Option(help="For ol and lm: adam (the paper's) or gauss-newton.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="What predicts: the last weights, those of best evidence, or an average."),
    ] = None,
    members: Annotated[int | None, typer.Option(help="Networks per ensemble, from different seeds.")] = None,
    member_weights: Annotated[str, typer.Option(help="equal or evidence.")] = "equal",
    tolerance: Annotated[
        float, typer.Option(help="A certificate below this ends a run of ol or lm as converged.")
    ] = 1e-6,
    alpha: Annotated[float, typer.Option(help="Initial prior precision of online training.")] = 1.0,
    beta: Annotated[float, typer.Option(help="Initial noise precision of online training.")] = 1.0,
    target: Target = None,
    drop: Drop = "",
    drop_unusable: DropUnusable = False,
    missing: Missing = "refuse",
    decimal: Decimal = None,
    seed: Annotated[int, typer.Option(help="Seed of the initial weights.")] = 0,
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    device: Annotated[str, typer.Option(help="A torch device: cpu, cuda.")] = "cpu",
    workers: Annotated[
        int | None,
        typer.Option(help="Worker processes of one thread; one a core by default, if there is enough to do."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write one object per result to this file.")
    ] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train networks on tables, split by split, and report how well they predict."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.protocol.summary import print_summary
    from online_laplace.protocol.training import trainings
    from online_laplace.workers.train_tables import train_with_progress

    chosen = {
        "hidden": None if hidden is None else widths(hidden),
        "activation": activation,
        "prior": prior,
        "noise": noise,
        "optimiser": optimiser,
        "keep": keep,
        "members": members,
        "member_weights": member_weights,
        "tolerance": tolerance,
        "alpha": alpha,
        "beta": beta,
        "steps": steps,
        "seed": seed,
        "dtype": dtype,
        "device": device,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    ways = trainings(names(procedure), given)
    check_outputs(outputs(("--json", json_file, RECORDS)), tables_read(tables), force=force)
    opened = read_tables(
        tables, target=target, drop=drop, drop_unusable=drop_unusable, missing=missing, decimal=decimal
    )
    records = train_with_progress(opened, ways, splits, workers=workers, quiet=quiet)
    print_summary(records, Console())
    if json_file is not None:
        write_json("--json", json_file, [record.to_dict() for record in records])
