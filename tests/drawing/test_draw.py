"""Drawings of programs: their text whole, their pictures by the nodes and boxes of the SVG."""

import shutil
from collections import Counter
from xml.etree import ElementTree

import numpy
import pytest

import functensor as ft
import functensor.numpy as np

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz's dot is missing")
SVG = "{http://www.w3.org/2000/svg}"


def groups(svg):
    """Returns the groups of a picture by their classes, each with the texts within."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        texts = [text.text for text in group.iter(f"{SVG}text")]
        found.setdefault(group.get("class"), []).append(texts)
    return found


def layers(params, x):
    for name, layer in params.items():
        with ft.scope(name):
            x = np.tanh(x @ layer["w"] + layer["b"])
    return np.mean(x**2)


PARAMS = {
    "first": {"w": numpy.ones((3, 4)), "b": numpy.ones(4)},
    "second": {"w": numpy.ones((4, 2)), "b": numpy.ones(2)},
}
X = numpy.ones((5, 3))
LAYERS = """\
layers
  a         float64[4]    input params['first']['b']
  b         float64[3,4]  input params['first']['w']
  c         float64[2]    input params['second']['b']
  d         float64[4,2]  input params['second']['w']
  e         float64[5,3]  input x
  scope first
    f       float64[5,4]  matmul(e, b)
    g       float64[5,4]  add(f, a)
    h       float64[5,4]  tanh(g)
  scope second
    i       float64[5,2]  matmul(h, d)
    j       float64[5,2]  add(i, c)
    k       float64[5,2]  tanh(j)
  l         float64[5,2]  square(k)
  m         float64[]     mean(l, axis=(0, 1))
  return m  float64[]     output"""


def test_tags_have_their_own_names():
    text = str(ft.draw(lambda x: np.sin(ft.tag(np.exp(x), "hidden")))(X))
    assert [line.split(maxsplit=2)[2] for line in text.splitlines()[1:-1]] == [
        "input x", "exp(a)", "tag 'hidden'(b)", "sin(c)"
    ]  # fmt: skip


def test_the_text_of_a_program_with_scopes():
    assert str(ft.draw(layers)(PARAMS, X)) == LAYERS
    assert repr(ft.draw(layers)(PARAMS, x=X)) == LAYERS


def test_shapes_are_enough():
    shapes = ft.tree.map(lambda x: ft.ShapeDtype(x.shape, x.dtype), (PARAMS, X))
    assert str(ft.draw(layers)(*shapes)) == LAYERS


@needs_dot
def test_the_picture_of_a_program_with_scopes():
    found = groups(ft.draw(layers)(PARAMS, X).svg)
    assert sorted(text[0] for text in found["cluster scope"]) == ["first", "second"]
    operations = Counter(texts[0] for texts in found["node operation"])
    assert operations == {"matmul": 2, "add": 2, "tanh": 2, "square": 1, "mean": 1}
    assert [texts for texts in found["node operation"] if texts[0] == "mean"] == [
        ["mean", "axis=(0, 1)"]
    ]
    names = {texts[0] for texts in found["node input"]}
    assert names == {"x", *(f"params['{a}']['{b}']" for a in PARAMS for b in "wb")}
    assert found["node output"] == [["output"]]
    types = Counter(text.strip() for (text,) in found["edge"])
    # Five inputs, and the result of each of eight operations; none is used twice.
    assert sum(types.values()) == 13
    assert types["float64[5,4]"] == 3
    assert types["float64[]"] == 1


def loops(x, flag):
    x, ys = ft.scan(lambda c, y: (c * 0.5 + y, np.sum(c)), x, np.ones((4, 3)))
    x = ft.cond(flag, lambda x: x + 1, lambda x: np.sin(x), x)
    x = ft.while_loop(lambda x: np.sum(x) < 10, lambda x: x * 2, x)
    return {"x": x, "ys": ys}


LOOPS = """\
loops
  a             float64[3]    input x
  b             weak bool[]   input flag
  scan, 4 times
    c           float64[4,3]  constant
    d           float64[3]    scan(a, c)
    e           float64[4]
    body
      f         float64[3]    input carry
      g         float64[3]    input slice
      h         float64[3]    multiply(f, 0.5)
      i         float64[3]    add(h, g)
      j         float64[]     sum(f, axis=(0,))
      return i  float64[3]    carry
      return j  float64[]     stacked
  cond
    k           float64[3]    cond(b, d)
    branch False
      l         float64[3]    input operand
      m         float64[3]    sin(l)
      return m  float64[3]    result
    branch True
      n         float64[3]    input operand
      o         float64[3]    add(n, 1)
      return o  float64[3]    result
  while_loop
    p           float64[3]    while_loop(k)
    condition
      q         float64[3]    input carry
      r         float64[]     sum(q, axis=(0,))
      s         bool[]        less(r, 10)
      return s  bool[]        continue
    body
      t         float64[3]    input carry
      u         float64[3]    multiply(t, 2)
      return u  float64[3]    carry
  return p      float64[3]    output['x']
  return e      float64[4]    output['ys']"""


def test_the_text_of_loops_and_branches():
    assert str(ft.draw(loops)(numpy.ones(3), True)) == LOOPS


@needs_dot
def test_the_picture_of_loops_and_branches():
    found = groups(ft.draw(loops)(numpy.ones(3), True).svg)
    titles = [texts[0] for texts in found["cluster control"]]
    assert sorted(titles) == ["cond", "scan, 4 times", "while_loop"]
    bodies = sorted(texts[0] for texts in found["cluster body"])
    assert bodies == ["body", "body", "branch False", "branch True", "condition"]
    assert ["constant", "float64[4,3]"] in found["node constant"]


def test_switches_count_their_branches_and_bounded_loops_their_steps():
    def fun(i, x):
        x = ft.switch(i, [np.sin, np.cos, np.tan], x)
        return ft.while_loop(lambda x: x < 3, lambda x: x + 1, x, max_steps=7)

    titles = [box.title for box in ft.draw(fun)(1, 2.0).diagram.box.boxes()]
    assert titles[1:] == ["while_loop, at most 7 times"]
    assert [b.title for b in ft.draw(fun)(1, 2.0).diagram.box.boxes()[0].boxes()] == [
        *("branch 0", "branch 1", "branch 2")
    ]


@ft.jit
def block(w, x):
    with ft.scope("inner"):
        return np.tanh(x @ w) * 2


@ft.custom_vjp
def cube(x):
    return x**3


cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * x * x * g,))


def test_jitted_functions_and_own_rules_have_boxes():
    def fun(w, x):
        with ft.scope("outer"):
            x = block(w, x)
        return cube(x)

    text = """\
fun
  a         float64[3,3]  input w
  b         float64[2,3]  input x
  scope outer
    call block
      scope inner
        c   float64[2,3]  matmul(b, a)
        d   float64[2,3]  tanh(c)
        e   float64[2,3]  multiply(d, 2)
  call cube
    f       float64[2,3]  power(e, 3)
  return f  float64[2,3]  output"""
    args = numpy.ones((3, 3)), numpy.ones((2, 3))
    assert str(ft.draw(fun)(*args)) == text
    # What is drawn does not change what is staged elsewhere.
    primitives = [e.primitive.name for e in ft.make_program(fun)(*args).equations]
    assert primitives == ["matmul", "tanh", "multiply", "cube"]


@pytest.mark.parametrize(
    ("transformed", "times"),
    [
        (lambda f: ft.value_and_grad(f), 2),
        (lambda f: ft.vmap(f), 1),
        (lambda f: lambda x: ft.jvp(f, (x,), (x,)), 1),
        (lambda f: ft.checkpoint(f), 1),
    ],
    ids=["grad", "vmap", "jvp", "checkpoint"],
)
def test_jitted_functions_keep_their_names_under_transformations(transformed, times):
    @ft.jit
    def inner(x):
        return np.sum(np.sin(x))

    def calls(box):
        return sum(b.title == "call inner" for b in box.boxes()) + sum(map(calls, box.boxes()))

    diagram = ft.draw(transformed(inner))(numpy.ones((2, 3))).diagram
    assert calls(diagram.box) == times


def softmax(x, y):
    with ft.scope("softmax"):
        z = np.exp(x - np.max(x, axis=1, keepdims=True))
        z = z / np.sum(z, axis=1, keepdims=True)
    return z @ y, x


SOFTMAX = """\
softmax
  a         float64[1000,100]  input x
  b         float64[100,3]     input y
  scope softmax
    fused over 1000 × 100
      c     float64[1000,1]    max(a, axis=(1,), keepdims=True)
      d     float64[1000,100]  subtract(a, c)
      e     float64[1000,100]  exp(d)
      f     float64[1000,1]    sum(e, axis=(1,), keepdims=True)
      g     float64[1000,100]  divide(e, f)
  h         float64[1000,3]    matmul(g, b)
  return h  float64[1000,3]    output[0]
  return a  float64[1000,100]  output[1]"""
LARGE = ft.ShapeDtype((1000, 100), "float64"), ft.ShapeDtype((100, 3), "float64")


def test_what_runs_is_drawn():
    written = SOFTMAX.replace("    fused over 1000 × 100\n", "").replace("\n      ", "\n    ")
    written = written.replace("    c ", "    c   ").replace("    d ", "    d   ")
    for letter in "efg":
        written = written.replace(f"    {letter} ", f"    {letter}   ")
    assert str(ft.draw(ft.jit(softmax))(*LARGE)) == SOFTMAX
    assert str(ft.draw(softmax)(*LARGE)) == written
    assert str(ft.draw(softmax, optimized=True)(*LARGE)) == SOFTMAX
    assert str(ft.draw(ft.jit(softmax), optimized=False)(*LARGE)) == written


@needs_dot
def test_fused_regions_are_shaded():
    svg = ft.draw(ft.jit(softmax))(*LARGE).svg
    found = groups(svg)
    assert [texts[0] for texts in found["cluster fused"]] == ["fused over 1000 × 100"]
    assert len(found["node operation"]) == 6
    [shaded] = [
        group.find(f"{SVG}path")
        for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
        if group.get("class") == "cluster fused"
    ]
    assert shaded.get("fill") == "#fdecc8"


def test_small_arrays_are_not_fused():
    assert "fused" not in str(ft.draw(ft.jit(softmax))(numpy.ones((5, 4)), numpy.ones((4, 2))))


def test_arguments_have_the_names_of_parameters():
    def fun(first, /, second, *rest, key, **more):
        return first + second + rest[0] + rest[1]["a"] + key + more["other"]

    drawing = ft.draw(fun)(1.0, 2.0, 3.0, {"a": 4.0}, key=5.0, other=6.0)
    names = [node.title for node in drawing.diagram.box.nodes() if node.kind == "input"]
    assert names == ["first", "second", "rest[0]", "rest[1]['a']", "key", "other"]


def test_static_arguments_are_no_inputs():
    fun = ft.jit(lambda x, n, y: x * n + y, static_argnums=1)
    names = [n.title for n in ft.draw(fun)(1.0, 3, 2.0).diagram.box.nodes() if n.kind == "input"]
    assert names == ["x", "y"]


def test_primitives_tensors_and_constant_results():
    assert "input" in str(ft.draw(np.sin)(1.0))
    drawing = ft.draw(lambda t: np.sin(t) @ t)(ft.tensor([1.0, 2.0]))
    assert [n.title for n in drawing.diagram.box.nodes()] == ["t", "sin", "matmul", "output"]
    assert "return 3.5" in str(ft.draw(lambda x: 3.5)(1.0))
    assert "return a" in str(ft.draw(lambda x: (x, x, 2))(1.0))
    assert "constant" in str(ft.draw(lambda x: np.ones(5))(1.0))


def test_values_of_outer_transformations_are_told():
    seen = []

    def loss(y):
        seen.append(str(ft.draw(lambda x: x * y)(numpy.ones(2))))
        seen.append(str(ft.draw(ft.jit(lambda x: x * y))(numpy.ones(2))))
        return np.sum(y)

    ft.grad(loss)(numpy.ones(2))
    assert "float64[2]  traced value" in seen[0]
    assert "float64[2]  input closed over" in seen[1]


def test_results_of_calls_may_be_their_arguments_and_numbers():
    @ft.custom_vjp
    def pair(x):
        return x, 2.0, np.sin(x)

    pair.defvjp(lambda x: (pair(x), x), lambda x, gs: (gs[0],))
    text = str(ft.draw(lambda x: pair(x))(numpy.ones(2)))
    assert "return a" in text
    assert text.splitlines()[-1].endswith("output[2]")


NASTY = '<a href="x"> & \\ "q" \n\x00 \t }; é'


@needs_dot
def test_no_name_breaks_the_picture():
    def fun(x):
        with ft.scope(NASTY.replace("/", "")):
            return np.sin(x[NASTY])

    svg = ft.draw(fun)({NASTY: 1.0}).svg
    shown = '<a href="x"> & \\ "q" \\n\\x00 \\t }; é'
    assert [texts[0] for texts in groups(svg)["cluster scope"]] == [shown]
    [[title]] = groups(svg)["node input"]
    assert title.startswith('x[\'<a href="x"> & ')
    assert "<script" not in svg
    # An entity in a name stands for itself.
    assert groups(ft.draw(lambda x: x["&lt;"])({"&lt;": 1.0}).svg)["node input"] == [["x['&lt;']"]]


@needs_dot
def test_folded_calls_and_regions_are_nodes_of_their_colours():
    svg = ft.draw(ft.jit(softmax), depth=1)(*LARGE).svg
    assert groups(svg)["node folded"] == [["fused over 1000 × 100", "5 operations"]]
    assert "#fdecc8" in svg
