"""How the documentation becomes a site: `make docs`, without network access."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from commands_reference import PLACE, commands

from online_laplace import __version__

project = "online-laplace"
author = "The online-laplace authors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["data", "*.py", "ruff.toml"]
root_doc = "index"

# Links to headings as they are written on the pages themselves: page.md#a-heading.
myst_heading_anchors = 4
myst_links_external_new_tab = False
# Code is highlighted where the language is known, and shown where not.
highlight_language = "none"
smartquotes = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "
# Outputs are for reading, not for copying.
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"

# One backtick in a docstring is code, as everywhere else in this project.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "online-laplace"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# The words around a hit would be fetched page by page, which a browser refuses without a server.
html_show_search_summary = False
html_theme_options = {"footer_icons": []}


def _put_commands(app: Any, docname: str, source: list[str]) -> None:
    """The tables of the commands' options, where a page asks for them."""
    if PLACE in source[0]:
        source[0] = source[0].replace(PLACE, commands())


def _skip(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool:
    """Fields of tuples say nothing but their number."""
    said = getattr(obj, "__doc__", None) or ""
    return skip or said.startswith("Alias for field number")


def _as_written(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are Markdown: |α|, v* and gamma_ mean themselves, but for code and examples."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (
            example and bool(line.strip())
        )
        if not example:
            # The name of an argument or attribute is code already; what is said of it is not.
            named = re.match(r"\s*\w+( \(.*?\))?:|", line)
            start = named[0] if named else ""
            parts = re.split(r"(`+[^`]+`+)", line[len(start) :])
            parts[::2] = [
                re.sub(r"([*|]|_\b|_(?=\W|$))", r"\\\1", part)
                for part in parts[::2]
            ]
            lines[i] = start + "".join(parts)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    # Before napoleon makes reStructuredText of what is left.
    app.connect("autodoc-process-docstring", _as_written, priority=400)
    app.connect("source-read", _put_commands)
    app.connect("autodoc-skip-member", _skip)
