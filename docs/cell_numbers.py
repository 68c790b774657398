"""An extension of Sphinx: shows the numbers of cells, by which messages name them.

A message at ``In[3]:2`` is about the second line of the cell that is numbered 3. Cells that a page
hides count too.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

__all__ = ["setup"]


def number_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Puts its number above the source of every cell that ran."""
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") != "cell_code" or not cell.get("exec_count"):
            continue
        source = cell.children[0]
        if isinstance(source, nodes.container) and source.get("nb_element") == "cell_code_source":
            text = f"In[{cell['exec_count']}]"
            source.insert(0, nodes.paragraph("", text, classes=["cell-number"]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the above to Sphinx."""
    app.connect("doctree-read", number_cells)
    app.add_css_file("cells.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
