"""Neural networks that tune their own weight decay and noise level while they train."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from online_laplace._version import __version__

if TYPE_CHECKING:
    from online_laplace.estimators import (
        OnlineLaplaceClassifier,
        OnlineLaplaceRegressor,
        PredictiveDistribution,
        load,
    )
    from online_laplace.modules import OnlineLaplace

__all__ = [
    "OnlineLaplace",
    "OnlineLaplaceClassifier",
    "OnlineLaplaceRegressor",
    "PredictiveDistribution",
    "__version__",
    "load",
]

# Found when first asked for, so that `import online_laplace` waits for neither torch nor scikit-learn.
_HOMES = {
    "OnlineLaplace": "online_laplace.modules",
    "OnlineLaplaceClassifier": "online_laplace.estimators",
    "OnlineLaplaceRegressor": "online_laplace.estimators",
    "PredictiveDistribution": "online_laplace.estimators",
    "load": "online_laplace.estimators",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
