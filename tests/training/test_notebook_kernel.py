"""A real kernel of Jupyter shows arrays, tensors, programs, traced values and bars."""

import importlib.util
import shutil

import pytest
from support.long_forms import only_long

pytestmark = [only_long, pytest.mark.long]
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

CELLS = {
    "array": "import functensor as ft, functensor.numpy as np\nx = np.array([1.0, 2.0]); x",
    "large": "np.ones((50, 50))",
    "scalar": "x.sum()",
    "tensor": "ft.Tensor(np.ones((50, 50)), requires_grad=True)",
    "program": "ft.make_program(lambda x: np.sum(np.sin(x)))(x)",
    "traced": "ft.grad(lambda x: (display(x), np.sum(x))[1])(x)",
    "bar": "for i in (bar := ft.training.progress(range(5), desc='fit', interval=0.0)):\n"
    "    bar.report(loss=1.0 / (1 + i))",
    "quiet": "for _ in ft.training.progress(range(5), quiet=True): pass",
}


@pytest.fixture(scope="module")
def notebook():
    """Returns a notebook whose cells were run, and their outputs by name."""
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    return book, {name: cell.outputs for name, cell in zip(CELLS, book.cells, strict=True)}


def data(outputs):
    """Returns what the first output shows, by its kind."""
    return outputs[0]["data"]


def test_arrays_and_tensors(notebook):
    _, outputs = notebook
    shown = data(outputs["array"])
    assert shown == {"text/plain": "Array([1., 2.], dtype=float64, device='cpu')"}
    assert "<table" in data(outputs["large"])["text/html"]
    assert data(outputs["scalar"]) == {"text/plain": "Array(3., dtype=float64, device='cpu')"}
    assert "requires_grad" in data(outputs["tensor"])["text/html"]


def test_a_program(notebook):
    shown = data(notebook[1]["program"])
    assert "sin(a)" in shown["text/plain"]
    is_drawn = shutil.which("dot") and importlib.util.find_spec("graphviz")
    assert ("<svg" if is_drawn else "<pre>") in shown["text/html"]


def test_traced_values(notebook):
    first, second = notebook[1]["traced"]
    assert first["data"].keys() == {"text/plain"}
    assert first["data"]["text/plain"].startswith("ReverseTracer<float64[2] under grad(")
    assert second["data"].keys() == {"text/plain"}


def test_a_bar(notebook):
    book, outputs = notebook
    assert outputs["quiet"] == []
    if importlib.util.find_spec("ipywidgets") is not None:
        assert "application/vnd.jupyter.widget-view+json" in data(outputs["bar"])
        states = book.metadata["widgets"].values()
        values = [w["state"].get("value", "") for s in states for w in s["state"].values()]
        assert any("loss=0.2" in str(value) for value in values)
    else:
        text = "".join(output["text"] for output in outputs["bar"])
        assert "fit: 100%" in text
        assert "5/5" in text
        assert "loss=0.2" in text
        assert "Warning" not in text
