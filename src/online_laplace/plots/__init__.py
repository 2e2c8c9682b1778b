"""Pictures of a fitted model. Each function takes a matplotlib Axes, or makes one, and returns it."""

from online_laplace.plots.calibration import plot_calibration
from online_laplace.plots.classes import plot_confusion, plot_reliability
from online_laplace.plots.history import plot_history
from online_laplace.plots.predictions import plot_predictions
from online_laplace.plots.relevance import plot_relevance

__all__ = [
    "plot_calibration",
    "plot_confusion",
    "plot_history",
    "plot_predictions",
    "plot_relevance",
    "plot_reliability",
]
