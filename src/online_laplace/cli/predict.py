"""`online-laplace predict`: a fitted model's predictions for the rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def predict(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="A table with the same columns: .csv, .tsv or .parquet.")],
    out: Annotated[Path, typer.Option(help="Where the predictions go: .csv, .tsv or .parquet.")],
    coverage: Annotated[
        float, typer.Option(help="The probability that lower and upper enclose a new observation.")
    ] = 0.9,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write a summary to this file.")] = None,
) -> None:
    """Predict every row: mean, std, lower, upper. The columns are matched by name."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.cli.options import check_writable, write_json
    from online_laplace.errors import InputError
    from online_laplace.tables.console import score_lines
    from online_laplace.tables.findings import assessed, rows_to_assess
    from online_laplace.tables.model import TableModel
    from online_laplace.tables.reading import read_frame
    from online_laplace.tables.writing import check_kind, write_frame

    if not 0 < coverage < 1:
        raise InputError(f"--coverage lies between 0 and 1, not at {coverage:g}")
    check_kind(out)
    if json_file is not None:
        check_writable("--json", json_file)
    model = TableModel.load(folder)
    frame = read_frame(data)
    predictions = model.predict(frame, coverage)
    unseen = model.columns.unseen(frame)
    write_frame(predictions, out)

    notes = Console(stderr=True)
    for column, found in unseen.items():
        listed = ", ".join(f"{text!r} ({count}×)" for text, count in list(found.items())[:5])
        note = f"note: column {column!r} holds categories the model has not seen: {listed}"
        notes.print(
            f"{note}; they count as none of those it knows", highlight=False, markup=False, soft_wrap=True
        )
    console = Console()
    console.print(f"{len(predictions):,} predictions in {out}", highlight=False, markup=False, soft_wrap=True)
    scores = None
    if model.columns.target in frame.columns and frame[model.columns.target].notna().all():
        scores = assessed(model, *rows_to_assess(model, frame))
        for name, words in score_lines(scores):
            console.print(f"{name}: {words}", highlight=False, markup=False)
    if json_file is not None:
        summary = {"rows": len(predictions), "coverage": coverage, "unseen": unseen, "assessment": scores}
        write_json("--json", json_file, summary)
