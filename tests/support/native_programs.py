"""Programs that Hypothesis draws, with what rounding allows of their results.

A program is drawn as numbers. They are followed in eager mode, which says what exists: a step that
shapes or dtypes do not allow is left out. What remains is the function, the same in every mode.
"""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

from . import rounding_bounds as bounds
from .drawn_operands import DTYPES
from .rounding_bounds import exact

__all__ = ["DrawnProgram", "drawn_program", "followed", "numbers_of_steps"]

LARGEST_VALUE = 20_000


def numbers_of_steps(most=14):
    """Returns a strategy of what programs do: numbers that say which values and functions."""
    number = st.integers(0, 2**20 - 1)
    return st.lists(st.tuples(*[number] * 4), min_size=1, max_size=most)


class Step(NamedTuple):
    """A step of a program.

    Attributes:
        call: the function.
        places: the numbers of its operands among all values.
        bound: returns the result and its radii, from the result and the known operands.
    """

    call: object
    places: tuple
    bound: object


class DrawnProgram(NamedTuple):
    """A program with what is known of its results.

    Attributes:
        steps: its steps.
        returned: the numbers of the values that it returns.
        known: those values in eager mode, with their radii.
    """

    steps: list
    returned: list
    known: list

    def __call__(self, *given):
        values = list(given)
        for step in self.steps:
            values.append(step.call(*[values[place] for place in step.places]))
        return [values[place] for place in self.returned]


# -- functions of elements: by how many units in the last place results may differ, and how


def rule(function, ulps=0, **how):
    return function, ulps, how


UNARY = [
    *(rule(f, odd=True) for f in (fnp.negative, fnp.sqrt, fnp.rint, fnp.trunc, fnp.positive)),
    *(rule(f) for f in (fnp.abs, fnp.square, fnp.sign, fnp.floor, fnp.ceil, fnp.isnan)),
    *(rule(f) for f in (fnp.isfinite, fnp.isinf, fnp.logical_not, fnp.invert, nn.relu)),
    *(rule(f) for f in (nn.relu6, fnp.signbit)),
    rule(fnp.reciprocal, pole=0),
    *(rule(f, 3, odd=True) for f in (fnp.tanh, fnp.arctan, fnp.sinh, fnp.arcsinh, fnp.log1p)),
    *(rule(f, 3, odd=True) for f in (fnp.expm1, fnp.arcsin, fnp.arctanh, fnp.cbrt)),
    *(rule(f, 2, odd=True, largest=0.1) for f in (fnp.sin, fnp.tan)),
    rule(fnp.cos, 2, largest=0.1),
    *(rule(f, 3) for f in (fnp.exp, fnp.exp2, fnp.cosh, fnp.arccos, fnp.arccosh)),
    *(rule(f, 3, pole=0) for f in (fnp.log, fnp.log2, fnp.log10)),
    *(rule(f, 8) for f in (nn.sigmoid, nn.softplus, nn.silu, nn.gelu, nn.elu, nn.selu, nn.mish)),
    *(rule(f, 8) for f in (nn.log_sigmoid, nn.hard_swish, nn.soft_sign)),
    rule(fnp.deg2rad, 1, odd=True),
    rule(lambda x: x**3, 2),
    rule(lambda x: x**-2.0, 2, pole=0),
    rule(lambda x: 1.0 - x * x, 1),
]
BINARY = [
    *(rule(f) for f in (fnp.add, fnp.subtract, fnp.multiply, fnp.maximum, fnp.minimum)),
    *(rule(f) for f in (fnp.add, fnp.subtract, fnp.multiply, fnp.copysign)),
    *(rule(f) for f in (fnp.less, fnp.less_equal, fnp.greater, fnp.greater_equal)),
    *(rule(f, jumps=True) for f in (fnp.equal, fnp.not_equal, fnp.floor_divide)),
    *(rule(f, jumps=True) for f in (fnp.remainder, fnp.fmod, fnp.nextafter)),
    *(rule(f, jumps=True) for f in (fnp.logical_and, fnp.logical_or, fnp.logical_xor)),
    *(rule(f) for f in (fnp.fmax, fnp.fmin, fnp.heaviside, fnp.bitwise_and, fnp.bitwise_or)),
    *(rule(f) for f in (fnp.bitwise_xor, fnp.left_shift, fnp.right_shift)),
    *(rule(fnp.divide, pole=1), rule(fnp.divide, pole=1), rule(fnp.power, 4, pole=0)),
    *(rule(fnp.hypot, 4), rule(fnp.arctan2, 4), rule(fnp.logaddexp, 4, scale=2)),
]
NUMBERS = [2, 3, -1, 0.5, 0, 1.5, True, 7, -2.5, 0.0, -0.0, 1e9]


def unknown_signs(function, out, operands, found):
    """Returns a result without what NumPy leaves open: signs of NaN, and of zeros of ``fmax``."""
    radius = found.radius
    if function in (fnp.signbit, fnp.copysign):
        radius = np.where(np.isnan(operands[-1].value), np.inf, radius)
    if function in (fnp.fmax, fnp.fmin) and out.dtype.kind == "f":
        tiny = np.finfo(out.dtype).smallest_subnormal
        radius = np.where((out == 0) & (radius == 0), tiny, radius)
    return found._replace(radius=np.broadcast_to(radius, out.shape))


def of_elements(function, ulps, how):
    """Returns the rule of a function of elements."""

    def bound(out, *operands):
        # In the other case nothing is known of a whole number, and no corner is looked at.
        lost = np.zeros(out.shape, bool)
        for x in operands:
            if x.value.dtype.kind != "f":
                lost = lost | (x.radius > 0)
        found = bounds.elementwise(function, ulps, out, *operands, **how)
        found = found._replace(radius=np.where(lost, np.inf, found.radius))
        return unknown_signs(function, out, operands, found)

    return bound


# -- all steps


def chosen(known, numbers):
    """Returns the step that numbers say; None where there is none."""
    kind, which, first, second = numbers
    a = len(known) - 1 - (first % 4) if first % 4 < len(known) else first % len(known)
    b = second % len(known)
    x = known[a].value
    axis = (which // 64) % x.ndim if x.ndim else None
    match kind % 16:
        case 0 | 1 | 2:
            function, ulps, how = UNARY[which % len(UNARY)]
            return Step(function, (a,), of_elements(function, ulps, how))
        case 3 | 4 | 5:
            function, ulps, how = BINARY[which % len(BINARY)]
            if function is fnp.power and {x.dtype.kind, known[b].value.dtype.kind} <= set("biu"):
                return None  # a negative exponent is an error
            return Step(function, (a, b), of_elements(function, ulps, how))
        case 6:
            return with_number(x, which, second, a)
        case 7 | 8:
            return reduced(known, which, a, second)
        case 9 if x.ndim:
            return of_rows(x, which, axis, a, second)
        case 10:
            return product(known, which, a, b)
        case 11:
            return chosen_elements(known, which, a, b, first // 8 % len(known))
        case 12:
            dtype = np.dtype(DTYPES[which % len(DTYPES)])
            return Step(lambda x: fnp.astype(x, dtype), (a,), converted)
        case 13 | 14:
            return viewed(x, which, axis, a, b)
        case 15 if x.ndim:
            return along(known, which, axis, a, b)
    return None


def with_number(x, which, second, a):
    """Returns a function of an array and a number."""
    function, ulps, how = BINARY[which % len(BINARY)]
    if function is fnp.power and x.dtype.kind != "f":
        return None
    number = NUMBERS[second % len(NUMBERS)]
    pole = how.get("pole")
    first = bool(second // 64 % 2)
    if first:
        how = {**how, "pole": None if pole is None else pole - 1}

        def call(x):
            return function(number, x)
    else:
        how = {**how, "pole": 0 if pole == 0 else None}

        def call(x):
            return function(x, number)

    bound = of_elements(call, ulps, how)

    def whole(out, *operands):
        found = bound(out, *operands)
        given = [exact(number), *operands] if first else [*operands, exact(number)]
        return unknown_signs(function, out, given, found)

    return Step(call, (a,), whole)


def converted(out, x):
    """Returns the result of a change of dtype; of floats beyond whole numbers NumPy's vary."""
    found = of_elements(lambda v: fnp.astype(v, out.dtype), 0, {})(out, x)
    if x.value.dtype.kind == "f" and out.dtype.kind in "iu":
        limits = np.iinfo(out.dtype)
        with np.errstate(invalid="ignore"):
            inside = (x.value > float(limits.min) - 1) & (x.value < float(limits.max))
        found = found._replace(radius=np.where(inside, found.radius, np.inf))
    return found


REDUCTIONS = [
    *("sum", "mean", "max", "min", "sum", "mean", "prod", "any", "all", "var", "std"),
    *("argmax", "argmin", "count_nonzero", "norm"),
]


def reduced(known, which, a, second):
    """Returns a function of whole axes."""
    x = known[a].value
    name = REDUCTIONS[which % len(REDUCTIONS)]
    keepdims = bool(second & 1)
    if not x.ndim or second & 6 == 6:
        axes = None
    else:
        chosen_axes = [i for i in range(x.ndim) if second >> (3 + i) & 1]
        axes = tuple(chosen_axes) or second // 256 % x.ndim
    if name in ("argmax", "argmin", "norm", "var", "std") and isinstance(axes, tuple):
        axes = axes[0]
    function = fnp.linalg.norm if name == "norm" else getattr(fnp, name)

    def call(x):
        return function(x, axis=axes, keepdims=keepdims)

    def bound(out, x):
        if name in ("sum", "mean"):
            return bounds.summed(out, x, axes, keepdims, mean=name == "mean")
        if name in ("max", "min"):
            return bounds.extremum(call, out, x)
        if name == "prod":
            return bounds.multiplied(out, x, axes, keepdims)
        if name in ("var", "std", "norm"):
            kind = {"var": "variance", "std": "deviation", "norm": "length"}[name]
            flat = x if axes is not None else type(x)(*[v.reshape(-1) for v in x])
            rest = np.asarray(out).reshape(np.sum(flat.value, axes or 0).shape)
            found = bounds.normalized(rest, flat, axes or 0, kind, center=name != "norm")
            return type(x)(out, found.radius.reshape(out.shape))
        return bounds.spread(out, x)

    return Step(call, (a,), bound)


def of_rows(x, which, axis, a, second):
    """Returns a function of whole rows."""
    if x.dtype.kind != "f":
        return None
    match which % 6:
        case 0:
            return Step(
                lambda x: nn.softmax(x, axis=axis), (a,),
                lambda out, x: bounds.softmax(out, x, axis, "shares"),
            )  # fmt: skip
        case 1:
            return Step(
                lambda x: nn.log_softmax(x, axis=axis), (a,),
                lambda out, x: bounds.softmax(out, x, axis, "logs"),
            )  # fmt: skip
        case 2:
            return Step(
                lambda x: nn.layer_norm(x, axis=axis), (a,),
                lambda out, x: bounds.normalized(out, x, axis, "rows"),
            )  # fmt: skip
        case 3:
            return Step(
                lambda x: nn.rms_norm(x, axis=axis), (a,),
                lambda out, x: bounds.normalized(out, x, axis, "rows", center=False, eps=1e-6),
            )  # fmt: skip
        case 4:
            return Step(
                lambda x: nn.logsumexp(x, axis=axis), (a,),
                lambda out, x: bounds.softmax(out, x, axis, "sums"),
            )  # fmt: skip
    if not x.shape[-1]:
        return None
    labels = np.random.default_rng(second).integers(0, x.shape[-1], x.shape[:-1])
    return Step(
        lambda x: nn.softmax_cross_entropy(x, labels), (a,),
        lambda out, x: bounds.picked_loss(out, x, labels),
    )  # fmt: skip


def product(known, which, a, b):
    """Returns a product of matrices, one of which may be transposed."""
    x, y = known[a].value, known[b].value
    if x.ndim < 2 or y.ndim < 2:
        return None
    turned = which % 3

    def factors(x, y):
        if turned == 1:
            return np.swapaxes(x, -1, -2), y
        return (x, np.swapaxes(y, -1, -2)) if turned == 2 else (x, y)

    def call(x, y):
        if turned == 1:
            x = fnp.swapaxes(x, -1, -2)
        if turned == 2:
            y = fnp.swapaxes(y, -1, -2)
        return fnp.matmul(x, y)

    given = [k.value.base is None or not k.radius.any() for k in (known[a], known[b])]

    def bound(out, x, y):
        pairs = [factors(x.value, y.value), factors(x.radius, y.radius)]
        left, right = (type(x)(*pair) for pair in zip(*pairs, strict=True))
        return bounds.dot(out, left, right, all(given))

    return Step(call, (a, b), bound)


def chosen_elements(known, which, a, b, c):
    """Returns a choice between elements, or elements within limits."""
    if which % 3 == 0:

        def call(c, x, y):
            return fnp.where(c > 0, x, y)

        return Step(call, (c, a, b), of_elements(call, 0, {}))
    if which % 3 == 1:
        low, high = [(-1, 1), (0, 2.5), (-0.5, 3), (0, 0)][which // 3 % 4]

        def limited(x):
            return fnp.clip(x, low, high)

        return Step(limited, (a,), of_elements(limited, 0, {}))
    return Step(fnp.clip, (a, b, c), of_elements(fnp.clip, 0, {}))


def viewed(x, which, axis, a, b):
    """Returns a function that moves elements."""
    order = tuple(np.random.default_rng(which).permutation(x.ndim).tolist())
    match which % 14:
        case 0 | 1:
            return Step(lambda x: fnp.transpose(x, order), (a,), None)
        case 2:
            return Step(lambda x: x[::-1], (a,), None)
        case 3:
            return Step(lambda x: x[..., 1:], (a,), None)
        case 4:
            return Step(lambda x: x[..., ::2], (a,), None)
        case 5:
            return Step(lambda x: x[:, None], (a,), None)
        case 6:
            return Step(lambda x: fnp.reshape(x, (-1,)), (a,), None)
        case 7:
            return Step(lambda x: fnp.flip(x, axis), (a,), None)
        case 8:
            return Step(lambda x: fnp.roll(x, 1, axis), (a,), None)
        case 9:
            return Step(lambda x: fnp.broadcast_to(x, (2, *x.shape)), (a,), None)
        case 10:
            return Step(lambda x, y: fnp.concatenate([x, y], axis=axis or 0), (a, b), None)
        case 11:
            return Step(lambda x, y: fnp.stack([x, y]), (a, b), None)
        case 12:
            return Step(lambda x: fnp.pad(x, 1), (a,), None)
    return Step(lambda x: x[0], (a,), None)


def along(known, which, axis, a, b):
    """Returns a function that goes along an axis: cumulative sums, gathers, loops."""
    x, y = known[a].value, known[b].value
    match which % 5:
        case 0:
            return Step(
                lambda x: fnp.cumsum(x, axis=axis), (a,),
                lambda out, x: bounds.cumulated(out, x, axis),
            )  # fmt: skip
        case 1:
            return Step(lambda x: fnp.sort(x, axis=axis), (a,), bounds.spread)
        case 2 | 3 if y.dtype.kind in "iu" and y.ndim and y.size < 300 and x.shape[axis]:

            def gathered(x, y):
                length = x.shape[axis]
                if which // 8 % 2:
                    return fnp.take(x, y % length, axis=axis) if y.ndim > 1 else x[y % len(x)]
                # Negative indices of dtypes that have them count from the end.
                limits = (-length, length - 1) if y.dtype.kind == "i" else (0, length - 1)
                return fnp.take(x, fnp.clip(y, *limits), axis=axis)

            def bound(out, x, y):
                found = bounds.moved(lambda v: gathered(v, y.value), out, x)
                return bounds.spread(out, y) if y.radius.any() else found

            return Step(gathered, (a, b), bound)
        case 4 if x.dtype.kind == "f" and len(x):
            return loop()._replace(places=(a,))
    return None


def loop():
    """Returns a loop over rows, each of which changes a carry."""

    def follow(carry, row):
        return carry * 0.5 + row

    def call(x):
        def body(carry, row):
            carry = follow(carry, row)
            return carry, carry

        return ft.scan(body, x[0], x)[1]

    def bound(out, x):
        carry, radii = type(x)(x.value[0], x.radius[0]), []
        step = of_elements(follow, 0, {})
        for place in range(len(x.value)):
            carry = step(np.asarray(out[place]), carry, type(x)(x.value[place], x.radius[place]))
            radii.append(carry.radius)
        return type(x)(out, np.stack(radii))

    return Step(call, (), bound)


def drawn_program(given, all_numbers, returned):
    """Returns the program that numbers say, or None if no step is left.

    Args:
        given: its operands.
        all_numbers: the numbers of each step.
        returned: bits that say which values are results beside the last one.
    """
    steps, values = [], list(given)
    known = [exact(x) for x in given]
    with np.errstate(all="ignore"):
        for numbers in all_numbers:
            step = chosen(known, numbers)
            if step is None:
                continue
            try:
                out = step.call(*[values[place] for place in step.places])
            except (TypeError, ValueError, IndexError, OverflowError):
                continue
            if out.size > LARGEST_VALUE or out.dtype.kind not in "fiub":
                continue
            found = np.asarray(out)
            rule = step.bound or (lambda o, *k, call=step.call: bounds.moved(call, o, *k))
            known.append(rule(found, *[known[place] for place in step.places]))
            values.append(out)
            steps.append(step)
    if not steps:
        return None
    first, last = len(given), len(values) - 1
    numbers = [i for i in range(first, last) if returned >> (i - first) & 1] + [last]
    return DrawnProgram(steps, numbers, [known[i] for i in numbers])


def followed(program, given):
    """Returns what is known of a program's results for other operands of the same types."""
    values, known = list(given), [exact(x) for x in given]
    with np.errstate(all="ignore"):
        for step in program.steps:
            out = step.call(*[values[place] for place in step.places])
            values.append(out)
            rule = step.bound or (lambda o, *k, call=step.call: bounds.moved(call, o, *k))
            known.append(rule(np.asarray(out), *[known[place] for place in step.places]))
    return [known[i] for i in program.returned]
