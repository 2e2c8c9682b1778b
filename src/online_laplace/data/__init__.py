"""The tables, how they are split, and how they are scaled."""

from online_laplace.data.checks import check_arrays
from online_laplace.data.resolution import resolution
from online_laplace.data.scaling import Scaler
from online_laplace.data.splits import Split, hold_out_validation, paper_splits
from online_laplace.data.tables import TABLES, Table, load_table

__all__ = [
    "TABLES",
    "Scaler",
    "Split",
    "Table",
    "check_arrays",
    "hold_out_validation",
    "load_table",
    "paper_splits",
    "resolution",
]
