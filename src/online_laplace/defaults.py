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
