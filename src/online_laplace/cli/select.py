"""`online-laplace select`: candidates side by side, ranked by their evidence."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    write_whole,
)
from online_laplace.errors import InputError
from online_laplace.files.earlier import PLOT, RANKING, plot_metadata
from online_laplace.files.outputs import check_outputs

if TYPE_CHECKING:
    from online_laplace.selection import Selection

PICTURES = (".png", ".pdf", ".svg")


def select(
    table: Annotated[str, typer.Argument(help="An embedded table, or a file: .csv, .tsv, .parquet, .xlsx.")],
    hidden: Annotated[
        list[str] | None,
        typer.Option(metavar="WIDTHS", help="Units per hidden layer; repeat for more candidates."),
    ] = None,
    activation: Annotated[str, typer.Option(help="tanh, relu, gelu, silu; comma-separated.")] = "tanh",
    prior: Annotated[str, typer.Option(help="scalar, layerwise, ard; comma-separated.")] = "scalar",
    splits: Annotated[int, typer.Option(help="Train/test splits per candidate.")] = 3,
    steps: Annotated[int | None, typer.Option(help="Gauss-Newton steps per candidate.")] = None,
    members: Annotated[int, typer.Option(help="Networks per candidate and split.")] = 1,
    target: Target = None,
    drop: Drop = "",
    drop_unusable: DropUnusable = False,
    missing: Missing = "refuse",
    decimal: Decimal = None,
    by: Annotated[
        str, typer.Option(help="Rank by evidence, on the training rows alone, or by held-out rows: held-out.")
    ] = "evidence",
    seed: Annotated[int, typer.Option(help="Seed of the initial weights.")] = 0,
    device: Annotated[str, typer.Option(help="A torch device: cpu, cuda.")] = "cpu",
    plot: Annotated[Path | None, typer.Option(help="Draw evidence against held-out score here.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the ranking to this file.")] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress lines.")] = False,
) -> None:
    """Train candidate models side by side and rank them by evidence, or by how they do on held-out rows."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace import defaults
    from online_laplace.progress import say, watched
    from online_laplace.selection import combine, select_on_table
    from online_laplace.terminal import tell

    candidates = combine([widths(text) for text in hidden or ["10", "50"]], names(activation), names(prior))
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InputError(f"--plot {plot}: its kind is not known: name it {', '.join(PICTURES)}")
    check_outputs(
        outputs(("--plot", plot, PLOT), ("--json", json_file, RANKING)), tables_read([table]), force=force
    )
    (opened,) = read_tables(
        [table], target=target, drop=drop, drop_unusable=drop_unusable, missing=missing, decimal=decimal
    )
    console = Console()
    with Console(stderr=True, quiet=quiet).status("") as live:
        told = live.update if quiet or watched() else say
        found = select_on_table(
            opened,
            candidates,
            splits=splits,
            steps=defaults.STEPS if steps is None else steps,
            members=members,
            seed=seed,
            device=device,
            by=by,
            on_candidate=lambda one: told(
                f"training {one} ({candidates.index(one) + 1} of {len(candidates)})"
            ),
        )
    print_ranking(found, console)
    if plot is not None:
        _draw(found, plot)
        tell(f"plot: {plot}")
    if json_file is not None:
        ranking = [one.to_dict() for one in found.ranked]
        write_json(
            "--json",
            json_file,
            {"by": found.by, "rank_correlation": found.rank_correlation, "ranked": ranking},
        )


def print_ranking(found: Selection, console: Console) -> None:
    """A line per candidate, the best first."""
    from rich.table import Table

    grid = Table(title=f"Candidates by {found.by}", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column("", justify="right")
    grid.add_column("candidate", no_wrap=True)
    for column in ("evidence (nats)", "held-out log-lik.", "RMSE", "s/split"):
        grid.add_column(column, justify="right", no_wrap=True)
    for place, one in enumerate(found.ranked, start=1):
        grid.add_row(
            str(place),
            str(one.candidate),
            f"{one.evidence:.1f}",
            _with_error(one.log_likelihood, one.log_likelihood_error),
            "-" if one.rmse is None else f"{one.rmse:.3f}",
            f"{one.records[0].seconds:.1f}",
        )
    console.print(grid)
    if found.rank_correlation is not None:
        console.print(
            f"rank correlation of evidence and held-out log-likelihood: {found.rank_correlation:.2f}",
            highlight=False,
        )


def _with_error(value: float, error: float) -> str:
    """A mean with its standard error, which one split does not have."""
    return f"{value:.3f}" if math.isnan(error) else f"{value:.3f} ± {error:.3f}"


def _draw(found: Selection, path: Path) -> None:
    from online_laplace.selection.plot import plot_selection
    from online_laplace.style import house_style

    with house_style():
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots(figsize=(7.5, 4.2))
        plot_selection(found, ax)
        picture = io.BytesIO()
        suffix = path.suffix.lower()
        figure.savefig(picture, format=suffix[1:], metadata=plot_metadata(suffix))
        plt.close(figure)
    write_whole("--plot", path, picture.getvalue())
