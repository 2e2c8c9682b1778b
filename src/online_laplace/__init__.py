"""Neural networks that tune their own weight decay and noise level while they train."""

from __future__ import annotations

from online_laplace._version import __version__

__all__ = ["__version__"]
