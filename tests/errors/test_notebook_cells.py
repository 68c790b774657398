"""Messages name a notebook's cells by their numbers, as IPython does."""

import os
import sys
import tempfile
from types import SimpleNamespace

import pytest

import functensor as ft
import functensor.numpy as np
from functensor.backends.notebook_cells import in_notebook, with_cells_named

FOLDER = os.path.join(tempfile.gettempdir(), f"ipykernel_{os.getpid()}")
CELL, OTHER = (os.path.join(FOLDER, f"{number}.py") for number in (2650073269, 17))
SOURCE = """
def loss(x):
    return np.sum(np.linalg.inv(x))

jitted = ft.jit(loss)

def refused():
    return ft.grad(np.sin)(np.ones(2))
"""


@pytest.fixture
def cells(monkeypatch):
    """A shell that knows one cell as its third."""

    def format_code_name(name):
        return ("Cell", "In[3]") if name == CELL else None

    shell = SimpleNamespace(
        compile=SimpleNamespace(format_code_name=format_code_name), kernel=object()
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


@pytest.fixture
def defined():
    """The names that the code of that cell defines."""
    names = {"ft": ft, "np": np, "__name__": "__main__"}
    exec(compile(SOURCE, CELL, "exec"), names)
    return names


def test_cells_that_ipython_knows_have_its_names(cells):
    assert in_notebook()
    assert with_cells_named(f"at {CELL}:2, under f ({CELL}:1)") == "at In[3]:2, under f (In[3]:1)"
    assert with_cells_named(f"at {OTHER}:2") == f"at {OTHER}:2"
    assert with_cells_named("at script.py:2") == "at script.py:2"


def test_texts_stay_where_no_notebook_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()
    assert with_cells_named(f"at {CELL}:2") == f"at {CELL}:2"


def test_errors_name_the_cell(cells, defined):
    with pytest.raises(ft.errors.NonScalarOutputError, match=r"\n  at In\[3\]:8\n"):
        defined["refused"]()
    with pytest.raises(np.linalg.LinAlgError) as caught:
        defined["jitted"](np.zeros((2, 2)))
    assert caught.value.__notes__[0].startswith("in inv of loss, at In[3]:3\n")


def test_what_is_known_of_a_jitted_function_names_the_cell(cells, defined):
    jitted = defined["jitted"]
    jitted(np.eye(2))
    lowered = jitted.lower(np.eye(2))
    assert jitted.explain().startswith("loss (In[3]:2) was staged once:")
    assert "# In[3]:3\n" in lowered.source
    assert lowered.program.show(lines=True).count("# In[3]:3") == 2
