"""Random programs as machine code raise under `check_finite` what they raise one by one.

They consist of what the processor tells of, of what makes neither NaN nor infinity, of choices,
which hide both, and of logarithms. By default 12 programs are drawn, and as many for gradients,
with ``FUNCTENSOR_LONG_TESTS=1`` 300, each for several arguments.
"""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized
from support.native import missing

import functensor as ft
import functensor.numpy as np
from functensor import nn

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

ROWS, COLUMNS = 5, 37
SHAPES = (ROWS, COLUMNS), (ROWS, COLUMNS), (COLUMNS,), (ROWS, 1)
LABELS = numpy.arange(ROWS) * 7
UNARY = [
    np.abs, np.exp, np.negative, np.sqrt, np.square, np.tanh, nn.log_softmax, nn.relu, nn.sigmoid,
    nn.silu, nn.softmax, lambda x: 1 / x, lambda x: x * 1e30, lambda x: x - 1e38, lambda x: x**3,
    lambda x: np.clip(x, -2, 2), lambda x: np.where(x > 0, x, 0.0), np.log,
    np.nan_to_num, lambda x: 4 * np.where(x > 0, x, 1e30),
]  # fmt: skip
OF_ROWS = [
    np.max, np.mean, np.sum, np.var, lambda x, **over: np.mean((x - 1) ** 2, **over),
    lambda x, **over: x / np.sqrt(np.var(x, **over) + 1e-5), lambda x, **over: nn.layer_norm(x),
    lambda x, **over: nn.softmax_cross_entropy(x, LABELS)[:, None],
    lambda x, **over: np.sum(x * x, axis=0),
]  # fmt: skip
PAIRS = [
    np.add, np.divide, np.maximum, np.minimum, np.multiply, np.subtract, lambda x, y: x * y - x,
    lambda x, y: x * (1 - y * y), lambda x, y: np.where(x > y, x, y), lambda x, y: np.tanh(x + y),
    lambda x, y: np.where(y > 0, x / y, 0.0), lambda x, y: (x @ x.T)[:, :1] + y,
]  # fmt: skip


def step(values, kind, which, first, second):
    """Returns the result of one step, and the numbers of its operands; None if it has no result."""
    i, j = len(values) - 1 - first % min(len(values), 3), second % len(values)
    x, y = values[i], values[j]
    if kind == 0:
        return UNARY[which % len(UNARY)](x), {i}
    if x.shape != SHAPES[0]:
        return None
    if kind == 1:
        return OF_ROWS[which % len(OF_ROWS)](x, axis=1, keepdims=True), {i}
    return PAIRS[which % len(PAIRS)](x, y), {i, j}


@st.composite
def programs(draw):
    """Draws a function of four arrays, of which no operation is computed in vain, and its dtype."""
    numbers = st.tuples(st.integers(0, 2), *[st.integers(0, 99)] * 3)
    drawn = draw(st.lists(numbers, min_size=1, max_size=7))

    def fun(*args):
        values, used = list(args), set(range(len(args)))
        for numbers in drawn:
            made = step(values, *numbers)
            if made is not None:
                values.append(made[0])
                used |= made[1]
        return [x for i, x in enumerate(values) if i not in used]

    return fun, draw(st.sampled_from(["float32", "float64"]))


def arguments(dtype, rng):
    """Yields arguments with a number at some places that spoils results."""
    most = numpy.finfo(dtype).max
    spoiling = [0.0, -3.0, 100.0, 800.0, 1.2 * most**0.5, 0.9 * most, -0.9 * most, 1e-30]
    for number in [*spoiling, numpy.inf, -numpy.inf, numpy.nan]:
        args = [rng.uniform(0.5, 1.5, shape).astype(dtype) for shape in SHAPES]
        for x in args:
            if rng.random() < 0.6:
                x.flat[rng.integers(x.size)] = number
        yield args


def gradient(fun):
    def total(*args):
        return sum((np.mean(np.square(out)) for out in fun(*args)), start=np.sum(args[0]))

    return lambda *args: ft.tree.leaves(ft.value_and_grad(total, tuple(range(4)))(*args))


def report(call, args):
    """Returns the first line of what the check raises; an empty string where it raises nothing."""
    with ft.hooks.check_finite():
        try:
            call(*args)
        except ft.errors.NonFiniteError as error:
            return str(error).splitlines()[0]
    return ""


@pytest.mark.parametrize("transform", [lambda fun: fun, gradient], ids=["values", "gradients"])
@settings(max_examples=sized(12, 300))
@given(programs(), st.integers(0, 99999))
def test_the_same_report_as_operation_by_operation(transform, drawn, seed):
    fun, dtype = transform(drawn[0]), drawn[1]
    rng = numpy.random.default_rng(seed)
    good = [rng.uniform(0.5, 1.5, shape).astype(dtype) for shape in SHAPES]
    jitted = ft.jit(fun).compile(*good)
    entry = jitted.entry_of(*good)
    jitted(*good)
    report(jitted, good)
    for args in arguments(dtype, rng):
        assert report(jitted, args) == report(fun, list(map(np.asarray, args)))
        # The processor is asked again, whatever it has told.
        entry.false_alarms = 0
