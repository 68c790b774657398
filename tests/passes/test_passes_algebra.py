"""Equations that algebra simplifies, and those that it leaves alone."""

import numpy
import pytest
from support.pass_cases import EDGES, C, D, F, M, N, body, operations, same, staged

import functensor as ft
import functensor.numpy as np
from functensor.passes.constants import uniform_value
from functensor.passes.dead_code import dead_code
from functensor.passes.simplify import algebra
from functensor.primitives.core.registry import registry as ops
from functensor.programs.program import Variable

IDENTITIES = [
    (lambda x: x * 1, D),
    (lambda x: 1 * x, D),
    (lambda x: x * numpy.ones(3), D),
    (lambda x: x / 1.0, D),
    (lambda x: x - 0, D),
    (lambda x: x - 0.0, D),
    (lambda x: ops.log_ratio(x, 0.0), D),
    (lambda x: x + -0.0, D),
    (lambda x: -0.0 + x, D),
    (lambda x: x + 0, N),
    (lambda x: x - 0, N),
    (lambda x: np.power(x, 1), D),
    (lambda x: np.negative(-x), D),
    (lambda x: np.negative(-x), C),
    (lambda x: ft.stop_gradient(x), D),
    (lambda x: +x, D),
    (lambda x: np.conj(np.real(x)), D),
    (lambda x: np.where(True, x, 3.0), D),
    (lambda x: np.where(numpy.zeros(3, bool), 3.0, x), D),
    (lambda x: np.where(x > 0, x, x), D),
    (lambda x: x.astype("float64"), D),
    (lambda x: x.astype("float64").astype("float32"), F),
    (lambda x: x.reshape(3).reshape((3, 1)).reshape(-1), D),
    (lambda x: x.T, D),
    (lambda x: x.T.T, M),
    (lambda x: x[:], D),
    (lambda x: x[0:3, ...], D),
    (lambda x: x[None, :, None][0, :, 0], D),
    (lambda x: np.broadcast_to(x, (3,)), D),
    (lambda x: np.max(x, axis=()), D),
    (lambda x: np.sum(x, axis=()), N),
    (lambda x: np.min(x[None], axis=0), D),
]


@pytest.mark.parametrize("number", range(len(IDENTITIES)))
def test_what_changes_nothing_is_left_out(number):
    fun, known = IDENTITIES[number]
    program = staged(fun, known)
    assert program.equations
    less = dead_code(algebra(algebra(program)))
    assert body(less) == ["return a"]
    same(program, less, [EDGES[: known.size].reshape(known.shape).astype(known.dtype)])


KEPT = [
    (lambda x: x + 0.0, D),
    (lambda x: x + 0, D),
    (lambda x: x - -0.0, D),
    (lambda x: 0 - x, D),
    (lambda x: ops.log_ratio(x, -numpy.inf), D),
    (lambda x: x * 0, D),
    (lambda x: x * 1, C),
    (lambda x: x + -0.0, C),
    (lambda x: x / 1, C),
    (lambda x: x - 0j, C),
    (lambda x: np.power(x, 2), C),
    (lambda x: x / 3.0, D),
    (lambda x: x / 1, N),
    (lambda x: x * 1.0, N),
    (lambda x: np.power(x, 0.25), D),
    (lambda x: np.power(x, 0.5), ft.ShapeDtype((), "float64")),
    (lambda x: x * numpy.float64(1), F),
    (lambda x: x * numpy.ones((2, 3)), D),
    (lambda x: np.sum(x, axis=()), D),
    (lambda x: x[::-1], D),
    (lambda x: x.T, M),
    (lambda x: np.where(x > 0, x, 0.0), D),
]


@pytest.mark.parametrize("number", range(len(KEPT)))
def test_what_would_change_a_bit_or_a_dtype_stays(number):
    fun, known = KEPT[number]
    program = staged(fun, known)
    assert operations(algebra(program)) == operations(program)


SIMPLER = [
    (lambda x: x / 4, D, ["multiply"]),
    (lambda x: np.power(x, 2), D, ["square"]),
    (lambda x: np.power(x, 2), N, ["square"]),
    (lambda x: np.power(x, 3), D, ["square", "multiply"]),
    (lambda x: np.power(x, 4.0), D, ["square", "square"]),
    (lambda x: np.power(x, -1), D, ["reciprocal"]),
    (lambda x: np.power(x, 0.5), D, ["sqrt"]),
    (lambda x: x + (-np.sqrt(x)), D, ["sqrt", "subtract"]),
    (lambda x: (-np.sqrt(x)) + x, D, ["sqrt", "subtract"]),
    (lambda x: x - (-x), D, ["add"]),
    (lambda x: ops.log_ratio(x, 2.0), D, ["subtract"]),
    (lambda x: (-x) * 3.0, D, ["multiply"]),
    (lambda x: -3 * (-x), D, ["multiply"]),
    (lambda x: (-x) / 3, D, ["divide"]),
    (lambda x: (-x) * (-x), D, ["multiply"]),
    (lambda x: x + (-x) * np.sqrt(x), D, ["sqrt", "multiply", "subtract"]),
    (lambda x: np.sum(x, axis=0).reshape((1, 3)), M, ["sum"]),
    (lambda x: np.sum(x, axis=0, keepdims=True).reshape(3), M, ["sum"]),
    (lambda x: np.var(x, axis=1).reshape((2, 1)), M, ["var"]),
    (lambda x: np.transpose(np.reshape(x, (1, 2, 3)), (2, 0, 1)).T, M, ["reshape", "transpose"]),
    (lambda x: np.broadcast_to(np.broadcast_to(x, (2, 3)), (4, 2, 3)), D, ["broadcast_to"]),
    (lambda x: np.broadcast_to(x[:, 0:1], (2, 3)) * x, M, ["index", "multiply"]),
    (lambda x: np.broadcast_to(np.reshape(x, (1, 3)), (2, 3)), D, ["broadcast_to"]),
    (lambda x: x.astype("complex128").astype("complex64"), C, ["astype"]),
    (lambda x: (x > 0).astype("float32").astype("int64"), D, ["greater", "astype"]),
]


@pytest.mark.parametrize("number", range(len(SIMPLER)))
def test_equations_become_simpler_ones_with_the_same_bits(number):
    fun, known, wanted = SIMPLER[number]
    program = staged(fun, known)
    less = dead_code(algebra(program))
    assert operations(less) == wanted
    for start in range(4):
        x = numpy.roll(EDGES, -2 * start)[: known.size]
        with numpy.errstate(all="ignore"):
            same(program, less, [x.reshape(known.shape).astype(known.dtype)])


def test_integers_that_overflow_when_negated_stay():
    program = staged(lambda x, y: x.astype("int64") + (-y), N, ft.ShapeDtype((3,), "int8"))
    assert "negative" in operations(algebra(program))
    program = staged(lambda x: (-x) * 2.0, N)
    assert "negative" in operations(algebra(program))


def test_numbers_stand_for_constant_arrays_of_one_number():
    program = staged(lambda x: x * numpy.full(3, 0.1, "float32"), F)
    assert body(algebra(program)) == [
        "b: float32[3] = multiply(a, 0.10000000149011612)",
        "return b",
    ]
    # Here the constant makes the shape.
    program = staged(lambda x: x * numpy.full((2, 3), 2.0, "float32"), F)
    assert algebra(program) is program


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x * numpy.full(3, 0.1),
        lambda x: np.where(x > 0, 0, numpy.full(3, 0.1)),
        lambda x: np.where(x > 0, numpy.full(3, 0.1), 0),
        lambda x: np.maximum(numpy.full(3, 0.1), x),
        lambda x: x > numpy.full(3, 0.1),
    ],
)
def test_arrays_without_axes_stand_for_those_that_make_the_dtype(fun):
    program = staged(fun, F)
    less = algebra(program)
    shapes = {
        numpy.shape(y)
        for equation in less.equations
        for y in equation.operands
        if not isinstance(y, Variable)
    }
    assert shapes == {()}
    assert algebra(less) is less
    for x in (numpy.float32([-1, 0.1, 2]), numpy.float32([numpy.nan, -0.0, numpy.inf])):
        same(program, less, [x])
        (got,), (wanted,) = ft.jit(lambda x: (fun(x),))(x), (fun(np.asarray(x)),)
        assert got.dtype == wanted.dtype
        assert numpy.array_equal(got, wanted, equal_nan=got.dtype.kind == "f")


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("size", [3, 30000])
def test_constants_are_of_one_number_if_all_of_their_bits_are_the_same(size, dtype):
    array = numpy.full(size, 3, dtype)
    assert uniform_value(array) == 3
    assert uniform_value(array).dtype == dtype
    array[size // 2 + 1] = 4
    assert uniform_value(array) is None
    for zeros in (numpy.zeros(size), numpy.full(size, numpy.nan), numpy.broadcast_to(1.0, (size,))):
        assert numpy.array_equal(uniform_value(zeros), zeros[0], equal_nan=True)
    zeros = numpy.zeros(size)
    zeros[1] = -0.0
    assert uniform_value(zeros) is None
    assert uniform_value(numpy.zeros(0)) is None


def test_products_are_transposed_before_they_are_computed():
    program = staged(lambda x, y: (x.T @ y).T, M, M)
    less = dead_code(algebra(algebra(program)))
    assert body(less) == [
        "c: float64[3,2] = transpose(b, axes=(1, 0))",
        "d: float64[3,3] = matmul(c, a)",
        "return d",
    ]
    x = numpy.arange(6.0).reshape(2, 3)
    same(program, less, [x, x + 1])


def test_an_element_that_was_just_set():
    def f(x, v, i):
        y, z = x.at[i, 1].set(v), x.at[i].set(2)
        return y[i, 1] + z[i, 0], y, z

    args = numpy.ones((3, 2)), numpy.float64(4.0), numpy.int64(1)
    program = dead_code(algebra(staged(f, *args)))
    # The second is read at another place.
    names = [name for name in operations(program) if "index" in name]
    assert names == ["index_set", "index_set", "index"]
    assert float(program.run(list(args))[0]) == 6.0
    # Of places that are arrays the last value stays.
    twice = numpy.array([1, 1])
    given = numpy.ones(3), numpy.ones(2), twice
    program = algebra(staged(lambda x, v, i: (x.at[i].set(v)[i], x.at[i].set(v)), *given))
    assert "index" in operations(program)
    integers = algebra(staged(lambda x: x.at[1].set(1.0)[1], numpy.ones(3, "float32")))
    assert operations(dead_code(integers)) == ["astype"]


def test_an_element_that_was_just_set_out_of_bounds():
    """Reads take the value that was set, and one operation is left that tests the index."""

    def f(x, v, i):
        y = x.at[i].set(v)
        return y[i], y[i] * 2

    jitted = ft.jit(f)
    assert [float(y) for y in jitted(numpy.ones(3), 4.0, -1)] == [4.0, 8.0]
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        jitted(numpy.ones(3), 4.0, 3)
