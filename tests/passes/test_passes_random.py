"""Random programs give the same results after all passes, bit by bit where nothing is summed."""

import warnings

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pass_cases import bits, close, largest, run, staged

import functensor as ft
import functensor.numpy as np
from functensor.passes.batch_elementwise import stacked_groups
from functensor.passes.batch_matmuls import joined_products
from functensor.passes.contraction_order import contraction_paths
from functensor.passes.inline_calls import inlined
from functensor.passes.pipeline import PASSES, optimized
from functensor.primitives.core.registry import registry as ops
from functensor.programs.program import type_of

EVERY = (*PASSES, contraction_paths, inlined, joined_products, stacked_groups)
SHAPES = [(), (3,), (1, 3), (2, 1), (2, 3), (3, 3), (2, 1, 3)]
DTYPES = ["float64", "float32", "float16", "int64", "int8", "complex64", "bool"]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, numpy.inf, -numpy.inf, numpy.nan, 6e-8, 60000.0]
NUMBERS = [0, 1, 2, -1, 4, 0.0, -0.0, 1.0, 2.0, -0.5, 3.0, 0.5, numpy.inf, numpy.nan]

# Every loop of NumPy's rounds these in the same way, whatever the strides.
EXACT = [
    "negative", "positive", "abs", "square", "sqrt", "floor", "sign", "stop_gradient", "conj",
    "real", "reciprocal", "isnan", "logical_not",
]  # fmt: skip
PAIRS = ["add", "subtract", "multiply", "divide", "maximum", "equal", "less", "logical_and"]
WITH_NUMBERS = ["multiply", "add", "subtract", "divide", "power"]
ROUNDED = ["exp", "tanh", "sin", "log1p"]


def numbers(shape, dtype, draw):
    """Draws the elements of an array, those at the edges of arithmetic among them."""
    size = int(numpy.prod(shape))
    drawn = draw(st.lists(st.sampled_from(EDGES), min_size=size, max_size=size))
    if numpy.dtype(dtype).kind in "iub":
        drawn = [int(x) % 100 if numpy.isfinite(x) else 7 for x in drawn]
    return numpy.array(drawn).reshape(shape).astype(dtype)


def shaping(x, which, extra):
    """Applies one of the functions that move elements; ``extra`` chooses how."""
    shape = numpy.shape(x)
    if which == "transpose":
        first = extra % max(len(shape), 1)
        return np.transpose(x, [*range(first, len(shape)), *range(first)])
    if which == "reshape":
        size = int(numpy.prod(shape))
        choices = [(size,), (1, size), (size, 1), shape, shape[::-1], (*shape, 1)]
        return np.reshape(x, choices[extra % len(choices)])
    if which == "broadcast_to":
        choices = [shape, (2, *shape), (1, 1, *shape)]
        return np.broadcast_to(x, choices[extra % len(choices)])
    if which == "astype":
        with_sign = "complex64" if numpy.dtype(x.dtype).kind == "c" else ["float32", "float64"]
        return np.astype(x, with_sign if type(with_sign) is str else with_sign[extra % 2])
    if which == "index":
        keys = [slice(None), None, Ellipsis, slice(0, 3)]
        return x[keys[extra % (4 if shape else 3 if extra % 4 else 1)]] if shape else x
    axes = tuple(i for i in range(len(shape)) if extra >> i & 1)
    return getattr(np, which)(x, axis=axes, keepdims=bool(extra >> 3 & 1))


MOVES = ["transpose", "reshape", "broadcast_to", "astype", "index"]


@st.composite
def programs(draw, unary, pairs, moves, dtypes, sums=False):
    """Draws a function as a list of steps, and values for its arguments."""
    values = [numbers(draw(st.sampled_from(SHAPES)), draw(st.sampled_from(dtypes)), draw)
              for _ in range(draw(st.integers(1, 3)))]  # fmt: skip
    if draw(st.booleans()):
        values.append(draw(st.sampled_from([0.0, -0.0, 1.5, 2, True])))
    constants = [numbers(draw(st.sampled_from(SHAPES)), draw(st.sampled_from(dtypes)), draw)]
    constants.append(numpy.full((2, 3), draw(st.sampled_from(NUMBERS)), "float32"))
    small = st.integers(0, 15)
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(["unary", "pair", "pair", "number", "move", "where"]),
                      small, small, small),
            min_size=5, max_size=15,
        )
    )  # fmt: skip

    def fun(*args):
        pool = [*args, *constants]
        made = []
        for kind, a, b, c in steps:
            x, y = pool[a % len(pool)], pool[b % len(pool)]
            try:
                if kind == "unary":
                    out = ops[unary[c % len(unary)]](x)
                elif kind == "pair":
                    out = ops[pairs[c % len(pairs)]](x, y)
                elif kind == "number":
                    number = NUMBERS[b % len(NUMBERS)]
                    operands = (x, number) if c % 2 else (number, x)
                    # Integers have no negative powers.
                    inexact = type_of(getattr(x, "variable", x)).dtype.kind in "fc"
                    out = ops[WITH_NUMBERS[c % (5 if inexact else 4)]](*operands)
                elif kind == "where":
                    out = np.where(np.isnan(x) if c % 2 else bool(c % 4), x, y)
                else:
                    out = shaping(np.asarray(x), moves[b % len(moves)], c)
            except (TypeError, ValueError, OverflowError):
                # Operands that do not fit are left out, as in any run.
                continue
            pool.append(out)
            made.append(out)
        return made

    return fun, values


def both(drawn):
    """Returns what a random program computes before and after each pass, and after all of them."""
    fun, values = drawn
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        program = staged(fun, *values)
        less = [*[improve(program) for improve in EVERY], optimized(program)]
        for other in less:
            assert [type_of(x) for x in other.outputs] == [type_of(x) for x in program.outputs]
        return run(program, values), [run(other, values) for other in less]


@given(programs(EXACT, PAIRS, [*MOVES, "max", "min", "any"], DTYPES[:5]))
def test_what_is_not_summed_keeps_its_bits(drawn):
    wanted, found = both(drawn)
    for got in found:
        assert [bits(x) for x in got] == [bits(x) for x in wanted]


@given(programs(EXACT, PAIRS, MOVES, DTYPES))
def test_what_is_complex_keeps_its_values(drawn):
    # Loops over other strides may round products of complex numbers differently.
    wanted, found = both(drawn)
    for got in found:
        for x, y in zip(got, wanted, strict=True):
            close(x, y, 4)


@given(programs([*EXACT[:5], *ROUNDED], PAIRS[:5], [*MOVES, "sum", "mean", "max"], DTYPES[:2]))
def test_sums_and_functions_keep_their_values(drawn):
    wanted, found = both(drawn)
    for got in found:
        for x, y in zip(got, wanted, strict=True):
            close(x, y, 16, largest(y))


@st.composite
def contractions(draw):
    """Draws an einsum of matrices that fit, and whole numbers for them."""
    count = draw(st.integers(1, 4))
    lengths = {letter: draw(st.integers(1, 4)) for letter in "abcde"}
    terms = [
        "".join(draw(st.lists(st.sampled_from("abcde"), max_size=3, unique=draw(st.booleans()))))
        for _ in range(count)
    ]
    letters = sorted(set("".join(terms)))
    out = draw(st.lists(st.sampled_from(letters), unique=True)) if letters else []
    shapes = [tuple(lengths[x] for x in term) for term in terms]
    values = [
        numpy.array(draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), "f8").reshape(shape)
        for shape in shapes
        for n in [int(numpy.prod(shape))]
    ]
    return ",".join(terms) + "->" + "".join(out), values


@given(contractions())
def test_contractions_of_whole_numbers_are_exact(drawn):
    subscripts, values = drawn
    program = staged(lambda *xs: np.einsum(subscripts, *xs), *values)
    for other in (optimized(program), *[improve(program) for improve in PASSES]):
        (got,), (wanted,) = other.run(values), program.run(values)
        numpy.testing.assert_array_equal(numpy.asarray(got), numpy.asarray(wanted))
        numpy.testing.assert_array_equal(numpy.asarray(got), numpy.einsum(subscripts, *values))


@pytest.mark.parametrize("order", [1, 2])
@given(programs(["square", "negative", "tanh", "sin"], PAIRS[:3], MOVES[:3], ["float64"]))
def test_derivatives_keep_their_values(order, drawn):
    fun, values = drawn
    values = [numpy.nan_to_num(x, posinf=2.0, neginf=-2.0) % 5 - 1.7 for x in values]

    def loss(*args):
        return sum((np.sum(np.tanh(x)) for x in fun(*args)), start=np.sum(args[0]))

    for _ in range(order):
        loss = (lambda inner: lambda *args: np.sum(ft.grad(inner)(*args) ** 2))(loss)
    (wanted,), found = both((lambda *args: [loss(*args)], values))
    for (got,) in found:
        close(got, wanted, 64)
