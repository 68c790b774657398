"""The notebooks that the site offers: made from its pages, they run."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import only_long

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("quickstart", "tutorials/first_gradient", "tutorials/vmap")
CONF = """
import sys

sys.path.insert(0, {docs!r})
extensions = ["myst_nb", "notebooks"]
nb_execution_mode = "off"
# Cells that did not run have no language.
suppress_warnings = ["myst-nb.lexer", "myst.xref_missing"]
"""


@pytest.fixture(scope="module")
def notebooks():
    """The script, as a module."""
    pytest.importorskip("jupytext")
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(notebook):
    """Returns all texts that the cells of a notebook printed or showed."""
    every = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(out.get("text", "") or str(out.get("data", "")) for out in every)


def test_pages_that_are_offered(notebooks):
    assert notebooks.PAGES == PAGES


def test_links_and_notes_of_a_notebook(notebooks):
    notebook = notebooks.notebook_of("tutorials/vmap")
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert texts[0].startswith("# Write for one example, run a batch\n\nThis notebook is a page")
    assert "](" not in "".join(texts)
    assert "- *Random numbers from keys*: a batch" in texts[-1]
    assert notebooks.notebook_of("tutorials/vmap") == notebook


def test_files_are_written(notebooks, tmp_path):
    notebooks.write(tmp_path / "new")
    files = ["first_gradient.ipynb", "quickstart.ipynb", "vmap.ipynb"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == files


@only_long
@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_notebooks_run(notebooks, page, tmp_path, monkeypatch):
    # A backend that was chosen for scripts would keep pictures out of notebooks.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    notebook = notebooks.notebook_of(page)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    shown = outputs(notebook)
    assert shown.count("image/png") == 2
    # Cells go by their numbers.
    assert "ipykernel_" not in shown.replace("/tqdm/", "")
    if page == "quickstart":
        # A bar, as text or as a widget.
        assert "10/10" in shown or "jupyter.widget-view" in shown
        assert "are right, epoch 10" in shown
    else:
        assert "  at In[" in shown


@only_long
@pytest.mark.long
def test_sphinx_puts_a_link_under_the_title(notebooks, tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    source = tmp_path / "source"
    (source / "tutorials").mkdir(parents=True)
    (source / "conf.py").write_text(CONF.format(docs=str(DOCS)))
    (source / "index.md").write_text("# Index\n\n```{toctree}\nquickstart\ntutorials/vmap\n```\n")
    for page in ("quickstart", "tutorials/vmap"):
        (source / f"{page}.md").write_text((DOCS / f"{page}.md").read_text())
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(source)]
    subprocess.run([*build, str(tmp_path / "site")], check=True)
    for page in ("quickstart", "tutorials/vmap"):
        text = (tmp_path / "site" / f"{page}.html").read_text()
        assert f"/{notebooks.file_of(page)}\"" in text
    offered = (tmp_path / "site" / "_downloads").rglob("*.ipynb")
    assert sorted(path.name for path in offered) == ["quickstart.ipynb", "vmap.ipynb"]
