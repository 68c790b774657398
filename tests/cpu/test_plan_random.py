"""Random programs over arrays of equal lengths give jitted what they give eagerly.

Limits of size are lowered for them, so that all that plans do with large arrays is done with small
ones. By default 20 programs are drawn for each test, with ``FUNCTENSOR_LONG_TESTS=1`` 150, and 40
over arrays above all limits.
"""


import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized
from support.small_limits import lower_limits

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytestmark = pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning")
PROGRAMS = settings(max_examples=sized(20, 150))
TOLERANCES = {"float64": 1e-9, "float32": 2e-3}

UNARY = [
    fnp.sin, fnp.tanh, fnp.negative, nn.relu, nn.sigmoid, nn.gelu, nn.softplus, nn.silu, nn.elu,
    lambda x: fnp.exp(-x * x), lambda x: x * 0.5 + 1, lambda x: 1.0 - x, fnp.square,
    lambda x: fnp.clip(x, -0.5, 0.7),
]  # fmt: skip
BINARY = [
    fnp.add, fnp.subtract, fnp.multiply, fnp.maximum, fnp.hypot, fnp.logaddexp,
    lambda x, y: x / (2 + y * y), lambda x, y: fnp.where(y > 0.25, x, y),
]  # fmt: skip
REDUCTIONS = [fnp.sum, fnp.mean, fnp.max, fnp.min, fnp.var]


def rows(x, vectors, which, first, second):
    """Returns something that sees the rows of an array whole."""
    shape = x.shape
    beside = [v for v in vectors if v.shape == shape[-1:]]
    match which % 8:
        case 0:
            return nn.softmax(x, axis=first % x.ndim)
        case 1:
            return nn.log_softmax(x, axis=first % x.ndim)
        case 2:
            return nn.layer_norm(x)
        case 3:
            labels = np.arange(int(np.prod(shape[:-1]))).reshape(shape[:-1]) % shape[-1]
            return nn.softmax_cross_entropy(x, labels)
        case 4 if x.ndim == 2:
            return x @ beside[first % len(beside)]
        case 5 if x.ndim == 2:
            return beside[first % len(beside)] @ x
    return nn.layer_norm(x, beside[first % len(beside)], beside[second % len(beside)])


def spread(x, y, how):
    """Returns an operand that may lie along other axes than the last ones."""
    if y.ndim < x.ndim:
        match how % 4:
            case 0:
                return fnp.expand_dims(y, tuple(range(y.ndim, x.ndim)))
            case 1:
                return fnp.expand_dims(y, y.ndim - how // 4 % (y.ndim + 1))
    return y


def step(values, kind, which, first, second, how):
    """Returns the result of one step, on values chosen by numbers.

    Raises:
        ValueError, TypeError, IndexError, ZeroDivisionError: there is no such step.
    """
    x = values[-1 - first % min(len(values), 6)]
    y = values[-1 - second % len(values)]
    match kind % 8:
        case 0 | 1:
            return UNARY[which % len(UNARY)](x)
        case 2 | 3 | 4:
            operands = x, spread(x, y, how)
            return BINARY[which % len(BINARY)](*(operands if which % 2 else operands[::-1]))
        case 5 | 6:
            taken = how % (2**x.ndim - 1) + 1
            axis = tuple(a for a in range(x.ndim) if taken >> a & 1)
            return REDUCTIONS[which % len(REDUCTIONS)](x, axis=axis, keepdims=second % 3 == 0)
    if which % 3:
        return rows(x, [v for v in values if v.ndim == 1], second, how, first)
    match how % 4:
        case 0:
            return fnp.transpose(x)
        case 1:
            return fnp.reshape(x, (*x.shape, 1))
        case 2:
            return fnp.broadcast_to(x, (x.shape[0], *x.shape))
    return fnp.reshape(x, tuple(n for n in x.shape if n > 1))


@st.composite
def programs(draw, lengths, ranks, largest):
    """Draws a function of a few arrays and arguments for it; most of their lengths are equal.

    Args:
        lengths: strategies of a length, and of another one.
        ranks: how many axes the first array may have.
        largest: how many elements a value has at most.
    """
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    n, other = (draw(x) for x in lengths)
    shape = tuple(draw(st.sampled_from([n, n, n, other])) for _ in range(draw(ranks)))
    dtype = draw(st.sampled_from(["float64", "float64", "float32"]))
    more = st.lists(st.sampled_from([shape, (n,), (n, n)]), max_size=2)
    shapes = [shape, shape[-1:], *draw(more)]
    args = [rng.normal(size=s).astype(dtype) for s in shapes if np.prod(s) <= largest]
    if draw(st.booleans()):
        args[0] = args[0].copy("F")
    numbers = st.tuples(*[st.integers(0, 999)] * 5)
    steps, values = [], list(map(fnp.asarray, args))
    for drawn in draw(st.lists(numbers, min_size=2, max_size=12)):
        try:
            out = step(values, *drawn)
        except (ValueError, TypeError, IndexError, ZeroDivisionError):
            continue
        if 0 < out.size <= largest and fnp.max(fnp.abs(out)) < 1e4:
            steps.append(drawn)
            values.append(out)
    kept = draw(st.integers(0, 2 ** len(steps)))

    def fun(*args):
        values = list(map(fnp.asarray, args))
        for drawn in steps:
            values.append(step(values, *drawn))
        made = values[len(args) :]
        return [x for i, x in enumerate(made) if kept >> i & 1] or values[-1:]

    return fun, args


def gradient(fun):
    def total(*args):
        return sum((fnp.mean(fnp.sin(out)) for out in fun(*args)), start=fnp.sum(args[0]))

    return lambda *args: list(ft.grad(total, tuple(range(len(args))))(*args))


def batch(fun):
    return lambda *args: ft.vmap(fun)(*(fnp.stack([x, x * 0.5, x - 0.1]) for x in args))


TRANSFORMED = {"values": lambda fun: fun, "gradients": gradient, "batches": batch}


def agrees(fun, args):
    """Compares what a function gives when it is jitted, with donated arguments too."""
    wanted = [np.asarray(x) for x in fun(*args)]
    tolerance = TOLERANCES[str(args[0].dtype)]
    jitted = ft.jit(fun)
    donating = ft.jit(fun, donate_argnums=tuple(range(len(args))))
    given = [fnp.asarray(x.copy()) for x in args]
    for found in (jitted(*args), jitted(*args), donating(*given)):
        for got, x in zip(map(np.asarray, found), wanted, strict=True):
            assert (got.shape, got.dtype) == (x.shape, x.dtype)
            size = np.abs(x).max()
            np.testing.assert_allclose(got, x, rtol=tolerance, atol=tolerance * (1 + size))


@pytest.mark.parametrize("name", TRANSFORMED)
@PROGRAMS
@given(
    programs((st.integers(2, 4), st.integers(1, 5)), st.integers(1, 3), 500),
    st.booleans(),
    st.sampled_from([1, 2, 6, 12]),
)
def test_equal_lengths_in_small_regions(name, drawn, others, smallest):
    fun, args = drawn
    with pytest.MonkeyPatch.context() as patch:
        lower_limits(patch, others, smallest)
        agrees(TRANSFORMED[name](fun), args)


@settings(max_examples=sized(2, 20))
@given(programs((st.sampled_from([300, 520]), st.just(260)), st.just(2), 300000))
def test_equal_lengths_above_all_limits(drawn):
    fun, args = drawn
    agrees(fun, args)
