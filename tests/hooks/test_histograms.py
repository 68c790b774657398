"""Histograms: all values count once, at their step, whatever they are; and the pictures of them."""

import sys

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import functensor as ft
import functensor.numpy as np
from functensor.backends.optional_modules import MissingExtraError
from functensor.hooks import HistogramHook, use

X = numpy.array([0.5, -1.0, 2.0, 0.0])


def counted(x):
    """Returns the histogram of an array's values, after a copy of it."""
    hook = HistogramHook()
    with use(hook):
        np.reshape(np.asarray(x), (-1,))
    return hook.histogram("reshape")


@given(
    arrays.arrays(
        st.sampled_from(["float16", "float32", "float64", "int8", "uint64", "bool"]),
        arrays.array_shapes(min_dims=0, min_side=0),
    )
)
def test_all_values_are_counted(x):
    found = counted(x)
    with numpy.errstate(invalid="ignore"):
        wide = x.astype("float64").reshape(-1)
    assert found.nan.tolist() == [numpy.isnan(wide).sum()]
    assert found.positive_inf.tolist() == [(wide == numpy.inf).sum()]
    assert found.negative_inf.tolist() == [(wide == -numpy.inf).sum()]
    finite = wide[numpy.isfinite(wide)]
    assert found.counts.sum() == finite.size
    assert found.counts[0, found.edges[1:] < 0].sum() == (finite < 0).sum()
    assert found.counts[0, found.edges[:-1] > 0].sum() == (finite > 0).sum()
    if finite.size:
        assert found.edges[0] <= finite.min()
        assert finite.max() <= found.edges[-1]


def test_of_bfloat16_and_of_complex_numbers():
    found = counted(np.asarray([1.0, 2.0, numpy.nan]).astype("bfloat16"))
    assert found.edges.tolist() == [1.0, 1.25, 1.5, 1.75, 2.0, 2.5]
    assert found.counts.tolist() == [[1, 0, 0, 0, 1]]
    assert found.nan.tolist() == [1]
    found = counted(numpy.array([3 + 4j, -5, 0, complex(numpy.inf, 0)]))
    assert found.edges.tolist() == [-5.0, 5.0, 6.0]
    assert found.counts.tolist() == [[1, 2]]
    assert found.positive_inf.tolist() == [1]


def test_gradients_are_those_of_the_same_values():
    hook = HistogramHook(by="tag")
    with use(hook):
        ft.grad(lambda x: np.sum(ft.tag(x * 2, "hidden") * numpy.array([1, 1, 0, -4.0])))(X)
    assert hook.names == ["hidden"]
    values, gradients = hook.histogram("hidden"), hook.histogram("hidden", "backward")
    assert dict(zip(values.edges.tolist(), values.counts[0].tolist(), strict=False))[4.0] == 1
    assert gradients.edges[0] == -5.0
    assert gradients.edges[-1] == 1.25
    assert gradients.counts.sum() == values.counts.sum() == 4


def test_batches_count_all_examples():
    batch = numpy.stack([X] * 5)
    for fun in (ft.vmap(ft.grad(lambda x: np.sum(np.sin(x)))), ft.vmap(np.sin)):
        hook = HistogramHook()
        with use(hook):
            fun(batch)
        assert hook.histogram("sin").counts.sum() == 20
    hook = HistogramHook()
    with use(hook):
        ft.vmap(ft.grad(lambda x: np.sum(np.sin(np.sin(x)))))(batch)
    # The cotangent of the last sine, 1, is that of all examples.
    assert hook.histogram("sin", "backward").counts.sum() == 20 + 4


def test_steps_are_rows():
    hook = HistogramHook()
    for scale in (1.0, 10.0, 0.0):
        with use(hook):
            np.multiply(X, scale)
        hook.step()
    found = hook.histogram("multiply")
    assert found.counts.shape == (3, len(found.edges) - 1)
    assert found.counts.sum(1).tolist() == [4, 4, 4]
    zero = numpy.searchsorted(found.edges, 0) - 1
    assert found.counts[:, zero].tolist() == [1, 1, 4]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_steps_begin_by_themselves(checkpointed):
    hook = HistogramHook(automatic=True)

    def loss(x):
        return np.sum(np.sin(x) * np.sin(2 * x))

    x = np.asarray(X)
    with use(hook):
        for _ in range(3):
            x = x - 0.1 * ft.grad(ft.checkpoint(loss) if checkpointed else loss)(x)
        loss(x)
    assert hook.histogram("sin").counts.sum(1).tolist() == [8] * 4
    assert hook.histogram("sin", "backward").counts.sum(1).tolist() == [8, 8, 8, 0]


def test_names():
    def fun(x):
        with ft.scope("layer"):
            y = ft.tag(np.sin(x), "hidden")
        return np.exp(y)

    for by, names in (
        ("primitive", ["sin", "tag 'hidden'", "exp"]),
        ("scope", ["layer"]),
        ("tag", ["hidden"]),
        (lambda op: op.name[0] if op.scope else None, ["s", "c"]),
    ):
        hook = HistogramHook(by)
        with use(hook):
            fun(X)
        assert hook.names == names


def test_what_is_staged_is_not_counted():
    hook = HistogramHook()

    def staged(x):
        with use(hook):
            return np.sin(x)

    ft.make_program(staged)(X)
    assert hook.names == []


def test_errors():
    with pytest.raises(ValueError, match=r"by 'name'; by= is one of 'primitive', 'scope', 'tag'"):
        HistogramHook("name")
    hook = HistogramHook()
    with pytest.raises(KeyError, match=r"no histogram of 'sin'; there are: none"):
        hook.histogram("sin")
    with pytest.raises(ValueError, match=r"no histogram to draw: run operations"):
        hook.draw()
    with use(hook):
        np.sin(X)
    with pytest.raises(KeyError, match=r"no histogram of 'cos'; there are: 'sin'"):
        hook.histogram("cos")
    with pytest.raises(ValueError, match=r"the side 'forward' or 'backward', not 'back'"):
        hook.histogram("sin", "back")
    with pytest.raises(ValueError, match=r"shape \(1,\), but 1 names need \(1, 2\)"):
        hook.draw(axes=[None])


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    hook = HistogramHook()
    with use(hook):
        np.sin(X)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'functensor\[plot\]'"):
        hook.draw()


def drawn(hook):
    figure = hook.draw()
    return [axes for axes in figure.axes if axes.images and axes.get_title()]


def test_the_picture_has_the_counts():
    pytest.importorskip("matplotlib")
    hook = HistogramHook()
    with use(hook, match="sin|exp"):
        for _ in range(3):
            ft.grad(lambda x: np.sum(np.exp(np.sin(x))))(X)
            hook.step()
    maps = drawn(hook)
    titles = [axes.get_title() for axes in maps]
    assert titles == ["values of sin", "gradients of sin", "values of exp", "gradients of exp"]
    for axes, name, side in zip(
        maps, ("sin", "sin", "exp", "exp"), ("forward", "backward") * 2, strict=True
    ):
        shown = axes.images[0].get_array()
        counts = hook.histogram(name, side).counts
        assert shown.shape == counts.T.shape
        assert (shown.filled(0) == counts.T).all()


def test_the_picture_takes_small_numbers_for_zero_and_marks_what_is_not_finite():
    pytest.importorskip("matplotlib")
    hook = HistogramHook()
    with use(hook):
        np.multiply([1.0, -3.0, 1e-30, -1e-40, 0.0], 1.0)
        hook.step()
        np.multiply([1.0, numpy.nan], 1.0)
    (axes,) = drawn(hook)
    shown = axes.images[0].get_array().filled(0)
    assert shown.sum(0).tolist() == [5, 1]
    assert shown.max() == 3
    assert shown.shape[0] < 150
    assert axes.lines[0].get_xdata().tolist() == [1]
    (empty,) = [a for a in hook.draw().axes if a.get_title() == "gradients of multiply"]
    assert empty.texts[0].get_text() == "none"


def test_pictures_are_saved_and_drawn_on_axes(tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    hook = HistogramHook()
    with use(hook):
        ft.grad(lambda x: np.sum(np.sin(x)))(X)
    for name, begin in (("picture.png", b"\x89PNG"), ("picture.svg", b"<?xml")):
        hook.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
    figure = Figure()
    axes = figure.subplots(2, 2)
    assert hook.draw(axes) is figure
    assert axes[1, 0].get_title() == "values of sum"
