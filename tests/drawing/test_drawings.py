"""What drawings share: folding, limits, files, the same text everywhere, and no graphviz."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy
import pytest
from hypothesis import given
from support.random_programs import arrays, program, steps

import functensor as ft
import functensor.numpy as np
from functensor.drawing.diagram import Box
from functensor.drawing.folding import deepest, drawn_nodes, folded

SVG = "{http://www.w3.org/2000/svg}"
PAGE_PICTURE = Path(__file__).resolve().parents[2] / "docs" / "drawing.svg"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz's dot is missing")

SAME = """
import functensor as ft, functensor.numpy as np
def fun(p, x):
    with ft.scope("a"):
        return ft.scan(lambda c, y: (c + np.sum(p["w"] * y), c), x, np.ones((3, 2)))
d = ft.draw(ft.grad(lambda p, x: fun(p, x)[0]))({"w": np.ones(2), "b": 1.0}, 2.0)
print(d, d.dot)
"""


def test_every_process_draws_the_same():
    texts = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SAME], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1
    assert "digraph" in texts.pop()


def boxes(box):
    yield box
    for inner in box.boxes():
        yield from boxes(inner)


def deep(x):
    for i in range(5):
        with ft.scope(f"block{i}"):
            for j in range(2):
                with ft.scope(f"layer{j}"):
                    x = np.sin(x) * x
    return x


def test_folding_by_depth():
    x = numpy.ones(3)
    assert str(ft.draw(deep, depth=0)(x)).splitlines()[2:4] == [
        "  e         float64[3]  block0(a): 4 operations",
        "  i         float64[3]  block1(e): 4 operations",
    ]
    text = str(ft.draw(deep, depth=1)(x))
    assert "    c       float64[3]  layer0(a): 2 operations" in text
    assert "sin" not in text
    assert str(ft.draw(deep, depth=numpy.int64(1))(x)) == text
    assert str(ft.draw(deep, depth=2)(x)) == str(ft.draw(deep)(x))
    # Of the 22 nodes of the whole, 12 are left, or 7.
    for limit, left in ((22, 22), (21, 12), (12, 12), (11, 7)):
        assert len(list(ft.draw(deep, limit=limit)(x).diagram.box.nodes())) == left


def test_five_thousand_operations():
    def long(x):
        for _ in range(2500):
            x = np.sin(x) * x
        return x

    drawing = ft.draw(long)(numpy.ones(2))
    assert len(str(drawing).splitlines()) == 5003
    message = r"would have 500\d nodes, and its limit is 300: .*ft.draw\(f, limit=500\d\)"
    with pytest.raises(ValueError, match=message):
        _ = drawing.svg
    assert drawing._repr_svg_() is None


@given(arrays(), steps())
def test_every_operation_of_random_programs_is_drawn(operands, chosen):
    fun = program(chosen)
    staged = ft.make_program(fun)(*operands)
    box, edges = ft.draw(fun)(*operands).diagram
    nodes = {node.number: node for node in box.nodes()}
    titles = Counter(n.title.split("(")[0] for n in nodes.values() if n.kind == "operation")
    assert titles == Counter(e.primitive.name for e in staged.equations)
    outputs = [node for node in nodes.values() if node.kind == "output"]
    assert len(outputs) == len(staged.outputs)
    for edge in edges:
        assert edge.value in nodes[edge.source].names
        assert edge.target in nodes
    assert len({value.letters for n in nodes.values() for value in n.names}) <= len(nodes)


@given(arrays(), steps())
def test_folding_random_programs_keeps_what_goes_between_boxes(operands, chosen):
    inner = program(chosen)

    def fun(*xs):
        with ft.scope("one"):
            ys = inner(*xs)
            with ft.scope("two"):
                return inner(*xs), ys

    diagram = ft.draw(fun)(*operands).diagram
    for depth in range(deepest(diagram.box) + 1):
        less = folded(diagram, depth)
        nodes = {node.number: node for node in less.box.nodes()}
        assert len(nodes) == drawn_nodes(diagram.box, depth)
        assert deepest(less.box) <= depth
        assert {n for edge in less.edges for n in edge[:2]} <= nodes.keys()
        assert all(edge.value in nodes[edge.source].names for edge in less.edges)
        assert sum(isinstance(b, Box) for b in boxes(less.box)) <= 3


@needs_dot
def test_files(tmp_path):
    drawing = ft.draw(deep)(numpy.ones(3))
    for name in ("a.svg", "a.png", "a.PDF", "a.dot", "a.gv", "a.txt"):
        drawing.save(tmp_path / name)
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == drawing.svg == drawing._repr_svg_()
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "a.PDF").read_bytes()[:4] == b"%PDF"
    assert (tmp_path / "a.dot").read_text(encoding="utf-8") == drawing.dot
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == f"{drawing}\n"
    for name in ("a", "a.docx"):
        with pytest.raises(ValueError, match=r"graphviz has no format '(docx)?': name the file"):
            drawing.save(str(tmp_path / name))


@needs_dot
def test_hundreds_of_nodes_in_nested_boxes_are_laid_out():
    def block(p, x):
        with ft.scope("attention"):
            q, k, v = np.split(x @ p["qkv"], 3, axis=-1)
            x = x + np.exp(q @ k.mT) @ v @ p["o"]
        with ft.scope("mlp"):
            return x + np.tanh(x @ p["w1"]) @ p["w2"]

    def loss(params, x):
        for i, p in enumerate(params):
            with ft.scope(f"block{i}"):
                x = block(p, x)
        return np.mean(x**2)

    shapes = {"qkv": (64, 192), "o": (64, 64), "w1": (64, 256), "w2": (256, 64)}
    params = [{name: ft.ShapeDtype(shape, "f4") for name, shape in shapes.items()}] * 8
    x = ft.ShapeDtype((8, 128, 64), "f4")
    drawing = ft.draw(ft.jit(ft.value_and_grad(loss)), limit=500)(params, x)
    # Without limits graphviz fails here, or takes minutes.
    picture = ElementTree.fromstring(drawing.svg)
    kinds = Counter(group.get("class", "").partition(" ")[0] for group in picture.iter(f"{SVG}g"))
    assert kinds["node"] == len(list(drawing.diagram.box.nodes())) > 200
    labels = [text for text in texts_of(drawing.svg) if text.strip().startswith("float32[")]
    assert kinds["edge"] == len(labels) == len(drawing.diagram.edges) > 300


def test_a_format_that_this_graphviz_lacks(tmp_path, monkeypatch):
    pytest.importorskip("graphviz")
    # In the place of dot a program that fails as dot does.
    fails = tmp_path / "dot"
    fails.write_text("#!/bin/sh\necho 'Format: \"x\" not recognized.' >&2\nexit 1\n")
    fails.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    message = r'did not draw the picture as svg: Format: "x" not recognized\.; fold parts'
    with pytest.raises(RuntimeError, match=message):
        _ = ft.draw(np.sin)(1.0).svg


def texts_of(svg):
    """Returns the texts of a picture, wherever they are."""
    return sorted(text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text"))


@needs_dot
def test_the_picture_of_the_page_is_that_of_its_example():
    def layer(p, x):
        with ft.scope("layer"):
            return np.tanh(x @ p["w"] + p["b"])

    def loss(params, x):
        for p in params:
            x = layer(p, x)
        with ft.scope("loss"):
            return np.mean(x**2)

    params = [{"w": np.ones((3, 4)), "b": np.ones(4)}]
    drawing = ft.draw(loss)(params, np.ones((5, 3)))
    # Where nodes lie depends on graphviz's version.
    assert texts_of(drawing.svg) == texts_of(PAGE_PICTURE.read_text(encoding="utf-8"))


WITHOUT = """
import functensor as ft, functensor.numpy as np
drawing = ft.draw(np.sin)(np.ones(2))
print(str(drawing).splitlines()[2], drawing.dot.count("->"), drawing._repr_svg_())
try:
    drawing.svg
except ImportError as error:
    print(type(error).__name__, error)
"""
LISTED = "  b         float64[2]  sin(a) 2 None"


def without(code, **environment):
    """Returns what a fresh Python prints."""
    done = subprocess.run(
        [sys.executable, "-c", code + WITHOUT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_the_program_dot():
    pytest.importorskip("graphviz")
    listed, message = without("", PATH="")
    assert listed == LISTED
    assert message.startswith("MissingExtraError graphviz's program dot is not installed: ")
    for words in ("apt install graphviz", "conda install graphviz", "'functensor[draw]'"):
        assert words in message


def test_without_the_package():
    # A finder that knows no such module, as where it is not installed.
    listed, message = without("import sys; sys.modules['graphviz'] = None")
    assert listed == LISTED
    for words in ("graphviz is not installed", "'functensor[draw]'", "apt install graphviz"):
        assert words in message


def test_wrong_arguments():
    with pytest.raises(TypeError, match="draw"):
        ft.draw(3)
    with pytest.raises(ValueError, match="depth=-1 is smaller than 0"):
        ft.draw(np.sin, depth=-1)
    with pytest.raises(ValueError, match="limit=0 is smaller than 1"):
        ft.draw(np.sin, limit=0)
    with pytest.raises(TypeError, match=r"limit=1\.5 is no whole number"):
        ft.draw(np.sin, limit=1.5)
    with pytest.raises(TypeError, match="argument 0 is of type str, not an array"):
        ft.draw(np.sin)("x")
