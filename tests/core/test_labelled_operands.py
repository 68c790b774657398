"""Operands whose classes make more of them than arrays: series, frames, masked arrays."""

import operator

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.operators import REFLECTED

V = np.array([1.0, 2.0])
A = fnp.asarray(V)
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip
BITWISE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


class Labelled:
    """Numbers with a label, which is kept by all operators."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def answered(self, other):
        assert type(other) is ft.Array
        return "labelled"


class Asks(Labelled):
    """It asks to be left alone by ufuncs."""

    __array_ufunc__ = None


class Insists(Labelled):
    """It comes before all others."""

    __array_priority__ = 1e6


class Computes(Labelled):
    """It knows what ufuncs make of it."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "labelled"


for kind in (Asks, Insists, Computes):
    for name in REFLECTED.values():
        setattr(kind, name, lambda self, other: self.answered(other))


class Plain(Labelled):
    """It has no operators."""

    __array_ufunc__ = None


def symbols():
    return [*OPERATORS, *BITWISE, operator.matmul]


@pytest.mark.parametrize("kind", [Asks, Insists, Computes])
@pytest.mark.parametrize("symbol", symbols(), ids=lambda s: s.__name__)
def test_classes_with_operators_answer(symbol, kind):
    operand = fnp.array([1, 2]) if symbol in BITWISE else A
    assert symbol(operand, kind(operand)) == "labelled"


def test_augmented_assignment_and_divmod():
    x = A
    x += Asks(V)
    assert x == "labelled"
    assert divmod(A, Computes(V)) == ("labelled", "labelled")


def test_ufuncs_are_left_to_classes_that_know_them():
    assert np.add(A, Computes(V)) == "labelled"
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.add(A, Asks(V))


def test_functions_and_what_is_traced_take_the_numbers():
    assert type(fnp.add(A, Computes(V))) is ft.Array
    assert type(A + Plain(V)) is ft.Array
    for mode in (ft.grad, lambda f: ft.jit(ft.grad(f)), lambda f: lambda x: ft.vmap(f)(x[None])):
        got = mode(lambda x: fnp.sum(x * Computes(V)))(A)
        np.testing.assert_allclose(got, [5.0] if got.shape == (1,) else V)


@pytest.mark.parametrize("symbol", OPERATORS, ids=lambda s: s.__name__)
def test_masked_arrays_keep_their_mask(symbol):
    m = np.ma.array(V, mask=[False, True])
    for got, wanted in [(symbol(A, m), symbol(V, m)), (symbol(m, A), symbol(m, V))]:
        assert isinstance(got, np.ma.MaskedArray)
        np.testing.assert_array_equal(got.mask, wanted.mask)
        np.testing.assert_array_equal(got.compressed(), wanted.compressed())


@pytest.mark.parametrize("symbol", [*OPERATORS, operator.matmul], ids=lambda s: s.__name__)
def test_pandas_keeps_its_labels(symbol):
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(V, index=["a", "b"], name="s")
    frame = pandas.DataFrame({"x": V, "y": V + 2})
    for labelled in (series, frame, pandas.Index(V)):
        for got, wanted in [
            (symbol(A, labelled), symbol(V, labelled)),
            (symbol(labelled, A), symbol(labelled, V)),
        ]:
            if isinstance(wanted, pandas.Series | pandas.DataFrame):
                assert type(got) is type(wanted)
                assert got.equals(wanted)
            np.testing.assert_array_equal(got, wanted)
    assert type(np.multiply(A, series)) is pandas.Series
    np.testing.assert_array_equal(ft.grad(lambda w: fnp.sum(w @ frame * series))(A), [7.0, 10.0])


@pytest.mark.parametrize("symbol", symbols(), ids=lambda s: s.__name__)
def test_frames_beside_arrays_of_two_axes(symbol):
    pandas = pytest.importorskip("pandas")
    values = np.array([[1, 2], [3, 4]]) if symbol in BITWISE else np.array([[1.0, 2.0], [3.0, 0.5]])
    frame = pandas.DataFrame(values + 1, index=["r", "s"], columns=["a", "b"])
    for plain in (values, values[:, :1], values[:1]):
        ours = fnp.asarray(plain)
        for turned in (False, True):
            try:
                wanted = symbol(plain, frame) if turned else symbol(frame, plain)
            except (ValueError, NotImplementedError) as error:
                with pytest.raises(type(error)):
                    symbol(ours, frame) if turned else symbol(frame, ours)
                continue
            got = symbol(ours, frame) if turned else symbol(frame, ours)
            assert isinstance(wanted, pandas.DataFrame)
            pandas.testing.assert_frame_equal(got, wanted)
    assert type(np.add(fnp.asarray(values), frame)) is pandas.DataFrame


def test_augmented_assignment_beside_frames():
    pandas = pytest.importorskip("pandas")
    x, frame = fnp.ones((2, 2)), pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]])
    x += frame
    assert x.equals(frame + 1)
    series = pandas.Series(V)
    series += A
    frame += A
    assert series.tolist() == [2.0, 4.0]
    assert frame.to_numpy().tolist() == [[2.0, 4.0], [4.0, 6.0]]
    with pytest.raises(TypeError, match=r"df \+= numpy\.asarray\(x\)"):
        frame += fnp.ones((2, 2))


def test_frames_and_series_are_numbers_beside_what_is_traced():
    pandas = pytest.importorskip("pandas")
    series, frame = pandas.Series(V), pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]])
    for mode in (ft.grad, lambda f: ft.jit(ft.grad(f))):
        np.testing.assert_array_equal(mode(lambda x: fnp.sum(series * x))(A), V)
        np.testing.assert_array_equal(mode(lambda x: fnp.sum(frame * x))(A), [4.0, 6.0])
        np.testing.assert_array_equal(
            mode(lambda x: fnp.sum(frame - 2 * x * (frame > x)))(fnp.ones((2, 2))),
            [[0.0, -2.0], [-2.0, -2.0]],
        )
    w = ft.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, dtype="float64")
    (frame * w).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), frame)


@pytest.mark.parametrize("symbol", OPERATORS, ids=lambda s: s.__name__)
def test_xarray_keeps_its_labels(symbol):
    xarray = pytest.importorskip("xarray")
    labelled = xarray.DataArray(V, dims="time", coords={"time": [3, 4]}, name="n")
    assert symbol(A, labelled).identical(symbol(V, labelled))
    assert symbol(labelled, A).identical(symbol(labelled, V))
    assert np.add(A, labelled).identical(np.add(V, labelled))


@pytest.mark.parametrize("turned", [False, True])
def test_a_tensor_keeps_its_graph_beside_a_masked_array(turned):
    x = ft.Tensor([1.0, 2.0], requires_grad=True, dtype="float64")
    if turned:
        y = 3.0 * x + x * np.ma.masked_array([2.0, 3.0])
    else:
        y = x * np.ma.masked_array([2.0, 3.0]) + 3.0 * x
    assert isinstance(y, ft.Tensor)
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 6.0]


def test_hidden_elements_do_not_count():
    m = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    calls = [
        lambda: fnp.sum(m),
        lambda: fnp.asarray(m),
        lambda: fnp.stack([m, m]),
        lambda: fnp.add(fnp.ones(3), m),
        lambda: ft.grad(lambda x: fnp.sum(x * m))(np.ones(3)),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"have no masks.* x\.filled\(0\)"):
            call()
    assert fnp.sum(np.ma.array([1.0, 2.0])) == 3
    assert fnp.sum(m.filled(0)) == 4
