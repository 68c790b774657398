"""Passes on small programs, whose results stay the same bit by bit."""


import numpy
import pytest
from support.counted import lines_run
from support.pass_cases import EDGES, D, F, M, body, operations, outcomes, same, staged

import functensor as ft
import functensor.numpy as np
import functensor.random as random
from functensor.passes.common_subexpressions import common_subexpressions
from functensor.passes.constant_folding import constant_folding
from functensor.passes.contraction_order import contraction_paths
from functensor.passes.dead_code import dead_code
from functensor.passes.inline_calls import inlined
from functensor.passes.pipeline import PASSES, optimized
from functensor.passes.simplify import algebra
from functensor.passes.sink_broadcasts import sinking
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.primitive_like import Call
from functensor.primitives.core.registry import registry as ops
from functensor.programs.program import Equation, Program, Variable, type_of

# -- the smaller passes


def test_dead_code_leaves_out_what_no_output_needs():
    program = staged(lambda x: (np.sin(x), np.cos(np.exp(x))), D)
    less = program.with_equations(program.equations, program.outputs[:1])
    assert body(dead_code(less)) == ["b: float64[3] = sin(a)", "return b"]
    assert dead_code(program) is program


def test_functions_with_rules_are_inlined_through_all_levels():
    @ft.custom_vjp
    def inner(x):
        return np.sin(x) * 2

    inner.defvjp(lambda x: (inner(x), x), lambda x, g: (g * 7,))

    @ft.custom_vjp
    def outer(x, y):
        return inner(x) + inner(y), x

    outer.defvjp(lambda x, y: (outer(x, y), None), lambda res, g: (g[0], g[0]))
    program = staged(lambda x: outer(x, x * 3), D)
    assert operations(program) == ["multiply", "outer"]
    whole = inlined(program)
    assert body(whole) == [
        "b: float64[3] = multiply(a, 3)",
        "c: float64[3] = sin(a)",
        "d: float64[3] = multiply(c, 2)",
        "e: float64[3] = sin(b)",
        "f: float64[3] = multiply(e, 2)",
        "g: float64[3] = add(d, f)",
        "return g, a",
    ]
    assert all(equation.line.startswith(__file__) for equation in whole.equations)
    same(program, whole, [EDGES[:3]])


def test_weak_scalars_leave_an_inlined_function_as_arrays():
    @ft.custom_vjp
    def double(x):
        return x * 2

    double.defvjp(lambda x: (double(x), None), lambda res, g: (g * 2,))
    program = staged(lambda x, y: double(x) * y, 1.5, F)
    whole = inlined(program)
    assert operations(whole) == ["multiply", "astype", "multiply"]
    assert type_of(whole.outputs[0]) == type_of(program.outputs[0]) == D
    same(program, whole, [1.5, EDGES[:3].astype("float32")])


def test_a_shared_program_is_inlined_with_variables_of_its_own():
    part = staged(lambda x: np.sin(x), D)

    class Shared(Call):
        name = "part"
        program = part

    x, y, z = (Variable(D) for _ in range(3))
    equations = [Equation(Shared(), [x], {}, [y]), Equation(Shared(), [y], {}, [z])]
    whole = inlined(Program("twice", [x], equations, [z]))
    assert body(whole) == ["b: float64[3] = sin(a)", "c: float64[3] = sin(b)", "return c"]


def test_calls_with_bodies_stay():
    part = staged(lambda x: np.sin(x), D)

    class Loop(Call):
        name = "loop"
        program = part
        bodies = (part,)

    x, y = Variable(D), Variable(D)
    program = Program("loop", [x], [Equation(Loop(), [x], {}, [y])], [y])
    assert inlined(program) is program


def test_what_is_computed_twice_is_computed_once():
    program = staged(lambda x: np.sin(x[0:1] * 2) + np.sin(x[0:1] * 2), D)
    assert operations(common_subexpressions(program)) == ["index", "multiply", "sin", "add"]


def test_convolutions_of_one_geometry_are_one():
    x, w = ft.ShapeDtype((1, 2, 5, 5), "float32"), ft.ShapeDtype((3, 2, 3, 3), "float32")
    program = staged(lambda x, w: (ft.nn.conv(x, w), ft.nn.conv(x, w)), x, w)
    assert operations(common_subexpressions(program)) == ["conv"]


def distinct(x):
    yield x * 0.0, x * -0.0
    yield x * 1, x * 1.0
    yield x * 1, x * True
    yield np.sum(x), np.sum(x, keepdims=True)
    yield x[0:1], x[1:2]
    yield x.astype("float32"), x.astype("float16")
    yield x * numpy.float32(2), x * numpy.float64(2)


@pytest.mark.parametrize("number", range(7))
def test_what_differs_in_a_number_or_a_parameter_stays(number):
    program = staged(lambda x: list(distinct(x))[number], D)
    assert len(program.equations) == 2
    assert common_subexpressions(program) is program


def test_constants_are_the_same_by_value_while_they_are_small():
    program = staged(lambda x: (x + numpy.arange(3.0), x + numpy.arange(3.0)), D)
    assert len(common_subexpressions(program).equations) == 1
    program = staged(lambda x: (x + numpy.array([0.0, 1, 2]), x + numpy.array([-0.0, 1, 2])), D)
    assert len(common_subexpressions(program).equations) == 2
    program = staged(lambda x: (x + numpy.nan, x + numpy.nan), D)
    assert len(common_subexpressions(program).equations) == 1


def test_draws_of_one_key_are_one_draw():
    def draws(key):
        first, second = random.split(key)
        return random.normal(first, (4,)), random.normal(first, (4,)), random.normal(second, (4,))

    program = staged(draws, random.key(0))
    less = optimized(program)
    assert operations(less).count("random_bits") == 2
    same(program, less, [random.key(0)])


def test_equations_of_constants_are_computed_once():
    y = Variable(ft.ShapeDtype((), "float64", float))
    x, z, w = Variable(M), Variable(M), Variable(M)
    equations = [
        Equation(ops["add"], [1.5, 2], {}, [y]),
        Equation(ops["broadcast_to"], [y], {"shape": (2, 3)}, [z]),
        Equation(ops["multiply"], [x, z], {}, [w]),
    ]
    program = Program("f", [x], equations, [w, y])
    folded = constant_folding(program)
    assert body(folded) == ["b: float64[2,3] = multiply(a, <float64[2, 3]>)", "return b, 3.5"]
    assert type(folded.outputs[1]) is float
    assert folded.equations[0].operands[1]._data.strides == (0, 0)


def test_large_results_and_faults_are_left_to_the_run():
    large, small = ft.ShapeDtype((200000,), "float64"), ft.ShapeDtype((), "float64")
    ones, zero = np.ones(200000), np.zeros(())
    for operands, known, name in (
        ([ones], large, "exp"),
        ([np.ones(()), zero], small, "divide"),
        ([np.array(1e300), np.array(1e300)], small, "multiply"),
    ):
        out = Variable(known)
        program = Program("f", [], [Equation(ops[name], operands, {}, [out])], [out])
        assert constant_folding(program) is program
    out = Variable(small)
    params = {"axis": (0,), "keepdims": False, "dtype": None}
    total = Equation(ops["sum"], [ones[:2000]], params, [out])
    assert float(constant_folding(Program("f", [], [total], [out])).outputs[0]) == 2000.0


def test_constants_that_take_no_more_memory_than_their_operands_are_kept():
    rows = np.arange(20000.0).reshape(2, 10000)

    def differences(x):
        wide = np.concatenate([np.zeros((2, 1)), rows], axis=1)
        return x * (wide[:, 1:] - wide[:, :-1])

    program = ft.make_program(differences)(rows)
    assert body(optimized(program)) == [
        "b: float64[2,10000] = multiply(a, <float64[2, 10000]>)", "return b"
    ]  # fmt: skip
    # An outer sum takes more.
    program = ft.make_program(lambda x: x + (rows[0] + rows[1, :100, None]))(np.ones(10000))
    assert operations(optimized(program)) == ["add", "add"]


def test_an_array_that_is_one_number_stays_one():
    import ml_dtypes

    kind = numpy.dtype(ml_dtypes.bfloat16)
    ones = wrap(numpy.broadcast_to(numpy.float32(1.5), (300, 200)))
    rounded, twice = (Variable(ft.ShapeDtype((300, 200), kind)) for _ in range(2))
    equations = [
        Equation(ops["astype"], [ones], {"dtype": kind}, [rounded]),
        Equation(ops["add"], [rounded, rounded], {}, [twice]),
    ]
    (found,) = constant_folding(Program("f", [], equations, [twice])).outputs
    assert found._data.strides == (0, 0)
    assert found.dtype == kind
    assert float(found[299, 199]) == 3.0
    # Nothing that would warn.
    zeros = wrap(numpy.broadcast_to(0.0, (300, 200)))
    out = Variable(ft.ShapeDtype((300, 200), "float64"))
    program = Program("f", [], [Equation(ops["divide"], [zeros, zeros], {}, [out])], [out])
    assert constant_folding(program) is program


def test_what_a_default_device_decides_is_not_folded():
    out = Variable(ft.ShapeDtype((2,), "uint32"))
    params = {"shape": (2,), "bits": 32, "stream": 0}
    keys = [np.array([1, 2], "uint64"), np.array(0, "uint64")]
    program = Program("f", [], [Equation(ops["random_bits"], keys, params, [out])], [out])
    assert constant_folding(program) is program


# -- sinking


def test_broadcasts_come_after_what_is_elementwise():
    program = staged(lambda x: np.sqrt(np.broadcast_to(x, (2, 3)) * 2.0), D)
    assert body(dead_code(sinking(program))) == [
        "b: float64[3] = multiply(a, 2.0)",
        "c: float64[3] = sqrt(b)",
        "d: float64[2,3] = broadcast_to(c, shape=(2, 3))",
        "return d",
    ]


def test_broadcasts_that_others_need_as_large_stay():
    program = staged(lambda x, y: np.broadcast_to(x, (2, 3)) * y, D, M)
    assert sinking(program) is program
    # A weak number would lose its say.
    program = staged(lambda x: np.sqrt(np.broadcast_to(x, (3,))), 2.0)
    assert sinking(program) is program


def test_transposes_cancel_behind_what_is_elementwise():
    program = staged(lambda x, y: (np.sqrt(x.T) + y.T * 2.0).T, M, M)
    less = dead_code(algebra(sinking(program)))
    assert operations(less) == ["sqrt", "multiply", "add"]
    program = staged(lambda x, y: np.sqrt(x.T) + y, ft.ShapeDtype((3, 3), "f8"), D)
    assert operations(dead_code(sinking(program))) == ["sqrt", "transpose", "add"]


def test_transposes_there_and_back_cancel_in_one_sweep_however_many():
    def fun(x):
        for _ in range(5):
            x = np.tanh(x).T
            x = (x + np.mean(x, 1, keepdims=True)).T
        return x

    program = staged(fun, M)
    once = dead_code(sinking(program))
    assert operations(once) == ["tanh", "mean", "add"] * 5
    assert str(optimized(program)) == str(once)
    same(program, once, [numpy.arange(6.0).reshape(2, 3)])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (0, 1, 2)])
def test_reductions_take_what_was_not_transposed(axis, keepdims):
    def fun(x):
        return np.sum(np.transpose(x, (2, 0, 1)), axis=axis, keepdims=keepdims)

    program = staged(fun, ft.ShapeDtype((2, 3, 4), "float64"))
    less = dead_code(sinking(program))
    assert operations(less)[0] == "sum"
    same(program, less, [numpy.arange(24.0).reshape(2, 3, 4)])


# -- contraction paths


@pytest.mark.parametrize(
    ("subscripts", "shapes", "wanted"),
    [
        ("ij,jk,kl->il", ((3, 4), (4, 5), (5, 2)), ["matmul", "matmul"]),
        ("ij,jk->ik", ((3, 4), (4, 5)), ["matmul"]),
        ("i,ij->j", ((3,), (3, 4)), ["matmul"]),
        ("ij,kij->k", ((2, 3), (4, 2, 3)), ["reshape", "transpose", "reshape", "matmul"]),
        ("ij,jk->ki", ((3, 4), (4, 5)), ["transpose", "transpose", "matmul"]),
        ("ij->j", ((3, 4),), ["sum"]),
        ("i,j->ij", ((3,), (4,)), ["reshape", "reshape", "multiply", "add"]),
        ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5)), ["matmul"]),
        ("ii->i", ((3, 3),), ["einsum"]),
    ],
)
def test_einsum_becomes_products_of_two(subscripts, shapes, wanted):
    known = [ft.ShapeDtype(shape, "float64") for shape in shapes]
    program = staged(lambda *xs: ops.einsum(subscripts, *xs), *known)
    less = dead_code(algebra(algebra(contraction_paths(program))))
    assert operations(less) == wanted
    values = [numpy.arange(float(x.size)).reshape(x.shape) for x in known]
    same(program, less, values)


def test_einsum_of_weak_or_mixed_operands_stays():
    program = staged(lambda x: np.einsum(",i->i", 2.0, x), D)
    assert contraction_paths(program) is program
    program = staged(lambda x, y: np.einsum("i,i->i", x, y), D, F)
    assert contraction_paths(program) is program


def test_chains_of_products_take_the_cheaper_order():
    x, v = ft.ShapeDtype((300, 200), "float64"), ft.ShapeDtype((200,), "float64")
    program = staged(lambda x, v: x.T @ x @ v, x, v)
    less = dead_code(contraction_paths(program))
    assert body(less) == [
        "c: float64[200,300] = transpose(a, axes=(1, 0))",
        "d: float64[300] = matmul(a, b)",
        "e: float64[200] = matmul(c, d)",
        "return e",
    ]
    # Of small whole numbers the sums are exact in every order.
    rng = numpy.random.default_rng(0)
    same(program, less, [rng.integers(0, 9, (300, 200)) * 1.0, rng.integers(0, 9, 200) * 1.0])


@pytest.mark.parametrize(
    ("x", "y", "kept"),
    [
        ((8, 1), (1, 8), False),
        ((80, 1), (1, 80), True),
        ((80, 1), (1, 1024), False),
        ((9, 80, 1), (9, 1, 80), True),
        ((9, 2, 1), (9, 1, 800), False),
        ((80, 2), (2, 80), True),
    ],
)
def test_columns_times_rows_are_left_to_blas_where_it_is_quicker(x, y, kept):
    program = ft.make_program(np.matmul)(np.ones(x), np.ones(y))
    less = contraction_paths(program)
    assert [e.primitive.name for e in less.equations] == (
        ["matmul"] if kept else ["multiply", "add"]
    )
    assert (less is program) is kept


def test_chains_stay_where_little_is_won_or_a_part_is_needed():
    x, v = ft.ShapeDtype((300, 200), "float64"), ft.ShapeDtype((200,), "float64")
    square = ft.ShapeDtype((90, 90), "float64")
    for program in (
        staged(lambda x, v: x.T @ (x @ v), x, v),
        staged(lambda x, v: (lambda y: (y @ v, y))(x.T @ x), x, v),
        staged(lambda a, b, c: a @ b @ c, square, square, square),
        staged(lambda a, b, c: a @ b @ c, *[ft.ShapeDtype((2, 2), "float64")] * 2, (1.0, 1.0)),
    ):
        assert operations(contraction_paths(program)).count("matmul") == 2
        assert operations(contraction_paths(program)) == operations(program)


# -- all of them


def test_passes_return_a_program_they_do_not_improve_itself():
    program = staged(lambda x: np.sum(np.sin(x) * 2), D)
    assert optimized(program) is program
    for improve in PASSES:
        assert improve(program) is program


def test_what_is_redundant_in_the_gradient_of_a_layer_is_gone():
    def loss(w, b, x):
        return np.mean((np.tanh(x @ w + b)) ** 2)

    known = [ft.ShapeDtype(shape, "float32") for shape in ((4, 2), (2,), (3, 4))]
    program = staged(ft.grad(loss, argnums=(0, 1)), *known)
    assert operations(optimized(program)) == [
        "matmul", "add", "tanh", "add", "multiply", "tanh_grad", "sum", "transpose", "matmul",
    ]  # fmt: skip


def test_outputs_keep_their_types_and_places():
    def fun(x, n):
        return {"n": n * 1, "x": (x * 1, x), "constant": np.ones(2), "weak": np.negative(-n) + 1}

    program = staged(fun, D, 2.0)
    less = optimized(program)
    assert [type_of(x) for x in less.outputs] == [type_of(x) for x in program.outputs]
    out = less(EDGES[:3], 2.0)
    assert (out["n"], out["weak"]) == (2.0, 3.0)
    assert outcomes(less, [EDGES[:3], 2.0])[0] == outcomes(program, [EDGES[:3], 2.0])[0]


def test_the_work_grows_with_the_number_of_equations_and_no_faster():
    def fun(w, x, steps):
        for _ in range(steps):
            x = np.tanh(x @ w + -x[0] * 1.0) + np.transpose(np.transpose(x)) / 2
        return np.sum(x)

    def lines(steps):
        program = staged(lambda w, x: ft.grad(fun)(w, x, steps), np.ones((3, 3)), np.ones((2, 3)))
        return lines_run(lambda: optimized(program))

    assert lines(80) < 10 * lines(10)
