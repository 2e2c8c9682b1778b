"""`online-laplace fit`: a model of anyone's table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from online_laplace import defaults
from online_laplace.cli.options import Force, names, outputs, widths, write_json
from online_laplace.errors import InputError


def fit(
    data: Annotated[Path, typer.Argument(help="A table with a header: .csv, .tsv or .parquet.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="The folder of the model alone; an earlier model is replaced.")],
    drop: Annotated[str, typer.Option(help="Columns to leave out; comma-separated.")] = "",
    missing: Annotated[
        str, typer.Option(help="Missing values: refuse, or impute by median or a category of their own.")
    ] = "refuse",
    holdout: Annotated[
        float, typer.Option(help="Share of the rows to hold out, to assess the model on.")
    ] = 0.0,
    rows: Annotated[
        int | None, typer.Option(help="Use a random sample of this many rows of the file.")
    ] = None,
    hidden: Annotated[str, typer.Option(help="Units per hidden layer, such as 50 or 50,50.")] = ",".join(
        map(str, defaults.HIDDEN)
    ),
    activation: Annotated[str, typer.Option(help="tanh, relu, gelu or silu.")] = defaults.ACTIVATION,
    prior: Annotated[str, typer.Option(help="scalar, layerwise or ard.")] = defaults.PRIOR,
    procedure: Annotated[str, typer.Option(help="ol or lm.")] = defaults.PROCEDURE,
    optimiser: Annotated[str, typer.Option(help="gauss-newton or adam.")] = defaults.OPTIMISER,
    members: Annotated[int, typer.Option(help="Networks in the ensemble.")] = defaults.MEMBERS,
    steps: Annotated[int, typer.Option(help="The most steps of training.")] = defaults.STEPS,
    seed: Annotated[int, typer.Option(help="Seed of weights, held-out rows and sample.")] = 0,
    device: Annotated[str, typer.Option(help="A torch device: cpu, cuda.")] = "cpu",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write what was learnt to this file.")
    ] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Fit a model with error bars to a table and keep it in a folder."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.estimators.model_folder import check_model_folder
    from online_laplace.estimators.regressor import OnlineLaplaceRegressor
    from online_laplace.files.earlier import SUMMARY
    from online_laplace.files.folders import lies_in
    from online_laplace.files.outputs import Protected, check_outputs
    from online_laplace.tables.console import print_findings
    from online_laplace.tables.findings import assessed, learnt, rows_to_assess
    from online_laplace.tables.model import TableModel
    from online_laplace.tables.reading import read_frame

    if not 0 <= seed < 2**32:
        raise InputError(f"--seed must be between 0 and 2**32 - 1, not {seed}")
    regressor = OnlineLaplaceRegressor(
        hidden=widths(hidden),
        activation=activation,
        procedure=procedure,
        optimiser=optimiser,
        prior=prior,
        members=members,
        max_steps=steps,
        random_state=seed,
        device=device,
        verbose=not quiet,
    )
    regressor.check_settings()
    check_model_folder(out)
    for name, path in (("the table", data), ("--json", json_file)):
        if path is not None and lies_in(path, out):
            raise InputError(
                f"{name} {path} lies in --out {out}, which holds the model alone: name another folder"
            )
    check_outputs(outputs(("--json", json_file, SUMMARY)), [Protected("the table to fit", data)], force=force)

    def check_size(count: int, columns: int) -> None:
        # The target is no feature; a text column becomes one feature at least.
        regressor.check_size(count, columns - 1 - len(names(drop)))

    frame = read_frame(data, sample=rows, seed=seed, check_size=check_size)
    model = TableModel.fit(
        frame, target, regressor, missing=missing, drop=names(drop), holdout=holdout, seed=seed
    )
    model.save(out)

    found = learnt(model)
    scores = assessed(model, *rows_to_assess(model, None))
    print_findings(Console(), found, scores)
    Console().print(f"saved in {out}", highlight=False, markup=False, soft_wrap=True)
    if json_file is not None:
        write_json("--json", json_file, {**found, "assessment": scores})
