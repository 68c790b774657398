"""Random programs raise jitted under `check_finite` if they raise operation by operation.

Their operations make NaN and infinity often, and hide them as often. By default 20 programs are
drawn, with ``FUNCTENSOR_LONG_TESTS=1`` 300.
"""

import numpy
import pytest
from cpu.test_plan_random import BINARY, REDUCTIONS, UNARY, rows, spread
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized
from support.small_limits import lower_limits

import functensor as ft
import functensor.numpy as np
from functensor.jitting.reported_run import alarms

pytestmark = [
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
NO_STEP = ValueError, TypeError, IndexError, ZeroDivisionError
MOST_ELEMENTS = 500
# What is put into the arguments.
SPECIAL = [0.0, 0.0, -2.0, 1e30, -1e30, numpy.inf, numpy.nan]

RISKY = [
    np.log, np.sqrt, np.exp, np.log1p, np.sinh, np.arccosh, np.arctanh, np.tan, np.reciprocal,
    np.cumsum, np.cumprod, lambda x: x**-0.5, lambda x: x**3, lambda x: x * 1e30,
    lambda x: x.astype("float32"), lambda x: x[::-1], lambda x: np.where(x > 0, x, 0.0),
    lambda x: np.where(x > 0, x, -np.inf), *UNARY,
]  # fmt: skip
RISKY_PAIRS = [
    np.divide, np.power, np.fmod, np.arctan2, lambda x, y: x - y * 1e20,
    lambda x, y: np.where(x > y, x / y, 0.0), *BINARY,
]  # fmt: skip


def step(values, kind, which, first, second, how):
    """Returns the result of one step, on values chosen by numbers."""
    x, y = values[-1 - first % min(len(values), 6)], values[-1 - second % len(values)]
    match kind % 8:
        case 0 | 1 | 2:
            return RISKY[which % len(RISKY)](x)
        case 3 | 4:
            pair = x, spread(x, y, how)
            return RISKY_PAIRS[which % len(RISKY_PAIRS)](*(pair if which % 2 else pair[::-1]))
        case 5 | 6:
            taken = how % (2**x.ndim - 1) + 1
            axis = tuple(a for a in range(x.ndim) if taken >> a & 1)
            return REDUCTIONS[which % len(REDUCTIONS)](x, axis=axis, keepdims=second % 3 == 0)
    if which % 3:
        return rows(x, [v for v in values if v.ndim == 1], second, how, first)
    return np.transpose(x)


@st.composite
def programs(draw):
    """Draws a function of three arrays that returns all that it computes, and its arguments."""
    rng = numpy.random.default_rng(draw(st.integers(0, 99999)))
    shape = (draw(st.integers(2, 4)),) * draw(st.integers(1, 2))
    dtype = draw(st.sampled_from(["float64", "float32"]))
    args = [rng.normal(size=s).astype(dtype) for s in (shape, shape[-1:], shape)]
    for x in args:
        if draw(st.booleans()):
            x.flat[rng.integers(x.size)] = draw(st.sampled_from(SPECIAL))
    steps, values = [], list(map(np.asarray, args))
    for drawn in draw(st.lists(st.tuples(*[st.integers(0, 999)] * 5), min_size=1, max_size=8)):
        try:
            out = step(values, *drawn)
        except NO_STEP:
            continue
        if 0 < out.size < MOST_ELEMENTS:
            steps.append(drawn)
            values.append(out)

    def fun(*args):
        values = list(map(np.asarray, args))
        for drawn in steps:
            values.append(step(values, *drawn))
        return values[len(args) :]

    return fun, args


def gradient(fun):
    def total(*args):
        return sum((np.mean(np.sin(out)) for out in fun(*args)), start=np.sum(args[0]))

    return lambda *args: list(ft.grad(total, tuple(range(len(args))))(*args))


def raises(call):
    try:
        call()
    except ft.errors.NonFiniteError:
        return True
    return False


@pytest.mark.parametrize("transform", [lambda fun: fun, gradient], ids=["values", "gradients"])
@settings(max_examples=sized(20, 300))
@given(programs(), st.booleans(), st.sampled_from([1, 2, 6, 12]))
def test_what_raises_one_by_one_raises_as_a_plan(transform, drawn, others, smallest):
    fun, args = transform(drawn[0]), drawn[1]
    with pytest.MonkeyPatch.context() as patch:
        lower_limits(patch, others, smallest)
        jitted = ft.jit(fun)
        entry, _ = jitted._entry(tuple(args), {})
        with ft.hooks.check_finite():
            wanted = raises(lambda: fun(*map(np.asarray, args)))
            # As if a first call, operation by operation, had found nothing.
            entry.looked[tuple(alarms())] = None
            assert raises(lambda: jitted(*args)) == wanted
