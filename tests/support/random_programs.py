"""Programs that Hypothesis composes of primitives, as functions of arrays."""

import numpy as np
from hypothesis import strategies as st

import functensor.numpy as fnp
from functensor import nn

UNARY = [
    fnp.sin, fnp.tanh, fnp.exp, fnp.square, fnp.negative, fnp.abs, fnp.sqrt, fnp.log1p, nn.relu,
    nn.sigmoid, nn.gelu, nn.softplus, fnp.sign, fnp.floor, fnp.reciprocal,
]  # fmt: skip
BINARY = [
    fnp.add, fnp.subtract, fnp.multiply, fnp.divide, fnp.maximum, fnp.minimum, fnp.less,
    fnp.arctan2,
]  # fmt: skip
REDUCTIONS = [fnp.sum, fnp.mean, fnp.max, fnp.min, fnp.var]
ROWS = [nn.softmax, nn.log_softmax]
SHAPES = [(), (1,), (4,), (6, 4), (6, 1), (1, 4), (3, 6, 4), (3, 1, 4), (4, 4), (2, 3, 1, 4)]
NUMBERS = [2.0, -0.5, 3, 0.0, True]


@st.composite
def arrays(draw):
    """Draws two to four arrays of various shapes and dtypes, and maybe a number."""
    found = []
    for _ in range(draw(st.integers(2, 4))):
        shape = draw(st.sampled_from(SHAPES))
        dtype = draw(st.sampled_from(["f4", "f4", "f8", "i4", "?"]))
        rng = np.random.default_rng(draw(st.integers(0, 999)))
        values = np.asarray(rng.normal(size=shape) * 2)
        if draw(st.booleans()) and values.size:
            values.flat[rng.integers(values.size)] = draw(
                st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan])
            )
        with np.errstate(invalid="ignore"):
            array = values.astype(dtype)
        found.append(array.copy("F") if draw(st.booleans()) else array)
    if draw(st.booleans()):
        found.append(draw(st.sampled_from([2.5, -3, 0.0, True])))
    return found


@st.composite
def steps(draw):
    """Draws what a program does, as numbers that say which values and which function it takes."""
    return draw(st.lists(st.tuples(*[st.integers(0, 999)] * 4), min_size=1, max_size=14))


def program(steps):
    """Returns the function that takes steps, on values by their number modulo how many there are.

    A step that shapes or dtypes do not allow is left out.
    """

    def run(*operands):
        values = list(operands)
        for step in steps:
            try:
                values.append(taken(values, *step))
            except (ValueError, TypeError, IndexError):
                continue
        return *values[len(operands) :], values[0] * 2

    return run


def is_number(x):
    """Says whether a value is a Python number, or stands for one while a program is staged."""
    variable = getattr(x, "variable", None)
    return type(x) in (int, float, bool) or (variable is not None and variable.type.weak)


def taken(values, kind, which, first, second):
    """Returns the result of one step."""
    x, y = values[-1 - first % len(values)], values[-1 - second % len(values)]
    if is_number(x) and (kind % 8 not in (2, 3) or is_number(y)):
        # Of numbers alone, eager mode makes arrays, which decide dtypes.
        raise ValueError("there is no array")
    rank = len(np.shape(x))
    match kind % 8:
        case 0 | 1:
            return UNARY[which % len(UNARY)](x)
        case 2 | 3:
            return BINARY[which % len(BINARY)](x, y)
        case 4:
            other = NUMBERS[second % len(NUMBERS)]
            return BINARY[which % len(BINARY)](x, other)
        case 5:
            axis = None if not rank or second % 4 == 0 else second % rank
            return REDUCTIONS[which % len(REDUCTIONS)](x, axis=axis, keepdims=second % 3 > 0)
        case 6:
            if which % 3:
                return ROWS[which % 2](x, axis=-1)
            return fnp.where(x > 0, y, x)
    match which % 5:
        case 0:
            return fnp.transpose(x)
        case 1:
            return fnp.reshape(x, (-1,) if second % 2 else (*np.shape(x), 1))
        case 2:
            return fnp.broadcast_to(x, (2, *np.shape(x)))
        case 3:
            return x[..., ::-1] if second % 2 else x[0]
    return fnp.astype(x, "f4")
