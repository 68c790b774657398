"""Makes notebooks of pages whose cells run: python docs/notebooks.py FOLDER

An extension of Sphinx too, for conf.py: it writes the notebooks before the site is built, and puts
a link for the download under the title of each such page.
"""

import re
import sys
from pathlib import Path

import jupytext
import nbformat

DOCS = Path(__file__).resolve().parent
PAGES = ("quickstart", "tutorials/first_gradient", "tutorials/vmap")
# The notebooks' folder in the site's source; git ignores it.
DOWNLOADS = "downloads"
NEEDS = (
    "This notebook is a page of functensor's documentation. It needs "
    "`pip install 'functensor[examples,serialization]'`."
)
LINK = "{download}`This page as a notebook </%s/%s>`"
# A link to another page of the site, which a notebook elsewhere cannot follow.
TO_A_PAGE = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")


def notebook_of(page):
    """Returns the notebook of a page, which has not run.

    Args:
        page: the page's path within docs, without its suffix.
    """
    notebook = jupytext.read(DOCS / f"{page}.md", fmt="md:myst")
    title, _, rest = notebook.cells[0].source.partition("\n")
    notebook.cells[0].source = f"{title}\n\n{NEEDS}\n{rest}"
    for number, cell in enumerate(notebook.cells):
        # The same page gives the same file.
        cell.id = f"cell-{number}"
        if cell.cell_type == "markdown":
            cell.source = TO_A_PAGE.sub(r"*\1*", cell.source)
    nbformat.validate(notebook)
    return notebook


def file_of(page):
    """Returns the name of a page's notebook."""
    return f"{page.rpartition('/')[2]}.ipynb"


def write(folder):
    """Writes all notebooks into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        nbformat.write(notebook_of(page), folder / file_of(page))


def leave_out_downloads(app, config):
    """Keeps the notebooks from being pages of their own."""
    config.exclude_patterns.append(DOWNLOADS)


def write_downloads(app):
    """Writes the notebooks where the links of the pages look for them."""
    write(Path(app.srcdir, DOWNLOADS))


def add_link(app, page, source):
    """Puts the link under the title of a page that has a notebook."""
    if page in PAGES:
        link = LINK % (DOWNLOADS, file_of(page))
        source[0] = re.sub(r"^# .*$", rf"\g<0>\n\n{link}", source[0], count=1, flags=re.MULTILINE)


def setup(app):
    """Connects the above to Sphinx."""
    app.connect("config-inited", leave_out_downloads)
    app.connect("builder-inited", write_downloads)
    app.connect("source-read", add_link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
