"""How training went: hyperparameters, evidences and the distance to the tangent model's mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from online_laplace.errors import known_name
from online_laplace.plots.axes import drawing_on
from online_laplace.style import BLUE, VERMILLION, log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What is drawn: label of the axis, whether it is logarithmic, and the traces with their names.
QUANTITIES: dict[str, tuple[str, bool, dict[str, str]]] = {
    "evidence": (
        "log evidence (scaled target)",
        False,
        {"laplace_evidence": "network, L_f", "tangent_evidence": "tangent model, L_h"},
    ),
    "alpha": ("weight precision α", True, {"alpha": "α"}),
    "beta": ("noise precision β", True, {"beta": "β"}),
    "gamma": ("effective parameters γ", False, {"gamma": "γ"}),
    "distance": ("distance ‖w − v*‖", True, {"distance": "‖w − v*‖"}),
}


def plot_history(model: Any, quantity: str = "evidence", *, ax: Axes | None = None) -> Axes:
    """Draw one quantity through training: every member faintly, their median strongly.

    Args:
        model: A fitted OnlineLaplaceRegressor or OnlineLaplaceClassifier.
        quantity: evidence, alpha, beta, gamma or distance. Of several precisions the geometric mean is drawn,
            of several γ the sum.
        ax: Where to draw; a new Axes by default.

    Examples:
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from online_laplace import OnlineLaplaceRegressor
        >>> from online_laplace.plots import plot_history
        >>> X = np.linspace(-1, 1, 20)[:, None]
        >>> model = OnlineLaplaceRegressor(hidden=4, members=2, max_steps=10, random_state=0).fit(X, X[:, 0])
        >>> plot_history(model, "gamma", ax=Figure().subplots()).get_xlabel()
        'step'
    """
    check_is_fitted(model)
    label, logarithmic, traces = QUANTITIES[known_name("quantity", quantity, QUANTITIES)]
    history = model.history_
    with drawing_on(ax) as ax:
        for (name, words), colour in zip(traces.items(), (BLUE, VERMILLION), strict=False):
            values = one_number(quantity, history[name])
            ax.plot(history["steps"], values, color=colour, linewidth=0.7, alpha=0.35)
            # A member that failed may leave numbers that are none.
            middle = np.nanmedian(np.where(np.isfinite(values), values, np.nan), axis=1)
            ax.plot(history["steps"], middle, color=colour, label=words)
        ax.set(xlabel="step", ylabel=label)
        if quantity == "evidence":
            _leave_the_start_out(ax, history)
        if logarithmic:
            log_axis(ax, "y")
        if len(traces) > 1:
            ax.legend()
    return ax


def one_number(quantity: str, values: Any) -> Any:
    """(T, members) or (T, members, ·) → (T, members)."""
    if values.ndim == 2:
        return values
    return values.sum(axis=-1) if quantity == "gamma" else np.exp(np.log(values).mean(axis=-1))


def _leave_the_start_out(ax: Axes, history: Any) -> None:
    """Untrained networks have an evidence so low that it would flatten all the rest."""
    later = history["steps"] >= 0.1 * history["steps"][-1]
    seen = np.concatenate([history[n][later].ravel() for n in ("laplace_evidence", "tangent_evidence")])
    seen = seen[np.isfinite(seen)]
    if len(seen) and np.ptp(seen) > 0:
        margin = 0.08 * np.ptp(seen)
        ax.set_ylim(seen.min() - margin, seen.max() + margin)
