"""What nobody has to say; docs/project/choices.md says why.

An estimator that is told nothing of the network takes a preset, a pool of candidates. Where a network is
named, what is not said of it is this, the same for every table.
"""

from __future__ import annotations

PRESET = "balanced"

HIDDEN = (50,)
ACTIVATION = "tanh"
PROCEDURE = "ol"
OPTIMISER = "gauss-newton"
PRIOR = "scalar"
KEEP = "average"
MEMBERS = 5
STEPS = 120

# Of the classifier; docs/project/choices.md says how they were chosen.
CLASS_HIDDEN = (20,)
CLASS_PRIOR = "scalar"
CLASS_MEMBERS = 5
CLASS_STEPS = 40

NETWORK = {
    "hidden": HIDDEN,
    "activation": ACTIVATION,
    "procedure": PROCEDURE,
    "optimiser": OPTIMISER,
    "prior": PRIOR,
    "members": MEMBERS,
    "max_steps": STEPS,
}
CLASS_NETWORK = NETWORK | {
    "hidden": CLASS_HIDDEN,
    "prior": CLASS_PRIOR,
    "members": CLASS_MEMBERS,
    "max_steps": CLASS_STEPS,
}
