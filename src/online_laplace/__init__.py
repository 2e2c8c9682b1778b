"""Neural networks that tune their own weight decay and noise level while they train."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("online-laplace")
