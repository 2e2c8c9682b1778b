"""`online-laplace fit`: a model of anyone's table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from online_laplace import defaults
from online_laplace.cli.options import (
    Decimal,
    Drop,
    DropUnusable,
    Force,
    Missing,
    names,
    outputs,
    widths,
    write_json,
)
from online_laplace.cli.settings import Estimators, check_time_limit
from online_laplace.errors import InputError, known_name

if TYPE_CHECKING:
    import pandas as pd

    from online_laplace.tables.columns import Columns
    from online_laplace.tables.model import TableModel
    from online_laplace.tables.task import Task


def fit(
    data: Annotated[
        Path, typer.Argument(help="A table with a header: .csv, .tsv (also .gz), .parquet or .xlsx.")
    ],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="The folder of the model alone; an earlier model is replaced.")],
    drop: Drop = "",
    drop_unusable: DropUnusable = False,
    missing: Missing = "refuse",
    decimal: Decimal = None,
    holdout: Annotated[
        float, typer.Option(help="Share of the rows to hold out, to assess the model on.")
    ] = 0.0,
    rows: Annotated[
        int | None, typer.Option(help="Use a random sample of this many rows of the file.")
    ] = None,
    task: Annotated[
        str, typer.Option(help="auto, by what the target holds; regression, classification or counts.")
    ] = "auto",
    preset: Annotated[
        str,
        typer.Option(
            help="fast, balanced or best: networks that are tried and stacked, unless one is named."
        ),
    ] = defaults.PRESET,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds that the fit of a preset may take.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="A column that is no input; rows with one value of it are left out together."),
    ] = None,
    hidden: Annotated[
        str | None,
        typer.Option(
            help="Units per hidden layer, such as 50 or 50,50. This and the next four name one network, "
            "instead of a preset."
        ),
    ] = None,
    activation: Annotated[str | None, typer.Option(help="tanh, relu, gelu or silu.")] = None,
    prior: Annotated[str | None, typer.Option(help="scalar, layerwise or ard.")] = None,
    procedure: Annotated[str | None, typer.Option(help="ol or lm.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="gauss-newton or adam.")] = None,
    members: Annotated[int | None, typer.Option(help="Networks in the ensemble.")] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="The most steps of training. [default: the preset's; of a named network "
            f"{defaults.STEPS}, of classes {defaults.CLASS_STEPS}]"
        ),
    ] = None,
    likelihood: Annotated[
        str | None, typer.Option(help="Of numbers: gaussian, student-t or poisson. [default: gaussian]")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="Of numbers: constant or varying. [default: both are tried]")
    ] = None,
    resolution: Annotated[
        float | None, typer.Option(help="The step in which numbers were recorded. [default: found out]")
    ] = None,
    predictive: Annotated[
        str | None,
        typer.Option(help="Of classes: plug-in, probit, bridge, monte-carlo or auto. [default: auto]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, held-out rows and sample.")] = 0,
    device: Annotated[str, typer.Option(help="A torch device: cpu, cuda.")] = "cpu",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write what was learnt to this file.")
    ] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Fit a model with error bars, or with probabilities of classes, to a table and keep it in a folder."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.data.delimited import on_one_line
    from online_laplace.tables.model import TableModel
    from online_laplace.tables.reading import read_frame
    from online_laplace.tables.task import TASKS

    if not 0 <= seed < 2**32:
        raise InputError(f"--seed must be between 0 and 2**32 - 1, not {seed}")
    known_name("task", task, TASKS)
    target, groups = on_one_line(target), None if groups is None else on_one_line(groups)
    network = {
        "hidden": None if hidden is None else widths(hidden),
        "activation": activation,
        "prior": prior,
        "procedure": procedure,
        "optimiser": optimiser,
        "members": members,
    }
    check_time_limit(network, time_limit)
    shared = {
        **network,
        "max_steps": steps,
        "preset": preset,
        "time_limit": time_limit,
        "random_state": seed,
        "device": device,
        "verbose": not quiet,
    }
    of_numbers = {"likelihood": likelihood, "noise": noise, "resolution": resolution}
    estimators = Estimators.of(task, shared, of_numbers, {"predictive": predictive})
    _check_places(data, out, json_file, force)

    def check_size(count: int, columns: int) -> None:
        # The target is no feature; a text column becomes one feature at least.
        estimators.check_size(count, max(1, columns - 1 - len(names(drop))))

    remarks: list[str] = []
    frame = read_frame(data, sample=rows, seed=seed, check_size=check_size, on_remark=remarks.append)
    try:
        decided = estimators.decide(frame, target, decimal)
    except InputError as error:
        # Such as that only the first sheet was read, which may be why.
        raise InputError("; ".join([str(error), *remarks])) from error
    estimator = estimators.by_task[decided.name]
    model = TableModel.fit(
        frame,
        target,
        estimator,
        labels=decided.labels,
        missing=missing,
        drop=names(drop),
        drop_unusable=drop_unusable,
        decimal=decimal,
        groups=groups,
        remarks=remarks,
        holdout=holdout,
        seed=seed,
        on_ready=lambda columns: _tell_plan(decided, estimator, frame, columns, quiet=quiet),
    )
    model.save(out)
    _tell_outcome(model, out, json_file)


def _check_places(data: Path, out: Path, json_file: Path | None, force: bool) -> None:
    """Refuse outputs that would destroy something, before anything is read. Raises InputError."""
    from online_laplace.estimators.saving.folder import check_model_folder
    from online_laplace.files.earlier import LEARNT
    from online_laplace.files.folders import lies_in
    from online_laplace.files.outputs import Protected, check_outputs

    if out == Path("-"):
        raise InputError("--out - is for predictions: a model is a folder, so name one")
    check_model_folder(out)
    for name, path in (("the table", data), ("--json", json_file)):
        if path is not None and lies_in(path, out):
            raise InputError(
                f"{name} {path} lies in --out {out}, which holds the model alone: name another folder"
            )
    check_outputs(outputs(("--json", json_file, LEARNT)), [Protected("the table to fit", data)], force=force)


def _tell_plan(decided: Task, estimator: Any, frame: pd.DataFrame, columns: Columns, *, quiet: bool) -> None:
    """The task and why, what was noticed about the columns, and what the fit will take, on stderr."""
    from online_laplace.estimators.forecast import forecast
    from online_laplace.terminal import tell

    said = [f"task: {decided}"] if decided.why else []
    said += [f"hint: {decided.hint}"] if decided.hint else []
    if not quiet:
        said += [f"note: {remark}" for remark in columns.remarks]
        outputs = 1 if decided.labels is None else frame[columns.target].nunique()
        if (expected := forecast(estimator, len(frame), len(columns.names), outputs)) is not None:
            said.append(str(expected))
            if expected.sample is not None:
                said.append(f"hint: --rows {expected.sample} draws such a sample")
    for words in said:
        tell(words, stderr=True)


def _tell_outcome(model: TableModel, out: Path, json_file: Path | None) -> None:
    """What was learnt and how good it is, and where it is kept."""
    from online_laplace.tables.console import print_findings
    from online_laplace.tables.findings import assessed, learnt, rows_to_assess
    from online_laplace.terminal import tell

    found = learnt(model)
    scores = assessed(model, *rows_to_assess(model, None))
    print_findings(Console(), found, scores)
    tell(f"saved in {out}")
    if json_file is not None:
        write_json("--json", json_file, {**found, "assessment": scores})
