"""Notebooks: whether one runs, and cells by their numbers, which messages show in place of files.

IPython compiles each cell under the name of a file of its own: a number, in a folder for temporary
files. No such file exists, and nobody knows a cell by it. Where no notebook runs, texts stay as
they are.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["in_notebook", "with_cells_named"]


def running_shell() -> Any:
    """Returns the shell of IPython that runs the user's code; None if there is none."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if find is None else find()


def in_notebook() -> bool:
    """Says whether the user's code runs in a notebook's kernel."""
    return getattr(running_shell(), "kernel", None) is not None


def with_cells_named(text: str) -> str:
    """Returns a text in which cells stand by IPython's names of them: ``In[3]:2`` is a line."""
    compiler: Any = getattr(running_shell(), "compile", None)
    format_code_name = getattr(compiler, "format_code_name", None)
    if format_code_name is None:
        return text
    import os  # which only messages need
    import re
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), f"ipykernel_{os.getpid()}", "")

    def named(found: re.Match[str]) -> str:
        known = format_code_name(found[0])
        return known[1] if known else found[0]

    files = re.escape(folder) + r"\d+\.py|<ipython-input-\d+-[0-9a-f]+>"
    return re.sub(files, named, text)
