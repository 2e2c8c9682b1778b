"""Choosing a model by its evidence: train candidates side by side, rank them, check on held-out rows."""

from online_laplace.ensemble.architecture import Architecture as Candidate
from online_laplace.ensemble.architecture import combine
from online_laplace.selection.rank import Ranked, Selection, select, select_on_table

__all__ = ["Candidate", "Ranked", "Selection", "combine", "select", "select_on_table"]
