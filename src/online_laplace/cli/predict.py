"""`online-laplace predict`: a fitted model's predictions for the rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from online_laplace.cli.options import Force

DEFAULT_COVERAGE = 0.9


def predict(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `fit` wrote.")],
    data: Annotated[
        Path, typer.Argument(help="A table with the same columns: .csv, .tsv (also .gz), .parquet or .xlsx.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Where the predictions go: .csv, .tsv (also .gz) or .parquet; - is standard output."
        ),
    ],
    keep: Annotated[
        str, typer.Option(help="Columns of the table to write before the predictions; comma-separated.")
    ] = "",
    coverage: Annotated[
        float | None,
        typer.Option(
            help="The probability that lower and upper enclose a new observation (numbers). "
            f"[default: {DEFAULT_COVERAGE:g}]"
        ),
    ] = None,
    quantiles: Annotated[
        str, typer.Option(help="Quantiles to write as well (numbers), such as 0.05,0.5,0.95.")
    ] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write a summary to this file.")] = None,
    force: Force = False,
) -> None:
    """Predict every row: mean, std, lower, upper; or class and probabilities. Columns are matched by name.

    The column outside_range names the columns in which a row lies outside what the model was trained on.
    """
    # Imported here so that `--help` does not wait for torch.
    import pandas as pd

    from online_laplace.cli.options import levels, model_read, names, outputs, write_json
    from online_laplace.errors import InputError
    from online_laplace.files.earlier import OUTSIDE, PREDICTIONS, SUMMARY
    from online_laplace.files.outputs import Protected, check_outputs
    from online_laplace.tables.console import score_lines
    from online_laplace.tables.findings import assessment
    from online_laplace.tables.keeping import check_kept, read_kept
    from online_laplace.tables.model import TableModel
    from online_laplace.tables.reading import read_frame
    from online_laplace.tables.writing import STDOUT, check_kind, write_frame
    from online_laplace.terminal import tell

    if coverage is not None and not 0 < coverage < 1:
        raise InputError(f"--coverage lies between 0 and 1, not at {coverage:g}")
    asked = levels(quantiles)
    check_kind(out)
    piped = out == STDOUT
    check_outputs(
        outputs(("--out", None if piped else out, PREDICTIONS), ("--json", json_file, SUMMARY)),
        [Protected("the table to predict for", data), *model_read(folder)],
        force=force,
    )

    def note(text: str) -> None:
        tell(f"note: {text}", stderr=True)

    model = TableModel.load(folder)
    classes = model.columns.labels is not None
    if classes and coverage is not None:
        raise InputError("--coverage is of numbers, and this model predicts classes: leave it out")
    share = DEFAULT_COVERAGE if coverage is None else coverage
    frame = model.columns.as_fitted(read_frame(data, on_remark=note, fewest=1))
    predictions = model.predict(frame, share, asked)
    check_kept(names(keep), frame, list(predictions.columns))
    kept = read_kept(data, names(keep), len(frame))
    unseen = model.columns.unseen(frame)
    scores, obstacle = assessment(model, frame)
    write_frame(pd.concat([kept, predictions], axis=1), out)

    for column, found in unseen.items():
        listed = ", ".join(f"{text!r} ({count}×)" for text, count in list(found.items())[:5])
        words = f"column {column!r} holds categories the model has not seen: {listed}"
        note(f"{words}; they count as none of those it knows")
    outside = int((predictions[OUTSIDE] != "").sum())
    if outside:
        note(
            f"outside what the model was trained on, where predictions are guesses: {outside:,} of "
            f"{len(predictions):,} rows; the column {OUTSIDE} says which"
        )
    if obstacle is not None:
        note(f"the predictions are not compared with the target: {obstacle}")
    if not piped:
        tell(f"{len(predictions):,} predictions in {out}")
    for name, text in score_lines(scores) if scores is not None else ():
        tell(f"{name}: {text}", stderr=piped)
    if json_file is not None:
        told = (
            {"classes": model.columns.written(model.estimator.classes_)} if classes else {"coverage": share}
        )
        summary = {
            "rows": len(predictions),
            **told,
            "unseen": unseen,
            "outside": outside,
            "assessment": scores,
        }
        write_json("--json", json_file, summary)
