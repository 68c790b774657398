"""Arrays as citizens of Python: NumPy's methods, comparisons, conversions, lists that hold them."""

import copy
import math
import operator
import pickle
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.errors import (
    ConcretizationError,
    DeviceError,
    ImmutableArrayError,
    ShapeError,
    TracerConversionError,
)
from functensor.testing import check_grads

X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -2.5]])
Y = np.array([1.5, -0.5, 2.5])

METHODS = {
    "argpartition": lambda x: np.sort(x.ravel()[x.ravel().argpartition(2)][:3]),
    "argsort": lambda x: x.argsort() + x.argsort(axis=0) + x.argsort(None).reshape(2, 3),
    "astype": lambda x: x.astype("float32", copy=False).astype(int),
    "clip": lambda x: x.clip(-1, 1) + x.clip(max=0.4),
    "conjugate": lambda x: (x * 1j).conjugate().imag,
    "copy": lambda x: x.copy() * 2,
    "cumprod": lambda x: x.cumprod() + x.cumprod(axis=1).sum(),
    "cumsum": lambda x: x.cumsum(0) + x.cumsum(1),
    "diagonal": lambda x: x.diagonal() + x.diagonal(1),
    "flat": lambda x: x.flat[2] * x.flat[1:3],
    "flatten": lambda x: x.flatten() + x.flatten("C"),
    "mean": lambda x: x.mean(axis=0, keepdims=True) + x.mean((0, 1)),
    "nonzero": lambda x: x.nonzero()[1] + (x > 0).nonzero()[0].sum(),
    "repeat": lambda x: x.repeat(2, axis=1) + x.repeat(2).reshape(2, 6),
    "reshape": lambda x: x.reshape(3, -1).reshape((6,), order="C"),
    "round": lambda x: x.round(1) + x.round(decimals=0),
    "searchsorted": lambda x: x[1, ::-1].searchsorted([0.0, 1.0], side="right"),
    "squeeze": lambda x: x[:, None].squeeze(axis=1),
    "std": lambda x: x.std(axis=0, ddof=1) + x.var(0, keepdims=True),
    "sum": lambda x: x.sum(0, "float32") + x.sum(axis=(0, 1)),
    "take": lambda x: x.take([0, 2], axis=1) + x.take(3),
    "trace": lambda x: x.trace() + x.trace(offset=1),
    "view": lambda x: x.view() + x.view("int64").view("float64"),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods_are_numpys(method):
    got, wanted = method(wrap(X)), method(X)
    assert isinstance(got, ft.Array)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


SMOOTH = set(METHODS) - {"argpartition", "argsort", "astype", "nonzero", "searchsorted", "view"}
SMOOTH -= {"round", "sum"}


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_methods_differentiate_and_batch(name):
    check_grads(METHODS[name], (X,), order=2)
    both = np.stack([X, X + 1])
    np.testing.assert_allclose(ft.vmap(METHODS[name])(both)[1], METHODS[name](both[1]))


IN_PLACE = {
    "fill": (1.0,),
    "sort": (),
    "partition": (1,),
    "put": (0, 1.0),
    "resize": ((6,),),
    "setflags": (True,),
    "byteswap": (True,),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_methods_that_change_an_array_in_place_are_refused(name):
    for call in (
        lambda: getattr(wrap(X), name)(*IN_PLACE[name]),
        lambda: ft.grad(lambda x: getattr(x, name)(*IN_PLACE[name]))(X),
    ):
        with pytest.raises(ImmutableArrayError, match=rf"x\.{name}\(.* immutable(?s:.)*fix: ") as e:
            call()
        assert "functensor.errors 3" in str(e.value)


def test_devices_and_casts():
    x = wrap(X)
    assert x.to_device("cpu") is x
    assert x.block_until_ready() is x
    assert x.strides == (24, 8)
    with pytest.raises(DeviceError, match="no device 'tpu'"):
        x.to_device("tpu")
    with pytest.raises(TypeError, match="casting='safe' forbids float64 to int32"):
        x.astype("int32", casting="safe")
    with pytest.raises(TracerConversionError):
        ft.grad(lambda x: x.view("int64").sum() * 1.0)(X)


# -- comparisons


OTHERS = ["a", object(), {}, np.array(["a", "b", "c"]), np.array([["a"], ["b"]])]
OTHERS += [("a", "b", "c"), np.str_("a"), np.datetime64("2020"), [1.5, 0.0, 2.5]]
OTHERS += [np.array([1.5, 0, 2.5], object)]


@pytest.mark.parametrize("other", OTHERS, ids=lambda o: repr(o)[:12])
def test_equality_has_an_answer_for_everything(other):
    for compare in (operator.eq, operator.ne):
        got = compare(wrap(Y), other)
        assert type(got) is ft.Array
        np.testing.assert_array_equal(got, compare(Y, other))
    assert ft.vmap(lambda y: (y == "a") | (y != "b"))(Y).tolist() == [True] * 3


def test_equality_leaves_to_others_what_they_know():
    assert (wrap(Y) == mock.ANY) is True
    assert (wrap(Y) != mock.ANY) is False
    assert wrap(Y) == pytest.approx(Y)
    assert "a" not in wrap(Y)
    # An array is compared with None, not its elements: that is what ``if x == None`` asks.
    assert (wrap(Y) == None) is False  # noqa: E711
    assert wrap(Y) not in [None]
    with pytest.raises(ShapeError):
        _ = wrap(Y) == [1, 2]
    with pytest.raises(TypeError):
        _ = wrap(Y) < "a"


# -- conversions


def test_python_asks_for_numbers():
    x = wrap(np.float64(2.5))
    assert math.sqrt(wrap(np.array(4.0))) == 2
    assert (math.floor(x), math.ceil(x), math.trunc(x)) == (2, 3, 2)
    assert (round(x), type(round(x))) == (2, int)
    np.testing.assert_array_equal(round(wrap(Y)), np.round(Y))
    np.testing.assert_array_equal(round(wrap(Y), 1), np.round(Y, 1))
    assert wrap(X).item(4) == 0.25
    assert wrap(X).item(1, 2) == -2.5
    assert isinstance(fnp.ones(2), ft.Array)
    assert ft.grad(lambda x: x * isinstance(x, ft.Array))(2.0) == 1
    assert f"{x:.3e} {wrap(Y)}" == "2.500e+00 [ 1.5 -0.5  2.5]"


def test_copies_share_what_cannot_change():
    x = wrap(X.copy())
    assert copy.copy(x) is x
    assert copy.deepcopy([x])[0] is x
    assert not np.shares_memory(np.asarray(x.copy()), np.asarray(x))
    assert not np.shares_memory(np.asarray(fnp.asarray(X)), X)
    assert np.shares_memory(np.asarray(fnp.asarray(X, copy=False)), X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps({"x": x}))["x"], X)
    t = ft.Tensor([1.0, 2.0], requires_grad=True)
    again = t.copy()
    again += 1
    assert (t.tolist(), again.tolist()) == ([1.0, 2.0], [2.0, 3.0])


CONSTANT = {
    "sign": lambda x: float(fnp.sign(x)),
    "floor": lambda x: float(fnp.floor(x)),
    "heaviside": lambda x: float(fnp.heaviside(x, 0.5)),
    "copysign": lambda x: float(fnp.copysign(1.0, x)),
    "stop_gradient": lambda x: float(ft.stop_gradient(x)),
    "int": lambda x: int(x),
    "comparison": lambda x: float(x > 0),
}


@pytest.mark.parametrize("constant", CONSTANT.values(), ids=CONSTANT)
def test_what_has_no_derivative_is_a_number_in_both_modes(constant):
    wanted = constant(2.5)

    def fun(x):
        return x * constant(x)

    assert ft.grad(fun)(2.5) == wanted
    assert ft.jvp(fun, (2.5,), (1.0,))[1] == wanted
    assert ft.grad(lambda x: ft.grad(fun)(x) * x)(2.5) == wanted
    with pytest.raises(ConcretizationError):
        ft.vmap(fun)(Y)
    for mode in (ft.grad(lambda x: x * float(x)), lambda x: ft.jvp(lambda x: float(x), (x,), (x,))):
        with pytest.raises(TracerConversionError):
            mode(2.5)


def test_the_sign_of_complex_numbers_still_turns():
    z = np.array([1.0 + 2.0j, -0.5j])
    check_grads(lambda z: fnp.sign(z) * z, (z,), order=2)
    np.testing.assert_allclose(fnp.sign(z), z / abs(z))
    assert fnp.sign([-1.5, 0.0]).tolist() == [-1.0, 0.0]


# -- updates


def test_updates_have_jaxs_names():
    x = wrap(Y)
    assert x.at[0].divide(4.0).tolist() == [0.375, -0.5, 2.5]
    assert x.at[[0, 0]].divide([2.0, 4.0]).tolist() == [0.1875, -0.5, 2.5]
    assert x.at[1].power(2).tolist() == [1.5, 0.25, 2.5]
    assert x.at[[2, 2]].power([2.0, 1.0]).tolist() == [1.5, -0.5, 6.25]
    assert x.at[1:].subtract([1.0, 1.0]).tolist() == [1.5, -1.5, 1.5]
    assert x.at[:2].apply(fnp.square).tolist() == [2.25, 0.25, 2.5]
    assert x.at[0].get(mode="promise_in_bounds", unique_indices=True) == 1.5
    assert x.at[0].set(1.0, indices_are_sorted=True)[0] == 1.0
    assert fnp.array([1, 2]).at[0].divide(2).tolist() == [0.5, 2.0]
    with pytest.raises(IndexError):
        _ = x.at[7].set(1.0)
    with pytest.raises(ValueError, match="mode='wrap': it is 'clip', 'drop', 'fill'"):
        _ = x.at[7].set(1.0, mode="wrap")
    with pytest.raises(TypeError, match="no argument 'when'"):
        x.at[0].set(1.0, when=True)


def test_updates_of_all_kinds_differentiate():
    def fun(x, v):
        x = fnp.asarray(x).at[0].divide(v).at[[1, 1]].power([v, 2.0]).at[2].subtract(v * v)
        return x.at[:2].apply(fnp.sin).at[1:].set([v, 3.0])

    check_grads(fun, (abs(Y), 1.5), order=2)


# -- lists of traced values


def rotation(angle, axis):
    return fnp.array(
        [
            [fnp.cos(angle), -fnp.sin(angle), 0],
            [fnp.sin(angle), np.cos(angle), axis[1]],
            [0, 0, 1.0],
        ]
    )


def test_nested_lists_differentiate_in_every_mode():
    check_grads(rotation, (0.7, Y), order=2)
    angles = np.array([0.1, 0.2])
    got = ft.vmap(rotation, in_axes=(0, None))(angles, Y)
    np.testing.assert_allclose(got, np.stack([np.asarray(rotation(a, Y)) for a in angles]))
    program = ft.make_program(rotation)(0.7, Y)
    assert str(program).count("= stack(") == 1
    np.testing.assert_allclose(program(0.7, Y), rotation(0.7, Y))
    inner = ft.grad(lambda x: ft.grad(lambda y: fnp.prod(fnp.array([x, y, [x][0]])))(2.0))(3.0)
    assert inner == 6.0


def test_lists_mix_what_holds_numbers():
    def mixed(x):
        return fnp.array([x, [1, 2, 3], (x[0], 4, np.float32(0.5)), np.ones(3), range(3)])

    got = mixed(wrap(Y))
    np.testing.assert_array_equal(got[2], [1.5, 4, 0.5])
    check_grads(mixed, (Y,), order=1)
    assert ft.jacfwd(mixed)(Y).shape == (5, 3, 3)
    assert fnp.array([Fraction(1, 2), 1]).tolist() == [0.5, 1.0]
    # As in NumPy, a Python float in a list counts as float64.
    assert fnp.array([fnp.ones((), "float32"), 1.0]).dtype == np.float64
    assert fnp.array([fnp.ones((), "float32"), np.float32(1)]).dtype == np.float32
    tensors = fnp.array([ft.Tensor([1.0], requires_grad=True), ft.Tensor([2.0])])
    assert tensors.requires_grad


def test_long_lists_of_constants_cost_no_operands():
    def matrix(x):
        return fnp.array([[x if i == j else float(i) for i in range(20)] for j in range(20)])

    program = ft.make_program(matrix)(2.0)
    stacked = next(e for e in program.equations if e.primitive.name == "stack")
    assert len(stacked.operands) == 20
    np.testing.assert_array_equal(program(2.0), matrix(2.0))
    assert ft.grad(lambda x: fnp.sum(matrix(x)))(2.0) == 20


@pytest.mark.parametrize(
    "ragged",
    [
        lambda x: [x, [1.0, 2.0]],
        lambda x: [[x[0], 1.0], [x[1]]],
        lambda x: [x, 1.0],
        lambda x: [[x[0], [x[0]]], [1.0, [2.0, 3.0]]],
    ],
)
def test_ragged_lists_say_which_items_differ(ragged):
    words = r"ragged list: item 0 has shape .*, item 1 has shape"
    with pytest.raises(ShapeError, match=words) as e:
        ft.grad(lambda x: fnp.array(ragged(x)).sum())(Y)
    for part in ("under grad(", "np.concatenate", "functensor.errors 16", "test_array_methods.py:"):
        assert part in str(e.value)


@pytest.mark.parametrize("bad", ["a", None, {}, object()])
def test_lists_of_what_is_no_number_are_refused(bad):
    with pytest.raises(TypeError, match="expected an array or a number"):
        ft.grad(lambda x: fnp.array([x, bad]).sum())(1.0)


OPERANDS = {
    "binary": lambda x: fnp.add([x, 1.0], [2.0, x * x]),
    "operator": lambda x: fnp.asarray(x) * [x, 1.0] + (1.0, x),
    "unary": lambda x: fnp.sin([x, 1.0]),
    "where": lambda x: fnp.where([True, False], [x, 1.0], [x, x * x]),
    "nested": lambda x: fnp.multiply([[x], [2.0]], [x, 1.0]),
    "update": lambda x: fnp.zeros(3).at[1:].set([x, x * x]),
    "sum": lambda x: fnp.sum([x, x * x]),
}


@pytest.mark.parametrize("fun", OPERANDS.values(), ids=OPERANDS)
def test_lists_of_traced_values_are_operands(fun):
    check_grads(fun, (1.5,), order=2)
    np.testing.assert_allclose(ft.vmap(fun)(Y)[1], fun(Y[1]))
    np.testing.assert_allclose(ft.make_program(fun)(1.5)(1.5), fun(1.5))
    t = ft.Tensor(1.5, requires_grad=True)
    fun(t).sum().backward()
    np.testing.assert_allclose(t.grad, ft.grad(lambda x: fnp.sum(fun(x)))(1.5), rtol=1e-5)
