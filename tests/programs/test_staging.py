"""Programs: what staging records, how it prints, and that it behaves as the function does."""

import pickle

import numpy as np
import pytest

import functensor as ft
from functensor.primitives.core.errors import ConcretizationError, ShapeError
from functensor.primitives.core.registry import registry as ops
from functensor.programs import Equation, Program, ProgramError, Variable, check

X = np.array([0.3, -0.7, 1.1])
W = np.arange(6.0).reshape(2, 3) / 7


def names(program):
    return [equation.primitive.name for equation in program.equations]


# -- what is recorded


def test_programs_print_inputs_types_parameters_and_constants():
    def fun(p, s):
        return {"a": ops.sum(ops.sin(p["x"]) * s, axis=0), "b": W @ p["x"], "c": 3.0}

    text = str(ft.make_program(fun)({"x": X}, 2.0))
    assert text.splitlines() == [
        "fun(a: float64[3], b: weak float64[]):",
        "    c: float64[3] = sin(a)",
        "    d: float64[3] = multiply(c, b)",
        "    e: float64[] = sum(d, axis=(0,), keepdims=False)",
        "    f: float64[2] = matmul(<float64[2, 3]>, a)",
        "    return e, f, 3.0",
    ]
    assert repr(ft.make_program(fun)({"x": X}, 2.0)) == text


def test_many_variables_have_names_of_their_own():
    def chain(x):
        for _ in range(800):
            x = ops.sin(x)
        return x

    text = str(ft.make_program(chain)(X))
    defined = [line.split(":")[0].strip() for line in text.splitlines()[1:-1]]
    assert len(set(defined)) == 800
    assert defined[24:27] == ["z", "ba", "bb"]


def test_what_no_output_depends_on_is_dropped():
    def fun(x, unused):
        ops.exp(x) * unused
        return ops.sin(x)

    program = ft.make_program(fun)(X, X)
    assert names(program) == ["sin"]
    assert len(program.inputs) == 2
    np.testing.assert_allclose(program(X, X), np.sin(X))


def test_what_depends_on_no_input_is_computed_at_once():
    program = ft.make_program(lambda x: x + ops.exp(ops.sin(W[0])))(X)
    assert names(program) == ["add"]
    np.testing.assert_allclose(program(X), X + np.exp(np.sin(W[0])))


def test_outputs_may_be_inputs_constants_or_repeated():
    def fun(x, y):
        z = ops.sin(x)
        return [z, x, z, 2.0, W, (None, {"n": y})]

    program = ft.make_program(fun)(X, 1)
    z, x, z2, two, w, (none, last) = program(X, 1)
    np.testing.assert_allclose(z, np.sin(X))
    np.testing.assert_array_equal(z, z2)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(w, W)
    assert (two, none, last["n"]) == (2.0, None, 1)


def test_a_function_without_arguments_is_a_constant():
    program = ft.make_program(lambda: ops.sin(X))()
    assert names(program) == []
    np.testing.assert_allclose(program(), np.sin(X))


def test_weak_scalars_stay_weak_and_strong_ones_do_not():
    x = X.astype("float32")

    def fun(x, s):
        return x * s * 2 + 1.5

    assert ft.make_program(fun)(x, 3.0).outputs[0].type == ft.ShapeDtype((3,), "float32")
    assert ft.make_program(fun)(x, np.float64(3)).outputs[0].type == ft.ShapeDtype((3,), "float64")
    assert ft.make_program(fun)(x, 3.0)(x, 3.0).dtype == np.float32
    inner = ft.make_program(lambda s: (s * s + 1) * x)(2.0)
    assert inner.outputs[0].type.dtype == np.float32


def test_arguments_may_be_shapes():
    program = ft.make_program(lambda t: t["w"] @ t["x"])(
        {"w": ft.ShapeDtype((2, 3), "float32"), "x": ft.ShapeDtype((3,), "float32")}
    )
    assert program.outputs[0].type == ft.ShapeDtype((2,), "float32")


def test_keywords_are_staged_like_positions():
    def fun(x, *, scale):
        return x * scale["s"]

    program = ft.make_program(fun)(X, scale={"s": 2.0})
    np.testing.assert_allclose(program(X, scale={"s": 3.0}), X * 3)
    assert ft.eval_shape(fun, X, scale={"s": X[0]}) == ft.ShapeDtype((3,), "float64")
    with pytest.raises(TypeError, match=r"argument 'scale'\['s'\] is of type str"):
        ft.make_program(fun)(X, scale={"s": "text"})


def test_python_effects_happen_once_while_staging():
    runs = []

    def fun(x):
        runs.append(type(x).__name__)
        return x * 2

    program = ft.make_program(fun)(X)
    program(X)
    program(X)
    assert len(runs) == 1


# -- running


def model(x, w):
    h = ops.tanh(w @ x) + ops.sum(x[:2] * x[np.array([0, 2])])
    return ops.sum(ops.exp(h - ops.max(h)) * 0.5)


def test_a_program_is_a_function_under_every_transformation():
    program = ft.make_program(model)(X, W)
    ww = np.stack([W, 2 * W])
    wrappers = {
        "run": lambda f: f(X, W),
        "grad": lambda f: ft.grad(f, argnums=(0, 1))(X, W),
        "jvp": lambda f: ft.jvp(f, (X, W), (X, W)),
        "vmap": lambda f: ft.vmap(f, (None, 0))(X, ww),
        "vmap of grad": lambda f: ft.vmap(ft.grad(f), (None, 0))(X, ww),
        "hessian": lambda f: ft.hessian(f)(X, W),
        "linearize": lambda f: ft.linearize(f, X, W)[1](X, W),
        "program": lambda f: ft.make_program(f)(X, W)(X, W),
    }
    for name, wrapper in wrappers.items():
        for a, b in zip(ft.tree.leaves(wrapper(program)), ft.tree.leaves(wrapper(model))):
            assert type(a) is ft.Array
            np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=name)


def test_derivatives_can_be_staged():
    program = ft.make_program(ft.grad(model))(X, W)
    np.testing.assert_allclose(program(X, W), ft.grad(model)(X, W), rtol=1e-12)
    np.testing.assert_allclose(program(2 * X, W), ft.grad(model)(2 * X, W), rtol=1e-12)
    per_example = ft.make_program(ft.vmap(ft.grad(model), (0, None)))(np.stack([X, X]), W)
    np.testing.assert_allclose(per_example(np.stack([X, -X]), W)[1], ft.grad(model)(-X, W))


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x[1:3] * x[-1],
        lambda x: x[None, np.array([2, 0, 2])],
        lambda x: x[x.shape[0] - 1, None] * x[np.array([True, False, True])],
        lambda x: x.at[np.array([0, 2])].multiply(x[:2]),
        ft.grad(lambda x: ops.sum(ops.sin(x[np.array([1, 1, 0])]))),
    ],
    ids=["slice", "array", "mask", "update", "derivative"],
)
def test_pickled_programs_index(fun):
    x = ft.numpy.asarray(X)
    program = ft.make_program(fun)(x)
    loaded = pickle.loads(pickle.dumps(program))
    assert str(loaded) == str(program)
    np.testing.assert_array_equal(loaded(x), fun(x))
    np.testing.assert_allclose(ft.jit(loaded)(x), fun(x), rtol=1e-15)
    np.testing.assert_allclose(ft.vmap(loaded)(x[None])[0], fun(x), rtol=1e-15)
    np.testing.assert_allclose(ft.jacrev(loaded)(x), ft.jacrev(fun)(x), rtol=1e-15)


def test_programs_may_close_over_tracers():
    def loss(w):
        program = ft.make_program(lambda x: ops.sum(ops.sin(x) * w))(X)
        return program(X)

    np.testing.assert_allclose(ft.grad(loss)(X), np.sin(X))
    np.testing.assert_allclose(ft.vmap(loss)(X), X * np.sin(X).sum())


def test_a_python_scalar_program_runs_under_grad():
    program = ft.make_program(lambda s: s * s * 3)(2.0)
    assert float(program(4.0)) == 48.0
    assert float(ft.grad(program)(2.0)) == 12.0
    assert float(ft.jvp(program, (2.0,), (1.0,))[1]) == 12.0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((X,), "staged for"),
        (([X], W), "staged for"),
        ((X[:2], W), r"staged for float64\[3\], not float64\[2\]"),
        ((X, W.astype("float32")), r"staged for float64\[2,3\], not float32\[2,3\]"),
    ],
)
def test_programs_refuse_arguments_of_other_types(args, words):
    with pytest.raises(TypeError, match=words):
        ft.make_program(model)(X, W)(*args)


# -- checking


def test_check_finds_broken_programs():
    a, b, c = (Variable(ft.ShapeDtype((3,), "float64")) for _ in range(3))
    wrong = Variable(ft.ShapeDtype((2,), "float64"))

    def program(equations, outputs):
        return Program("p", [a], equations, outputs)

    good = program([Equation(ops.sin, [a], {}, [b])], [b])
    check(good)
    broken = [
        ([Equation(ops.sin, [c], {}, [b])], [b], "equation 0, sin, uses an undefined variable"),
        ([Equation(ops.sin, [a], {}, [wrong])], [wrong], r"equation 0, sin, gives float64\[3\]"),
        ([Equation(ops.sin, [a], {}, [a])], [a], "equation 0, sin, defines a variable again"),
        ([Equation(ops.sin, [a], {}, [b])] * 2, [b], "equation 1, sin, defines a variable again"),
        ([], [b], "an output is undefined"),
        ([Equation(ops.sin, [a], {}, [b]), Equation(ops.sin, [c], {}, [c])], [b], "equation 1"),
    ]
    for equations, outputs, words in broken:
        with pytest.raises(ProgramError, match=words):
            program(equations, outputs)


# -- values are not known


BRANCHES = {
    "if": lambda x: x if x > 0 else -x,
    "and": lambda x: (x > 0) and x,
    "min": lambda x: min(x, 1.0),
    "not": lambda x: x * (not x),
    "in": lambda x: x * (1 in [x]),
}


@pytest.mark.parametrize("fun", BRANCHES.values(), ids=BRANCHES)
def test_branches_on_staged_values_are_refused(fun):
    with pytest.raises(ConcretizationError) as caught:
        ft.make_program(fun)(2.0)
    text = str(caught.value)
    words = ["bool() asked for the value", "under make_program(", "test_staging.py:", "np.where"]
    for part in [*words, "python -m functensor.errors 4"]:
        assert part in text
    with pytest.raises(ConcretizationError):
        ft.eval_shape(fun, 2.0)


NUMBERS = [float, int, range, lambda x: [1, 2, 3][x], lambda x: x.item(), lambda x: x.tolist()]


@pytest.mark.parametrize("use", NUMBERS)
def test_numbers_of_staged_values_are_refused(use):
    with pytest.raises(ConcretizationError, match=r"which is not known while [\s\S]*errors 5"):
        ft.make_program(lambda x: x * use(x))(2)


def test_branches_on_what_is_known_are_fine():
    def fun(x):
        if x.ndim == 1 and len(x) == 3 and x.shape[0] > 2 and x.dtype == np.float64:
            return x * 2
        return x

    assert names(ft.make_program(fun)(X)) == ["multiply"]


# -- eval_shape


def test_eval_shape_computes_nothing():
    huge = ft.ShapeDtype((10**6, 10**6), "float32")

    def fun(t):
        h = ops.sin(t["w"] @ t["w"]) * 2.0 + 1
        e = ops.exp(h - ops.max(h, axis=-1, keepdims=True))
        return {
            "rows": ops.sum(e, axis=1),
            "all": ops.sum(e) > 0,
            "cut": h[:5, ::2],
            "t": h.T[None],
        }

    assert ft.eval_shape(fun, {"w": huge}) == {
        "rows": ft.ShapeDtype((10**6,), "float32"),
        "all": ft.ShapeDtype((), "bool"),
        "cut": ft.ShapeDtype((5, 5 * 10**5), "float32"),
        "t": ft.ShapeDtype((1, 10**6, 10**6), "float32"),
    }


def test_eval_shape_of_transformations_and_constants():
    huge = ft.ShapeDtype((10**6, 1000), "float64")

    def loss(w):
        return ops.sum(ops.tanh(w @ w.T))

    assert ft.eval_shape(ft.grad(loss), huge) == huge
    rows = ft.ShapeDtype((10**6,), "float64")
    assert ft.eval_shape(ft.vmap(lambda r: ops.sum(r * r)), huge) == rows
    value, gradient = ft.eval_shape(ft.value_and_grad(loss), huge)
    assert (value.shape, gradient) == ((), huge)
    assert ft.eval_shape(lambda x: X, 1.0) == ft.ShapeDtype((3,), "float64")


def test_shapes_that_do_not_fit_are_refused_while_staging():
    with pytest.raises(ShapeError, match=r"matmul[\s\S]*\(2, 3\)[\s\S]*functensor.errors 16"):
        ft.eval_shape(lambda a: a @ a, ft.ShapeDtype((2, 3), "float32"))
    two, three = (ft.ShapeDtype((n,), "float32") for n in (2, 3))
    with pytest.raises(ShapeError, match=r"add: shapes \(2,\) and \(3,\) do not broadcast"):
        ft.make_program(lambda a, b: a + b)(two, three)


@pytest.mark.parametrize("stage", [ft.make_program, lambda f: lambda *a: ft.eval_shape(f, *a)])
@pytest.mark.parametrize("argument", ["text", object()])
def test_arguments_that_are_no_arrays_are_refused_by_name(stage, argument):
    with pytest.raises(TypeError, match=r"argument 1.*(str|object)"):
        stage(lambda x, s: x)(1.0, argument)
