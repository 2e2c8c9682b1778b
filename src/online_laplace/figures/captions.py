"""What a reader is told of each figure: a title, a caption, and words for those who cannot see it.

`{table}`, `{splits}` and `{score}` are filled in from the results.
"""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """The text that goes with a figure."""

    title: str
    caption: str
    alt: str


WORDS = {
    "taylor": Words(
        "Why the first-order term matters",
        "A log-density (grey) expanded to second order at a point where it still rises. With the slope "
        "(orange) the parabola finds the neighbourhood of the peak; without it (blue) the "
        "parabola puts its own peak at the point of expansion.",
        "A curve with one peak and two parabolas that touch it left of the peak; one leans towards the "
        "peak, the other has its top at the point of contact.",
    ),
    "evidence": Words(
        "Three objectives for α, and where they lead",
        "Above: at one early step of OL, the evidence of the tangent model as a function of α (grey), "
        "and the bounds that LM and OL climb, with their maximisers (diamonds); β stays at its current "
        "value. The LM bound touches the evidence at the current α; the OL bound lies below it by the "
        "slack that comes from not being at the mode. Below: α through training, every split (faint) and "
        "the median (strong).",
        "For every table, three curves of the evidence against α with the OL curve lowest, and below "
        "them the trajectories of α for OL and LM on logarithmic axes.",
    ),
    "weights": Words(
        "Weights and tangent-model mode through training",
        "Histograms of the network's weights and of v*, the mode of the model linearised at them "
        "({table}, first split). Where the two agree, the network is at a mode of its own tangent model. "
        "The outermost bars hold everything beyond them.",
        "A grid of histograms, a row for each procedure and a column for each moment; each panel holds "
        "the histogram of the weights and that of the mode.",
    ),
    "convergence": Words(
        "Distance to the mode, and test error against evidence",
        "Above: the Euclidean distance between the weights and v*, every split (faint) and the median "
        "(strong). Below: the path of the median run through evidence and test error, from the dot to "
        "the square; the diamond marks the highest evidence. The first observations, far below the others, "
        "are left out below.",
        "For every table, the distance between weights and mode against steps for OL and LM, and below "
        "it test error against the evidence as a path with its start, end and highest evidence marked.",
    ),
    "score": Words(
        "{score}",
        "{score} in the target's units, {splits}.",
        "{score}: a point with an error bar for each method on each table.",
    ),
    "evolution": Words(
        "Training on {table}",
        "Everything that moves while networks train on {table}: every split (faint) and the median "
        "(strong). Offline training appears where it is comparable; its α and β are fixed while it "
        "trains.",
        "Seven panels against the step on {table}: alpha, beta, gamma, distance to the mode, both "
        "evidences, root mean squared errors and log-likelihoods.",
    ),
    "update": Words(
        "One hyperparameter update",
        "The first update of α and of β on {table}, before any training: the current value (dashed), the "
        "bound that is climbed while the mean stays where it is, its maximiser (diamond), and where MacKay's "
        "update lands (dot). The update solves for the maximiser with γ frozen, so that it moves "
        "towards the diamond without always meeting it.",
        "Four panels, alpha and beta for OL and LM, each with a curve, a dashed vertical line at the "
        "current value, a diamond at the curve's top and a dot at the updated value.",
    ),
}
