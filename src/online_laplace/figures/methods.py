"""The paper's methods in every figure: their colours, marks and names."""

from __future__ import annotations

from online_laplace.style import BLUE, GREEN, PURPLE, VERMILLION

# The same method has the same colour, and the same marker, in every figure.
COLOURS = {"OL": BLUE, "LM": VERMILLION, "offline L_f": GREEN, "offline L_h": PURPLE}
MARKERS = {"OL": "circle", "LM": "square", "offline L_f": "triangle-up", "offline L_h": "diamond"}
PROCEDURE_COLOURS = {"ol": BLUE, "lm": VERMILLION, "offline": GREEN}
PROCEDURE_LABELS = {"ol": "OL", "lm": "LM", "offline": "offline"}
