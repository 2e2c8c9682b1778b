"""`online-laplace inspect`: what a fitted model has learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from online_laplace.cli.options import Force


def inspect(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `fit` wrote.")],
    data: Annotated[
        Path | None, typer.Option(help="A table with the target, to assess the model on.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Where the page goes; MODEL/inspect.html by default.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the same numbers to this file.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="What the target is measured in, such as euros; by default what its name ends in."),
    ] = None,
    force: Force = False,
) -> None:
    """Print noise or classes, effective parameters, evidence and calibration; write a page of charts."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.cli.options import model_read, outputs, write_json, write_whole
    from online_laplace.estimators.saving.folder import PAGE as PAGE_NAME
    from online_laplace.files.earlier import LEARNT, PAGE
    from online_laplace.files.outputs import Protected, check_outputs, same_file
    from online_laplace.inspection.page import render_page
    from online_laplace.inspection.subject import Subject
    from online_laplace.inspection.verdict import verdict
    from online_laplace.pages.charts import altair
    from online_laplace.tables.console import lines, print_findings
    from online_laplace.tables.findings import assessed, learnt, rows_to_assess
    from online_laplace.tables.model import TableModel
    from online_laplace.tables.reading import read_frame
    from online_laplace.terminal import tell

    altair()  # without it, say so before the work and not after it
    model = TableModel.load(folder)
    target = page or folder / PAGE_NAME
    # An earlier page is the one file of the model that a page may take the place of.
    page_of_model = folder / PAGE_NAME if same_file(folder / PAGE_NAME, target) else None
    protected = [one for one in model_read(folder) if one.path != page_of_model]
    if data is not None:
        protected.append(Protected("the table to assess", data))
    named = outputs(("--page", target, PAGE), ("--json", json_file, LEARNT))
    check_outputs(named, protected, force=force)
    given = None if data is None else model.columns.as_fitted(read_frame(data, fewest=1))
    rows, where = rows_to_assess(model, given)
    found, scores = learnt(model), assessed(model, rows, where)
    print_findings(Console(), found, scores)
    subject = Subject.of(model, rows, where, unit)
    Console().print(verdict(subject), highlight=False, markup=False)
    write_whole("--page", target, render_page(subject, lines(found, scores)).encode())
    tell(f"page in {target}")
    if json_file is not None:
        write_json("--json", json_file, {**found, "assessment": scores})
