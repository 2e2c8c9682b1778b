"""Lets the reference show the values of the package's defaults, not the names of its constants."""

from __future__ import annotations

from typing import Any

import griffe

from online_laplace import defaults


class Defaults(griffe.Extension):
    """`hidden = defaults.HIDDEN` in a signature becomes `hidden = (50,)`."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Look at every default of a function."""
        for parameter in func.parameters:
            *module, name = str(parameter.default).rsplit(".", 1)
            if module == ["defaults"]:
                parameter.default = repr(getattr(defaults, name))
