"""Every transformation over every other, no confusion between levels, and vmap over all axes."""

import numpy as np
import pytest
from support.long_forms import LONG

import functensor as ft
from functensor.primitives.core.errors import AxisSizeError, ConcretizationError, EscapedTracerError
from functensor.primitives.core.registry import registry as ops

# -- the systematic product: operators on functions of one vector, all of known effect
#
# Each of them turns a function of a vector into a function of a vector. It is given twice: as our
# transformation, and in plain NumPy on a function with its derivatives of all orders.

W = np.array([[0.5, -0.3, 0.2], [0.1, 0.4, -0.6], [-0.2, 0.3, 0.7]])
X = np.array([0.3, -0.7, 1.1])
U = np.array([0.5, 1.0, -0.25])
V = np.array([-0.4, 0.3, 0.8])


def model(x):
    """Indexing, contraction, reductions, elementwise functions and softmax on the way R3 -> R3."""
    h = ops.sin(W @ x) + x[::-1] * x[1]
    e = ops.exp(h - ops.max(h))
    soft = e / ops.sum(e)
    return soft * ops.concatenate([x[:2], h[2:]]) + ops.sum(ops.square(h)) * 0.1


def custom_vjp_of(fun):
    """Gives a function a vjp rule that says what reverse mode would."""

    @ft.custom_vjp
    def wrapped(x):
        return fun(x)

    def bwd(x, g):
        return ft.vjp(fun, x)[1](g)

    wrapped.defvjp(lambda x: (fun(x), x), bwd)
    return wrapped


def custom_jvp_of(fun):
    """Gives a function a jvp rule that says what forward mode would."""

    @ft.custom_jvp
    def wrapped(x):
        return fun(x)

    wrapped.defjvp(lambda primals, tangents: ft.jvp(fun, primals, tangents))
    return wrapped


OPERATORS = {
    "grad": lambda f: ft.grad(lambda x: ops.sum(f(x) * U)),
    "value_and_grad": lambda f: lambda x: ft.value_and_grad(lambda y: ops.sum(f(y) * U))(x)[1],
    "vjp": lambda f: lambda x: ft.vjp(f, x)[1](U)[0],
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (U,))[1],
    "linearize": lambda f: lambda x: ft.linearize(f, x)[1](U),
    "vmap": lambda f: lambda x: ops.sum(ft.vmap(f)(ops.stack([x, x * 0.5])), axis=0),
    "jacfwd": lambda f: lambda x: ft.jacfwd(f)(x) @ U,
    "jacrev": lambda f: lambda x: U @ ft.jacrev(f)(x),
    "hessian": lambda f: lambda x: ft.hessian(lambda y: ops.sum(f(y) * U))(x) @ U,
    "program": lambda f: lambda x: ft.make_program(f)(x)(x),
    "custom_vjp": custom_vjp_of,
    "custom_jvp": custom_jvp_of,
}


def differences(fun, x, direction, eps=1e-5):
    """Returns a directional derivative, of fourth order in the step."""
    d = np.asarray(direction)

    def at(k):
        return np.asarray(fun(x + k * eps * d))

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * eps)


def as_vjp(fun, x, got):
    """Compares a product U @ J with differences along one direction."""
    close(got @ V, np.sum(differences(fun, x, V) * U))


def as_jvp(fun, x, got):
    """Compares a product J @ U with differences along U."""
    close(got, differences(fun, x, U))


def as_hvp(fun, x, got):
    """Compares a Hessian's product with differences of the gradient along U."""
    close(got, differences(ft.grad(lambda y: ops.sum(fun(y) * U)), x, U))


def as_itself(fun, x, got):
    close(got, fun(x))


def as_both(fun, x, got):
    close(got, np.asarray(fun(x)) + np.asarray(fun(x * 0.5)))


def close(got, wanted):
    scale = max(1.0, float(np.max(np.abs(wanted))))
    np.testing.assert_allclose(np.asarray(got) / scale, np.asarray(wanted) / scale, atol=1e-7)


CHECKS = {
    "grad": as_vjp,
    "value_and_grad": as_vjp,
    "vjp": as_vjp,
    "jacrev": as_vjp,
    "jvp": as_jvp,
    "linearize": as_jvp,
    "jacfwd": as_jvp,
    "hessian": as_hvp,
    "vmap": as_both,
    "program": as_itself,
    "custom_vjp": as_itself,
    "custom_jvp": as_itself,
}


@pytest.mark.parametrize("outer", OPERATORS)
@pytest.mark.parametrize("inner", OPERATORS)
def test_every_transformation_over_every_other(outer, inner):
    once = OPERATORS[inner](model)
    CHECKS[inner](model, X, once(X))
    twice = OPERATORS[outer](once)(X)
    assert type(twice) is ft.Array
    CHECKS[outer](once, X, twice)


# Those that are different machinery; the others are made of them.
DISTINCT = ["grad", "jvp", "linearize", "vmap", "jacfwd", "jacrev", "hessian", "program"]
DISTINCT += ["custom_vjp", "custom_jvp"]


@pytest.mark.long
@pytest.mark.parametrize("outer", DISTINCT)
@pytest.mark.parametrize("middle", DISTINCT)
def test_every_transformation_over_every_pair(outer, middle):
    # In the short form each pair is over every third one; the next pairs are over others.
    start = (DISTINCT.index(outer) + DISTINCT.index(middle)) % 3
    for inner in DISTINCT if LONG else DISTINCT[start::3]:
        twice = OPERATORS[middle](OPERATORS[inner](small))
        CHECKS[outer](twice, X, OPERATORS[outer](twice)(X))


def small(x):
    """As `model`, with fewer operations: a thousand triples are to be quick."""
    h = ops.sin(x[1:] * x[0])
    return ops.concatenate([h, ops.sum(x * x, keepdims=True)]) * x


PROMOTIONS = {
    "real to double": lambda x: x + np.zeros(3),
    "double to single": lambda x: (x * np.ones(3)).astype("float32"),
    "to complex": lambda x: x * 1j,
    "complex to real": lambda x: ops.abs(x * (1 + 1j)),
    "chosen": lambda x: ops.where(x > 0, x, np.zeros(3)),
    "to integers": lambda x: (x * 10).astype(int),
}


@pytest.mark.parametrize("fun", PROMOTIONS.values(), ids=PROMOTIONS)
def test_tangents_have_the_dtype_of_their_outputs_and_cotangents_of_their_inputs(fun):
    x = X.astype("float32")
    for push in (lambda t: ft.jvp(fun, (x,), (t,))[1], ft.linearize(fun, x)[1]):
        assert push(x).dtype == fun(x).dtype
    out, pull = ft.vjp(fun, x)
    assert pull(out)[0].dtype == np.float32


# -- perturbation confusion


def derivative(fun):
    """The derivative of a scalar function of a scalar, by forward mode."""
    return lambda x: ft.jvp(fun, (x,), (1.0,))[1]


DERIVATIVES = [derivative, ft.grad]


@pytest.mark.parametrize("inner", DERIVATIVES)
@pytest.mark.parametrize("outer", DERIVATIVES)
def test_levels_of_differentiation_are_not_confused(outer, inner):
    assert float(outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0)) == 1.0
    assert float(outer(lambda x: x * inner(lambda y: x * y * y)(2.0))(3.0)) == 24.0
    assert float(outer(lambda x: inner(lambda y: x)(1.0))(2.0)) == 0.0
    at_outer_variable = outer(lambda x: inner(lambda y: ops.sin(x) * y * y)(x))
    assert float(at_outer_variable(0.7)) == pytest.approx(1.4 * np.cos(0.7) + 2 * np.sin(0.7))


@pytest.mark.parametrize("by", DERIVATIVES)
def test_derivatives_of_higher_order_functions(by):
    # Manzyuk, Pearlmutter, Radul, Rush, Siskind: "Perturbation confusion in forward automatic
    # differentiation of higher-order functions", the shift operator.
    def shifted(fun):
        return lambda x: by(lambda offset: fun(x + offset))(0.0)

    assert float(shifted(shifted(ops.exp))(1.0)) == pytest.approx(np.e)


@pytest.mark.parametrize("order", range(1, 7))
@pytest.mark.parametrize("by", DERIVATIVES)
def test_derivatives_of_any_order(by, order):
    fun = ops.sin
    for _ in range(order):
        fun = by(fun)
    assert float(fun(0.4)) == pytest.approx(np.sin(0.4 + order * np.pi / 2))


def test_closures_over_outer_tracers():
    def loss(w):
        inner = ft.vmap(lambda x: ops.sum(ft.grad(lambda v: ops.sum(ops.sin(v) * w))(x)))
        return ops.sum(inner(ops.stack([X, 2 * X])))

    np.testing.assert_allclose(ft.grad(loss)(X), np.cos(X) + np.cos(2 * X), rtol=1e-12)


def test_a_tracer_of_an_inner_level_does_not_pass_at_an_outer_one():
    kept = []

    def outer(x):
        ft.vmap(lambda y: kept.append(y * x) or y)(X)
        return x * kept[0]

    with pytest.raises(EscapedTracerError, match="vmap"):
        ft.grad(outer)(2.0)


# -- vmap: axes


A = np.arange(24.0).reshape(2, 3, 4) / 10
B = np.cos(np.arange(12.0)).reshape(3, 4)


def loop(fun, axes, *args):
    """Returns the results of a Python loop over the given axes."""
    size = next(a.shape[axis] for a, axis in zip(args, axes) if axis is not None)
    examples = (
        [a if axis is None else a.take(i, axis) for a, axis in zip(args, axes)] for i in range(size)
    )
    return [np.asarray(fun(*example)) for example in examples]


@pytest.mark.parametrize("out_axis", [0, 1, -1, -2])
@pytest.mark.parametrize("in_axis", [0, 1, 2, -1, -2, -3])
def test_vmap_over_any_axis_is_a_loop(in_axis, out_axis):
    def fun(a):
        return ops.exp(a) + ops.sum(a, axis=0)

    wanted = np.stack(loop(fun, [in_axis], A), out_axis)
    np.testing.assert_allclose(ft.vmap(fun, in_axis, out_axis)(A), wanted, rtol=1e-12)
    np.testing.assert_allclose(ft.vmap(fun, [in_axis], out_axis)(A), wanted, rtol=1e-12)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (1, None), (None, -1), (1, 0), (-1, -1)])
def test_vmap_shares_arguments_whose_axis_is_none(axes):
    def fun(a, b):
        return ops.sum(a) * ops.sin(b) + ops.max(b)

    wanted = np.stack(loop(fun, axes, A, B))
    np.testing.assert_allclose(ft.vmap(fun, axes)(A, B), wanted, rtol=1e-12)


def test_vmap_takes_trees_of_axes():
    def fun(p, x):
        return {"y": (p["w"] @ x + p["b"][0], p["w"]), "n": None}

    p = {"w": A, "b": (np.float64(2.0), None)}
    got = ft.vmap(fun, ({"w": 0, "b": None}, None), {"y": (1, -1), "n": None})(p, B[0])
    np.testing.assert_allclose(got["y"][0], (A @ B[0] + 2).T)
    np.testing.assert_allclose(got["y"][1], np.moveaxis(A, 0, -1))
    assert got["n"] is None
    with pytest.raises(ValueError, match=r"in_axes.* has 1 entries for 2 positional arguments"):
        ft.vmap(fun, ({"w": 0},))(p, B[0])
    with pytest.raises(ValueError, match=r"\['?b'?\]|trees differ"):
        ft.vmap(fun, ({"w": 0}, None))(p, B[0])
    with pytest.raises(TypeError, match="in_axes holds integers and None, not 'a'"):
        ft.vmap(fun, ("a", None))(p, B[0])


def test_nested_vmaps_are_nested_loops():
    def outer(x, y):
        return x * y + ops.sum(y)

    table = ft.vmap(ft.vmap(outer, (None, 0)), (0, None))(X, B)
    np.testing.assert_allclose(table, X[:, None, None] * B + B.sum(1)[None, :, None])
    swapped = ft.vmap(ft.vmap(outer, (None, 0), 1), (0, None), 2)(X, B)
    np.testing.assert_allclose(swapped, np.asarray(table).transpose(2, 1, 0))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_vmap_of_any_size(size):
    x = np.ones((size, 3))

    def fun(row, scale=2.0):
        return ops.sum(ops.exp(row) * scale), row[:2], 5.0

    a, b, c = ft.vmap(fun)(x)
    assert (a.shape, b.shape, c.shape) == ((size,), (size, 2), (size,))
    gradients = ft.vmap(ft.grad(lambda row: fun(row)[0]))(x)
    np.testing.assert_allclose(gradients, 2 * np.exp(x))
    assert ft.vmap(lambda: 2.0, axis_size=size)().shape == (size,)
    assert ft.vmap(lambda y: y * 2, None, axis_size=size)(X).shape == (size, 3)


def test_vmap_maps_keywords_over_axis_0():
    got = ft.vmap(lambda x, *, scale: x * scale, in_axes=1)(B, scale=np.arange(4.0))
    np.testing.assert_allclose(got, (B * np.arange(4.0)).T)


def test_outputs_that_do_not_depend_on_the_example():
    fun = ft.vmap(lambda x: (x, B, 3.0), out_axes=(0, None, None))
    x, b, three = fun(X)
    assert (x.shape, b.shape, three.shape) == ((3,), (3, 4), ())
    assert all(type(out) is ft.Array for out in (x, b, three))
    assert ft.vmap(lambda x: B, out_axes=1)(X).shape == (3, 3, 4)
    with pytest.raises(AxisSizeError, match="out_axes is None for an output that depends"):
        ft.vmap(lambda x: x, out_axes=None)(X)


def test_sizes_that_disagree_are_listed_and_the_odd_one_is_marked():
    def fun(a, b, c):
        return a

    with pytest.raises(AxisSizeError) as caught:
        ft.vmap(fun, (0, {"w": 1}, None))(np.zeros((3, 2)), {"w": np.zeros((3, 4), "f")}, X)
    text = str(caught.value)
    assert "vmap of fun: the mapped axes differ in length" in text
    assert "argument 0 (a): float64[3, 2], axis 0 has length 3" in text
    assert "argument 1 (b)['w']: float32[3, 4], axis 1 has length 4" in text
    with pytest.raises(AxisSizeError) as caught:
        ft.vmap(fun)(np.zeros(3), c=np.zeros(4), b=np.zeros(3))
    marked = [line for line in str(caught.value).splitlines() if "<- differs" in line]
    assert len(marked) == 1
    assert "argument 'c': float64[4]" in marked[0]
    assert "python -m functensor.errors 10" in str(caught.value)
    with pytest.raises(AxisSizeError, match="axis_size=5   <- differs"):
        ft.vmap(fun, axis_size=5)(X, X, X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ft.vmap(lambda x: x)(2.0), r"argument 0 \(x\) is a scalar"),
        (lambda: ft.vmap(lambda x, s: x)(X, s=2.0), "argument 's' is a scalar"),
        (lambda: ft.vmap(lambda x: x, None)(X), r"no argument is mapped[\s\S]*axis_size="),
        (lambda: ft.vmap(lambda: 1.0)(), "no argument is mapped"),
    ],
)
def test_vmap_says_what_it_cannot_map(call, words):
    with pytest.raises(AxisSizeError, match=words):
        call()


def test_vmap_refuses_axes_that_are_not_there():
    with pytest.raises(ValueError, match=r"axis 2 is out of bounds .* dimension 1"):
        ft.vmap(lambda x: x, 2)(X)
    with pytest.raises(ValueError, match="axis 3 is out of bounds"):
        ft.vmap(lambda x: x, 0, 3)(B)
    with pytest.raises(TypeError, match="'text': not an array; give it the axis None"):
        ft.vmap(lambda x, s: x)(X, "text")
    assert ft.vmap(lambda x, s: x * len(s), (0, None))(X, "text").shape == (3,)


@pytest.mark.parametrize("use", [bool, float, int, lambda x: [1, 2][x], lambda x: x.item()])
def test_values_are_not_known_under_vmap_but_they_are_under_grad(use):
    number = 4 if use is bool else 5
    with pytest.raises(ConcretizationError, match=rf"under vmap\([\s\S]*errors {number}$"):
        ft.vmap(lambda x: x * use(x))(np.ones(2, int))
    with pytest.raises(ConcretizationError, match=r"under grad\(.* of vmap\("):
        ft.grad(lambda y: ops.sum(ft.vmap(lambda x: x * use(x * y))(X)))(1.0)
    if use in (bool, int):
        assert float(ft.grad(lambda x: x * x if use(x) else x)(3.0)) == 6.0


# -- errors leave nothing behind


TRANSFORMATIONS = {
    "grad": lambda f: ft.grad(f)(2.0),
    "value_and_grad": lambda f: ft.value_and_grad(f)(2.0),
    "vjp": lambda f: ft.vjp(f, 2.0),
    "jvp": lambda f: ft.jvp(f, (2.0,), (1.0,)),
    "linearize": lambda f: ft.linearize(f, 2.0),
    "jacfwd": lambda f: ft.jacfwd(f)(2.0),
    "jacrev": lambda f: ft.jacrev(f)(2.0),
    "hessian": lambda f: ft.hessian(f)(2.0),
    "vmap": lambda f: ft.vmap(f)(X),
    "make_program": lambda f: ft.make_program(f)(2.0),
    "eval_shape": lambda f: ft.eval_shape(f, 2.0),
}


@pytest.mark.parametrize("transform", TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
def test_an_exception_leaves_nothing_behind(transform):
    class Planned(Exception):
        pass

    def fails(x):
        x * x
        raise Planned

    for _ in range(3):
        with pytest.raises(Planned):
            transform(fails)
        with pytest.raises(Planned):
            ft.grad(lambda y: transform(lambda x: fails(x * y)))(1.0)
    assert float(ft.grad(lambda x: x * x)(3.0)) == 6.0
    assert type(ops.add(1.0, 2.0)) is ft.Array


@pytest.mark.parametrize("transform", TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
def test_a_tracer_that_outlives_its_transformation_says_so(transform):
    kept = []

    def leaks(x):
        kept.append(x * 2.0)
        return x * x

    transform(leaks)
    for use in (lambda t: t + 1.0, ops.sin, lambda t: t[None], ft.grad(lambda t: t * t)):
        with pytest.raises(
            EscapedTracerError, match=r"after \w+ of leaks \(.*compositions\.py:\d+\) had"
        ):
            use(kept[0])
    with pytest.raises(EscapedTracerError):
        ft.grad(lambda x: x * kept[0])(1.0)


def test_transformations_pass_for_their_function():
    def documented(x, *, scale=1.0):
        """Says what it does."""
        return x * scale

    for wrapped in (ft.grad(documented), ft.value_and_grad(documented), ft.vmap(documented)):
        assert (wrapped.__name__, wrapped.__doc__) == ("documented", "Says what it does.")
