"""Every figure of the report, drawn from stored results alone; one family a file."""

from online_laplace.figures.gallery import Drawn, draw_all

__all__ = ["Drawn", "draw_all"]
