"""The one default configuration, the same for every table; docs/default-configuration.md says why."""

from __future__ import annotations

HIDDEN = (50,)
ACTIVATION = "tanh"
PROCEDURE = "ol"
OPTIMISER = "gauss-newton"
PRIOR = "scalar"
KEEP = "average"
MEMBERS = 5
STEPS = 120

# Of the classifier; docs/guides/classes.md says how they were chosen.
CLASS_HIDDEN = (20,)
CLASS_PRIOR = "scalar"
CLASS_MEMBERS = 5
CLASS_STEPS = 40
