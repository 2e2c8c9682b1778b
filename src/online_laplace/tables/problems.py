"""What keeps the columns of a table from being used, said at once and with what to type."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from online_laplace.errors import InputError
from online_laplace.tables.notation import Notation, contradicting, maybe_thousands


@dataclass(frozen=True)
class Problem:
    """A column that cannot be used as it is: `what` it holds, and what to do other than leaving it out."""

    column: str
    what: str
    remedy: str


def refusal(problems: Sequence[Problem], others: Sequence[str] = ()) -> InputError:
    """One error for all problems with columns, and others, that ends with what to type."""
    dropped = drop_option([problem.column for problem in problems])
    if len(problems) == 1 and not others:
        (one,) = problems
        return InputError(f"column {one.column!r} {one.what}: {one.remedy}, or leave it out with {dropped}")
    if not problems and len(others) == 1:
        return InputError(others[0])
    lines = [f"  column {one.column!r} {one.what}: {one.remedy}" for one in problems]
    lines += [f"  {words}" for words in others]
    if problems:
        lines.append(f"columns are left out with {dropped}, or all of these with --drop-unusable")
    return InputError("\n".join(["the table cannot be used as it is:", *lines]))


def drop_option(names: Sequence[str]) -> str:
    """The option that leaves columns out, as a shell takes it."""
    quoted = ('"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name for name in names)
    return f"--drop {shlex.quote(','.join(quoted))}"


def row_count(count: int) -> str:
    """A number of rows in words."""
    return counted(count, "rows")


def counted(count: int, rows: str) -> str:
    """A number of certain `rows`, such as those held out, in words."""
    return f"{count:,} {rows.replace('rows', 'row', 1) if count == 1 else rows}"


def about_dots(texts: Sequence[str], notation: Notation, decimal: str | None) -> str | None:
    """What to say of numbers whose dots may stand between thousands, or before decimals against `decimal`."""
    if decimal is None:
        example = maybe_thousands(texts, notation)
        return example and (
            f"holds {example!r}, in which the dot may stand before decimals or between thousands: "
            "read as decimals; say --decimal , if it is thousands, or --decimal . if not"
        )
    example = contradicting(texts, notation, decimal)
    return (
        example and f"holds {example!r}, in which a dot stands before decimals: read so despite --decimal ,"
    )
