"""Programs that Hypothesis composes give jitted what they give eagerly, under transformations too.

By default some dozens of programs are drawn each run; with ``FUNCTENSOR_LONG_TESTS=1``, 150.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytestmark = pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning")
PROGRAMS = settings(max_examples=sized(30, 150))

SHAPES = [(), (3,), (1, 3), (4, 3), (3, 3), (2, 4, 3), (2, 1, 3)]
# By dtype, how far results may be off, relative to the largest: functions with slopes of a few.
TOLERANCES = {"float64": 1e-9, "float32": 2e-3}

UNARY = [
    fnp.sin, fnp.cos, fnp.tanh, fnp.arctan, fnp.negative, fnp.square, fnp.arcsinh, nn.gelu,
    nn.sigmoid, nn.softplus, nn.silu, nn.relu, fnp.abs, fnp.sinc, ft.stop_gradient,
    lambda x: fnp.log1p(x * x), lambda x: fnp.sqrt(1 + x * x), lambda x: fnp.exp(-x * x),
    lambda x: fnp.where(x > 0.25, x, 0.5 * x), lambda x: fnp.clip(x, -1.5, 1.5), lambda x: x**3,
    ft.jit(lambda x: fnp.tanh(x) * 2), ft.checkpoint(lambda x: fnp.sin(x) + x),
]  # fmt: skip
BINARY = [
    fnp.add, fnp.subtract, fnp.multiply, lambda x, y: x / (2 + y * y), fnp.hypot, fnp.logaddexp,
    lambda x, y: fnp.where(y > 0.25, x, y), lambda x, y: fnp.arctan2(x, 1.5 + y * y),
]  # fmt: skip
ALONG = [
    fnp.sum, fnp.mean, fnp.var, fnp.cumsum, nn.softmax, nn.log_softmax, fnp.flip,
    lambda x, axis: fnp.roll(x, 1, axis), lambda x, axis: fnp.sum(x, axis, keepdims=True),
    lambda x, axis: fnp.concatenate([x, x * 2], axis), lambda x, axis: fnp.stack([x, -x], axis),
    lambda x, axis: x - fnp.mean(x, axis, keepdims=True), lambda x, axis: fnp.repeat(x, 2, axis),
    lambda x, axis: fnp.take(x, np.array([0, -1, 0]), axis),
    lambda x, axis: fnp.sum(fnp.sort(x, axis) * 0.5, axis),
]  # fmt: skip
SHAPING = [
    fnp.transpose, fnp.ravel, lambda x: fnp.reshape(x, (*x.shape, 1)), lambda x: x[..., ::2],
    lambda x: x[None], lambda x: fnp.broadcast_to(x, (2, *x.shape)), lambda x: x[0],
    lambda x: x.at[..., 0].set(0.5), lambda x: x.at[0].add(x[-1]), lambda x: fnp.tril(x),
    lambda x: fnp.pad(x, 1), lambda x: fnp.diag(x), lambda x: x[x.shape[0] // 2 :],
]  # fmt: skip
PRODUCTS = [
    fnp.matmul, fnp.dot, fnp.outer, lambda x, y: fnp.einsum("...i,...i->...", x, y),
    lambda x, y: fnp.tensordot(x, y, 1), lambda x, y: x @ fnp.swapaxes(y, -1, -2),
]  # fmt: skip


def looped(x, y):
    """Returns the last carry and the outputs of a loop over the first axis."""
    carry, ys = ft.scan(lambda c, row: (0.5 * c + fnp.sin(row), c * row), y + 0 * x[0], x)
    return carry + fnp.sum(ys, 0)


CONTROL = [
    looped,
    lambda x, y: ft.cond(fnp.sum(x) > 0.1, lambda a, b: a * b, lambda a, b: a + fnp.cos(b), x, y),
    lambda x, y: ft.fori_loop(0, 3, lambda i, c: fnp.sin(c) + y, x + y),
]


def step(values, number, kind, which, first, second):
    """Returns the result of one step, on values chosen by numbers.

    Args:
        values: what there is so far.
        number: the place among those of a Python number; None where there is none.
        kind, which, first, second: say what is done, and with which values.

    Raises:
        ValueError, TypeError, IndexError: there is no such step for these shapes and dtypes.
    """
    first, second = len(values) - 1 - first % len(values), len(values) - 1 - second % len(values)
    # Of numbers alone eager mode makes arrays, which decide dtypes.
    if first == number or (second == number and kind % 8 not in (2, 3)):
        raise ValueError("there is no array")
    x = fnp.asarray(values[first])
    y = values[second] if second == number else fnp.asarray(values[second])
    match kind % 8:
        case 0 | 1:
            return UNARY[which % len(UNARY)](x)
        case 2 | 3:
            return BINARY[which % len(BINARY)](x, y)
        case 4:
            return ALONG[which % len(ALONG)](x, second % max(x.ndim, 1))
        case 5:
            return SHAPING[which % len(SHAPING)](x)
        case 6:
            return PRODUCTS[which % len(PRODUCTS)](x, y)
    return CONTROL[which % len(CONTROL)](x, y)


def largest(x):
    """Returns the size of the largest element."""
    return float(np.max(np.abs(x), initial=0.0))


@st.composite
def programs(draw):
    """Draws a function of a few arrays, as a list of steps that fit, and arguments for it."""
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    dtype = draw(st.sampled_from([*TOLERANCES]))
    args = [
        np.asarray(rng.normal(size=draw(st.sampled_from(SHAPES)))).astype(dtype)
        for _ in range(draw(st.integers(1, 3)))
    ]
    number = None
    if draw(st.booleans()):
        number = len(args)
        args.append(draw(st.sampled_from([0.75, -2.0])))
    constants = [rng.normal(size=(4, 3)).astype(dtype), rng.integers(-2, 3, size=(3,))]
    count = draw(st.integers(1, 9))
    drawn = [[draw(st.integers(0, 999)) for _ in range(4)] for _ in range(count)]
    steps = []
    values = [*args, *constants]
    for numbers in drawn:
        try:
            out = step(values, number, *numbers)
        except (ValueError, TypeError, IndexError):
            continue
        if out.size <= 100 and largest(np.asarray(out)) < 1e3:
            steps.append(numbers)
            values.append(out)

    def fun(*args):
        values = [*args, *constants]
        for numbers in steps:
            values.append(step(values, number, *numbers))
        return values[len(args) + len(constants) :]

    return fun, args


def inexact(fun):
    """Returns the function with those outputs alone that have derivatives."""
    return lambda *args: [out for out in fun(*args) if out.dtype.kind == "f"]


def waves(xs):
    """Returns a direction for each argument."""
    return tuple(fnp.cos(fnp.arange(float(x.size)) + i).reshape(x.shape).astype(x.dtype)
                 for i, x in enumerate(map(fnp.asarray, xs)))  # fmt: skip


def gradient(fun):
    def total(*args):
        return sum((fnp.mean(out) for out in fun(*args)), start=fnp.sum(args[0]))

    return lambda *args: list(ft.grad(total, tuple(range(len(args))))(*args))


def tangent(fun):
    return lambda *args: list(ft.jvp(lambda *xs: list(fun(*xs)), args, waves(args))[1])


def batch(fun):
    return lambda *args: ft.vmap(fun)(*(fnp.stack([x, 0.5 * x]) for x in map(fnp.asarray, args)))


TRANSFORMATIONS = {"grad": gradient, "jvp": tangent, "vmap": batch, "jit": ft.jit}


def transformed(fun, names):
    """Returns a function under transformations, the first one innermost."""
    for name in names:
        fun = TRANSFORMATIONS[name](fun)
    return fun


def check(got, wanted, args):
    """Compares results with what they have to be, by the dtype of the program's arguments."""
    assert len(got) == len(wanted)
    tolerance = max(TOLERANCES[str(x.dtype)] for x in args if isinstance(x, np.ndarray))
    for a, b in zip(got, wanted, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if b.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * (1 + largest(b)))
        else:
            np.testing.assert_array_equal(a, b)


@PROGRAMS
@given(programs())
def test_values(drawn):
    fun, args = drawn
    before = [np.copy(x) for x in args]
    jitted = ft.jit(fun)
    wanted = fun(*args)
    check(jitted(*args), wanted, args)
    check(jitted(*args), wanted, args)
    for x, copy in zip(args, before, strict=True):
        np.testing.assert_array_equal(x, copy)


@PROGRAMS
@given(programs(), st.permutations([*TRANSFORMATIONS]), st.integers(2, 4), st.booleans())
def test_transformations_in_all_orders(drawn, order, count, again):
    fun, args = drawn
    order = order[:count]
    if "jit" not in order or again:
        order = [*order, "jit"]
    plain = transformed(inexact(fun), [name for name in order if name != "jit"])
    check(transformed(inexact(fun), order)(*args), plain(*args), args)
