"""Evidence against held-out log-likelihood, a point per candidate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from online_laplace.selection.rank import RANKS, Selection
from online_laplace.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = {"scalar": "o", "layerwise": "s", "ard": "^"}
_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)


def plot_selection(selection: Selection, ax: Axes) -> Axes:
    """Draw on `ax` and return it: colour by architecture, marker by prior, a ring around the choice."""
    usable = [one for one in selection.ranked if math.isfinite(one.evidence + one.log_likelihood)]
    networks = list(dict.fromkeys((one.candidate.hidden, one.candidate.activation) for one in usable))
    for one in usable:
        candidate = one.candidate
        place = networks.index((candidate.hidden, candidate.activation))
        ax.errorbar(
            one.evidence,
            one.log_likelihood,
            yerr=None if math.isnan(one.log_likelihood_error) else one.log_likelihood_error,
            color=_COLOURS[place % len(_COLOURS)],
            marker=_MARKERS[candidate.prior],
            markersize=7,
            elinewidth=1,
            linestyle="none",
            label=str(candidate),
        )
    if usable:
        ax.plot(
            usable[0].evidence,
            usable[0].log_likelihood,
            marker="o",
            markersize=15,
            fillstyle="none",
            color="black",
            linestyle="none",
            label=RANKS[selection.by],
        )
    ax.set_xlabel("evidence on the training rows (nats)")
    ax.set_ylabel("held-out log-likelihood (per row)")
    correlation = selection.rank_correlation
    if correlation is not None:
        ax.set_title(f"rank correlation {correlation:.2f}")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return ax
