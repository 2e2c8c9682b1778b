"""`online-laplace predict`: a fitted model's predictions for the rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from online_laplace.cli.options import Force


def predict(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="A table with the same columns: .csv, .tsv or .parquet.")],
    out: Annotated[Path, typer.Option(help="Where the predictions go: .csv, .tsv or .parquet.")],
    coverage: Annotated[
        float, typer.Option(help="The probability that lower and upper enclose a new observation (numbers).")
    ] = 0.9,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write a summary to this file.")] = None,
    force: Force = False,
) -> None:
    """Predict every row: mean, std, lower, upper; or class and probabilities. Columns are matched by name."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.cli.options import model_read, outputs, write_json
    from online_laplace.errors import InputError
    from online_laplace.files.earlier import PREDICTIONS, SUMMARY
    from online_laplace.files.outputs import Protected, check_outputs
    from online_laplace.tables.console import score_lines
    from online_laplace.tables.findings import assessment
    from online_laplace.tables.model import TableModel
    from online_laplace.tables.reading import read_frame
    from online_laplace.tables.writing import check_kind, write_frame

    if not 0 < coverage < 1:
        raise InputError(f"--coverage lies between 0 and 1, not at {coverage:g}")
    check_kind(out)
    check_outputs(
        outputs(("--out", out, PREDICTIONS), ("--json", json_file, SUMMARY)),
        [Protected("the table to predict for", data), *model_read(folder)],
        force=force,
    )
    model = TableModel.load(folder)
    frame = read_frame(data)
    predictions = model.predict(frame, coverage)
    unseen = model.columns.unseen(frame)
    scores, obstacle = assessment(model, frame)
    write_frame(predictions, out)

    for column, found in unseen.items():
        listed = ", ".join(f"{text!r} ({count}×)" for text, count in list(found.items())[:5])
        note = f"column {column!r} holds categories the model has not seen: {listed}"
        _note(f"{note}; they count as none of those it knows")
    if obstacle is not None:
        _note(f"the predictions are not compared with the target: {obstacle}")
    console = Console()
    console.print(f"{len(predictions):,} predictions in {out}", highlight=False, markup=False, soft_wrap=True)
    for name, words in score_lines(scores) if scores is not None else ():
        console.print(f"{name}: {words}", highlight=False, markup=False)
    if json_file is not None:
        classes = model.columns.labels is not None
        told = {"classes": model.estimator.classes_.tolist()} if classes else {"coverage": coverage}
        summary = {"rows": len(predictions), **told, "unseen": unseen, "assessment": scores}
        write_json("--json", json_file, summary)


def _note(text: str) -> None:
    Console(stderr=True).print(f"note: {text}", highlight=False, markup=False, soft_wrap=True)
