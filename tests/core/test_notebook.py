"""What notebooks show of arrays, tensors and traced values; and texts that leave elements out."""

import html
import re
from xml.etree import ElementTree

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.notebook import MOST_SUMMARISED


def table(x):
    """Returns the cells of an array's table by their names, and the elements' text."""
    with numpy.printoptions(threshold=0):
        shown = x._repr_html_()
    root = ElementTree.fromstring(f"<div>{shown}</div>")
    names, values = root.findall("div/table/tr")
    cells = {name.text: value.text for name, value in zip(names, values, strict=True)}
    return cells, root.find("pre").text


def test_an_array():
    cells, text = table(np.array([[1.5, -2.0], [3.0, 0.5]]))
    assert cells == {
        "type": "Array", "shape": "(2, 2)", "dtype": "float64", "device": "cpu",
        "min": "-2", "max": "3", "mean": "0.75",
    }  # fmt: skip
    assert text == "[[ 1.5, -2. ],\n [ 3. ,  0.5]]"


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        (numpy.array([2**62 + 1, -3]), {"min": "-3", "max": str(2**62 + 1), "mean": "2.3058e+18"}),
        (numpy.array([True, False, True]), {"true": "2 of 3"}),
        (numpy.array([1.0, numpy.nan, numpy.inf, 3.0]),
         {"min": "1", "max": "3", "mean": "2", "not finite": "2"}),
        (numpy.array([numpy.nan, numpy.nan]), {"not finite": "2"}),
        (numpy.full(4096, 60000.0, "float16"), {"min": "60000", "max": "60000", "mean": "60000"}),
        (numpy.array([1 + 2j, 3.0]), {}),
        (numpy.array([7]), {"min": "7", "max": "7", "mean": "7"}),
        (numpy.zeros(MOST_SUMMARISED + 1, "int8"), {}),
        (numpy.zeros(MOST_SUMMARISED, "int8"), {"min": "0", "max": "0", "mean": "0"}),
    ],
)  # fmt: skip
def test_numbers_that_are_summarised(values, facts):
    cells, text = table(np.asarray(values))
    known = {"type": "Array", "shape": str(values.shape), "dtype": str(values.dtype)}
    assert cells == {**known, "device": "cpu", **facts}
    with numpy.printoptions(threshold=0):
        assert text == numpy.array2string(values, separator=", ")


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    cells, _ = table(np.array([1.0, 2.5], dtype=ml_dtypes.bfloat16))
    assert (cells["dtype"], cells["min"], cells["max"], cells["mean"]) == (
        "bfloat16", "1", "2.5", "1.75"
    )  # fmt: skip


def test_a_tensor():
    cells, text = table(ft.Tensor([1.0, 2.0]))
    assert list(cells) == ["type", "shape", "dtype", "device", "min", "max", "mean"]
    assert (cells["type"], text) == ("Tensor", "[1., 2.]")
    cells, _ = table(ft.Tensor([1.0, 2.0], requires_grad=True))
    assert cells["requires_grad"] == "True"
    parameter = ft.torch.nn.Parameter(ft.torch.zeros(2))
    assert table(parameter)[0]["type"] == "Parameter"
    base = ft.Tensor([[1.0, 2.0], [3.0, 4.0]])
    view = base[0]
    base[0, 0] = 5.0
    # A view that is behind its base catches up.
    assert table(view)[0]["max"] == "5"


def test_texts_are_escaped_and_colours_are_the_pages():
    with numpy.printoptions(threshold=0):
        shown = np.array([1.0, 2.0])._repr_html_()
    assert set(re.findall(r"(?:color|background): (\w+)", shown)) == {"inherit", "transparent"}
    with numpy.printoptions(formatter={"float": lambda x: f"<{x}>&"}, threshold=0):
        shown = np.array([1.0, 2.0])._repr_html_()
    assert html.escape("[<1.0>&, <2.0>&]") in shown
    assert "<1.0>" not in shown


def test_no_table_where_the_text_says_it_better():
    assert np.array(2.0)._repr_html_() is None
    assert ft.Tensor([2.0, 3.0])._repr_html_() is None
    assert np.ones(1000)._repr_html_() is None
    assert np.ones((0, 2))._repr_html_() is None
    x = np.ones(3000)
    ft.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x._repr_html_() is None


def test_traced_values_have_their_text_alone():
    shown = []

    def loss(x):
        shown.append((x._repr_html_(), repr(x).split("<")[0]))
        return (x * x).sum()

    ft.grad(loss)(np.ones(3))
    ft.vmap(loss)(np.ones((2, 3)))
    ft.make_program(loss)(np.ones(3))
    ft.grad(loss)(ft.Tensor([1.0]))
    assert [html for html, _ in shown] == [None] * 4
    assert all(name.endswith(("Tracer", "Tensor")) for _, name in shown)


def test_a_table_takes_part_in_no_transformation():
    seen = []
    x = np.ones(3)
    with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, inputs, output: seen.append(op))):
        ft.grad(lambda y: (table(x), (x * y).sum())[1])(2.0)
        seen.clear()
        table(x)
        table(ft.Tensor([1.0, 2.0], requires_grad=True))
    assert seen == []


def test_texts_that_leave_elements_out_have_the_shape():
    x = np.ones((100, 100))
    assert repr(x).endswith("1.]], shape=(100, 100), dtype=float64, device='cpu')")
    assert np.array_repr(x) == repr(x)
    assert "shape" not in repr(np.ones(1000))
    assert "shape=(1001,)" in repr(np.ones(1001))
    with numpy.printoptions(threshold=5):
        assert "shape=(6,)" in repr(np.ones(6))
    with numpy.printoptions(threshold=10**6):
        assert "shape" not in repr(x)
    with numpy.printoptions(legacy="2.1"):
        assert "shape" not in repr(x)


@pytest.mark.skipif(
    numpy.lib.NumpyVersion(numpy.__version__) < "2.2.0", reason="NumPy's text has no shape"
)
@pytest.mark.parametrize("size", [1000, 1001])
def test_the_shape_is_where_numpys_text_has_it(size):
    x = numpy.ones(size)
    assert ("shape=" in repr(np.asarray(x))) == ("shape=" in repr(x))


def test_tensors_keep_pytorchs_text():
    assert "size" not in repr(ft.Tensor(numpy.ones((100, 100))))
    assert "shape" not in repr(ft.Tensor(numpy.ones((100, 100))))


@pytest.mark.gpu
def test_on_a_gpu():
    cells, text = table(ft.to_device(np.array([1.0, 2.0]), "cuda"))
    assert cells == {"type": "Array", "shape": "(2,)", "dtype": "float64", "device": "cuda:0"}
    assert text == "[1., 2.]"
