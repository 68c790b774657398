"""Programs draw themselves in notebooks, and are aligned text where Graphviz is missing."""

import shutil
from html import unescape
from xml.etree import ElementTree

import pytest

import functensor as ft
import functensor.numpy as np

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz's dot is missing")


def layer(p, x):
    with ft.scope("a<b>"):
        return {"y": np.tanh(x @ p["w"])}


ARGUMENTS = {"w": np.ones((3, 2))}, np.ones((4, 3))
TEXT = """\
layer
  a         float64[3,2]  input args[0]['w']
  b         float64[4,3]  input args[1]
  scope a<b>
    c       float64[4,2]  matmul(b, a)
    d       float64[4,2]  tanh(c)
  return d  float64[4,2]  output['y']"""


@needs_dot
def test_a_program_is_a_picture():
    root = ElementTree.fromstring(ft.make_program(layer)(*ARGUMENTS)._repr_html_())
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"args[0]['w']", "args[1]", "a<b>", "matmul", "tanh", "output['y']"} <= set(texts)


def test_a_program_is_text_without_graphviz(monkeypatch):
    monkeypatch.setenv("PATH", "")
    shown = ft.make_program(layer)(*ARGUMENTS)._repr_html_()
    assert shown.startswith("<pre>")
    assert "a&lt;b&gt;" in shown
    assert unescape(shown) == f"<pre>{TEXT}</pre>"


def test_programs_of_jitted_functions(monkeypatch):
    monkeypatch.setenv("PATH", "")
    f = ft.jit(lambda x, y: (x, np.sum(np.exp(x - y) * 2.0)), donate_argnums=0)
    x = np.ones((500, 200))
    lowered = f.lower(x, x)
    assert "fused over" in lowered._repr_html_()
    assert lowered.program._repr_html_().count("multiply(") == 1
    # One that is optimized for donated arguments lacks outputs that are arguments.
    assert "output" in lowered.optimized._repr_html_()


def test_bodies_of_loops(monkeypatch):
    monkeypatch.setenv("PATH", "")
    program = ft.make_program(lambda x: ft.fori_loop(0, 3, lambda i, y: y * x, x))(2.0)
    shown = []

    def show(program):
        shown.append(program._repr_html_())
        for equation in program.equations:
            for body in equation.primitive.bodies:
                show(body)

    show(program)
    assert len(shown) > 1
    assert all("args[" in text and "output" in text for text in shown)


def test_a_program_of_no_operations(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "return" in ft.make_program(lambda x: x)(1.0)._repr_html_()
