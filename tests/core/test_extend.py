"""Primitives and foreign functions declared outside of the library."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import extend
from functensor.extend import numpy_function
from functensor.extend import registry as ops
from functensor.primitives.core.errors import MissingRuleError, RuleResultError
from functensor.testing import check_grads

A = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.3, 0.1, 1.8]])
B = np.array([1.0, -0.5, 2.0])


# -- primitives


@pytest.fixture
def gudermannian():
    yield extend.unary(
        "gudermannian",
        lambda g, x: g / ops.cosh(x),
        compute=lambda xp, x: xp.arctan(xp.sinh(x)),
    )
    ops.remove("gudermannian")


def test_a_primitive_of_ones_own_knows_every_transformation(gudermannian):
    check_grads(gudermannian, (B,), order=3)
    np.testing.assert_allclose(ft.vmap(ft.grad(gudermannian))(B), 1 / np.cosh(B))
    assert "gudermannian(a)" in str(ft.make_program(gudermannian)(B))
    t = ft.Tensor(B, requires_grad=True)
    gudermannian(t).sum().backward()
    np.testing.assert_allclose(t.grad, 1 / np.cosh(B))
    with pytest.raises(ValueError, match="'gudermannian' exists already"):
        extend.unary("gudermannian", compute="sinh")


def test_families_are_there_by_name():
    spread = extend.reduction(
        "spread",
        lambda g, x, *, axis, keepdims: ops.multiply(x, 0) + 1,
        compute=lambda xp, x, axis, keepdims: xp.sum(x, axis=axis, keepdims=keepdims),
    )
    try:
        np.testing.assert_allclose(ft.grad(spread)(B), np.ones(3))
        np.testing.assert_allclose(ft.vmap(spread)(A), A.sum(1))
    finally:
        ops.remove("spread")
    assert {"binary", "elementwise", "linear", "structural", "along", "Primitive"} <= {
        *extend.__all__
    }


# -- functions that only know plain NumPy arrays


def strict(fun):
    """Returns a function that takes nothing but plain NumPy arrays."""

    def checked(*arrays, **static):
        leaves = [a for x in arrays for a in (x if isinstance(x, tuple) else (x,))]
        assert all(type(a) is np.ndarray for a in leaves), leaves
        return fun(*arrays, **static)

    return checked


def cotangents(g, ans, a, b):
    y = np.linalg.solve(a.T, g)
    return -np.outer(y, ans), y


def tangent(ts, ans, a, b):
    return np.linalg.solve(a, ts[1] - ts[0] @ ans)


@pytest.fixture
def solve():
    return numpy_function(
        strict(np.linalg.solve),
        numpy_vjp=strict(cotangents),
        numpy_jvp=tangent,
        vmap="sequential",
    )


def test_plain_rules_serve_every_transformation(solve):
    check_grads(solve, (A, B), order=1)
    np.testing.assert_allclose(ft.jacrev(solve)(A, B), ft.jacfwd(solve)(A, B), atol=1e-12)
    many = np.stack([B, 2 * B])

    def total(a):
        return fnp.sum(ft.vmap(solve, in_axes=(None, 0))(a, many))

    wanted = ft.grad(lambda a: fnp.sum(fnp.linalg.solve(a, many.T)))(A)
    np.testing.assert_allclose(ft.grad(total)(A), wanted, atol=1e-12)
    rows = ft.vmap(ft.grad(lambda a, b: fnp.sum(solve(a, b))), in_axes=(None, 0))(A, many)
    np.testing.assert_allclose(fnp.sum(rows, axis=0), wanted, atol=1e-12)
    program = ft.make_program(ft.grad(lambda a: fnp.sum(solve(a, B))))(A)
    np.testing.assert_allclose(program(A), ft.grad(lambda a: fnp.sum(solve(a, B)))(A))
    assert ft.eval_shape(solve, A, B).shape == (3,)
    t = ft.Tensor(A, requires_grad=True)
    solve(t, B).sum().backward()
    np.testing.assert_allclose(t.grad, program(A))


def test_a_loop_runs_for_every_example_and_a_vectorised_function_once():
    calls = []

    def fun(x, y):
        calls.append((x.shape, y.shape))
        return np.sin(x) * y

    batch = np.stack([B, B, B, B])
    looped = numpy_function(strict(fun), vmap="sequential")
    wanted = np.sin(batch) * 2.0
    np.testing.assert_allclose(ft.vmap(looped, in_axes=(0, None))(batch, 2.0), wanted)
    assert calls == [((3,), ())] * 4
    calls.clear()
    at_once = numpy_function(lambda x, y: fun(x, y[..., None]), vmap="vectorized")
    np.testing.assert_allclose(ft.vmap(at_once, in_axes=(0, None))(batch, 2.0), wanted)
    assert calls == [((4, 3), (4, 1))]
    twice = ft.vmap(ft.vmap(at_once, in_axes=(0, None)), in_axes=(None, 0))
    assert twice(batch, np.ones(2)).shape == (2, 4, 3)
    for f in (looped, at_once):
        assert ft.vmap(f, in_axes=(0, None))(np.ones((0, 3)), 2.0).shape == (0, 3)


RULES = {
    "vjp": {"vjp": lambda g, ans, x, y: (g * fnp.cos(x) * y, g * fnp.sin(x))},
    "jvp": {"jvp": lambda ts, ans, x, y: ts[0] * fnp.cos(x) * y + ts[1] * fnp.sin(x)},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_rules_of_arrays_have_derivatives_of_any_order_in_both_modes(rules):
    f = numpy_function(strict(lambda x, y: np.sin(x) * y), vmap="vectorized", **rules)
    check_grads(f, (B, B + 1), order=3)
    check_grads(ft.vmap(f), (A, A), order=2)
    for dtype in ("float32", "float64"):
        x = B.astype(dtype)
        assert ft.grad(lambda x: f(x, x).sum())(x).dtype == dtype
    assert f([0.5, 1.0], (1, 2)).shape == (2,)


def test_several_outputs_and_static_arguments():
    def parts(x, n, *, scale=1.0):
        return np.sin(x) * scale, np.asarray(x.sum(-1) * n), np.argsort(x)

    f = numpy_function(
        strict(parts),
        vmap="sequential",
        vjp=lambda g, ans, x, n, scale=1.0: (g[0] * fnp.cos(x) * scale + g[1] * n, None),
    )
    waves, total, order = f(B, 3, scale=2.0)
    np.testing.assert_allclose(waves, 2 * np.sin(B))
    assert (float(total), order.tolist(), order.dtype) == (7.5, [1, 0, 2], np.int64)
    check_grads(lambda x: f(x, 3, scale=2.0)[:2], (B,), order=2)
    shapes = [out.shape for out in ft.vmap(lambda x: f(x, 3))(A)]
    assert shapes == [(3, 3), (3,), (3, 3)]
    plain = numpy_function(
        parts,
        numpy_vjp=lambda g, ans, x, n: (g[0] * np.cos(x) + g[1] * n, None),
        numpy_jvp=lambda ts, ans, x, n: (ts[0] * np.cos(x), ts[0].sum() * n, None),
    )
    check_grads(lambda x: plain(x, 3)[:2], (B,), order=1)
    big = numpy_function(lambda x: (x, np.array([2**60 + 1])))
    with pytest.raises(RuleResultError, match="integers that float64, in which all outputs"):
        big(B)


def test_complex_numbers():
    f = numpy_function(
        lambda z: z * z,
        numpy_vjp=lambda g, ans, z: 2 * g * z,
        numpy_jvp=lambda ts, ans, z: 2 * z * ts[0],
    )
    check_grads(f, (B + 1j * B[::-1],), order=1)
    real = numpy_function(lambda x: x + 2j, numpy_vjp=lambda g, ans, x: g)
    assert ft.grad(lambda x: fnp.real(real(x) * 1j))(1.0).dtype == np.float64


def test_the_result_is_declared_where_no_call_can_tell():
    def root(a):
        if a[0, 1] != a[1, 0]:
            raise ValueError("not symmetric")
        return np.linalg.cholesky(a)

    symmetric = A + A.T + 3 * np.eye(3)
    found = numpy_function(root)
    with pytest.raises(MissingRuleError, match=r"ValueError: not symmetric(?s:.)*result=ft\.Shape"):
        ft.make_program(found)(symmetric)
    for result in (ft.ShapeDtype((3, 3), "float64"), lambda a: a):
        declared = numpy_function(root, result=result)
        program = ft.make_program(declared)(symmetric)
        np.testing.assert_allclose(program(symmetric), np.linalg.cholesky(symmetric))
    wrong = numpy_function(root, result=ft.ShapeDtype((3,), "float64"))
    with pytest.raises(RuleResultError, match=r"returned float64\[3,3\], expected float64\[3\]"):
        wrong(symmetric)


def test_arrays_are_protected_from_the_function():
    reused = np.zeros(3)

    def writes(x):
        x[0] = 1.0
        return x

    def reuses(x):
        reused[:] = x
        return reused

    with pytest.raises(ValueError, match="read-only"):
        numpy_function(writes)(B)
    f = numpy_function(reuses)
    first = f(B)
    f(2 * B)
    np.testing.assert_array_equal(first, B)


# -- what is missing or wrong


def sine(x):
    return np.sin(x)


BARE = numpy_function(sine)
REVERSE = numpy_function(sine, numpy_vjp=lambda g, ans, x: g * np.cos(x))
FORWARD = numpy_function(sine, numpy_jvp=lambda ts, ans, x: ts[0] * np.cos(x))
MISSING = {
    "vjp": (lambda: ft.grad(BARE)(1.0), "'sine'.* has no vjp(?s:.)*numpy_vjp=lambda g, ans"),
    "jvp": (lambda: ft.jvp(BARE, (1.0,), (1.0,)), "has no jvp(?s:.)*numpy_jvp=lambda ts, ans"),
    "batch": (lambda: ft.vmap(BARE)(B), "no batching rule(?s:.)*vmap='sequential'"),
    "other mode": (lambda: ft.jvp(REVERSE, (1.0,), (1.0,)), "has no jvp"),
    "the other": (lambda: ft.grad(FORWARD)(1.0), "has no vjp"),
    "order two": (
        lambda: ft.grad(ft.grad(REVERSE))(1.0),
        "'numpy_vjp of sine', .* has no vjp(?s:.)*vjp= or jvp= made of functensor.numpy",
    ),
    "rows": (lambda: ft.jacrev(REVERSE)(B), "'numpy_vjp of sine', .* has no batching rule"),
}


@pytest.mark.parametrize(("call", "words"), MISSING.values(), ids=MISSING)
def test_a_missing_rule_is_named_with_what_to_write(call, words):
    with pytest.raises(MissingRuleError, match=words) as e:
        call()
    assert "test_extend.py:" in str(e.value)
    assert "functensor.errors 8" in str(e.value)


WRONG = {
    "strings": (numpy_function(lambda x: "a"), "returned dtype <U1"),
    "count": (
        numpy_function(sine, numpy_vjp=lambda g, ans, x: (g, g)),
        "'sine' has a numpy_vjp of sine that returned 2 for 1",
    ),
    "shape": (
        numpy_function(sine, vjp=lambda g, ans, x: fnp.ones((2, 2))),
        r"'sine' has a vjp that returned shape \(2, 2\) for float64\[3\]",
    ),
}


@pytest.mark.parametrize(("f", "words"), WRONG.values(), ids=WRONG)
def test_what_a_function_or_rule_returns_is_checked(f, words):
    with pytest.raises(RuleResultError, match=words) as e:
        ft.vjp(f, B)[1](fnp.ones(3))
    assert "functensor.errors 9" in str(e.value)


def test_a_batch_is_checked():
    scalar = numpy_function(lambda x: x.sum(), vmap="vectorized")
    with pytest.raises(RuleResultError, match=r"returned shape \(\) for a batch of shape \(3,\)"):
        ft.vmap(scalar)(A)
    ragged = numpy_function(lambda x: np.nonzero(x)[0], vmap="sequential")
    with pytest.raises(RuleResultError, match=r"returned int64\[2\], expected int64\[1\]"):
        ft.vmap(ragged)(np.array([[1, 0], [1, 1]]))


def test_the_decorator_and_its_options():
    @numpy_function(vmap="vectorized", vjp=lambda g, ans, x: 2 * g * x)
    def square(x):
        """Squares."""
        return x * x

    assert (square.__name__, square.__doc__, repr(square)) == (
        "square",
        "Squares.",
        "<numpy_function square>",
    )
    assert ft.grad(square)(3.0) == 6.0
    with pytest.raises(ValueError, match="vmap='loop'"):
        numpy_function(sine, vmap="loop")
    with pytest.raises(ValueError, match="vjp and numpy_vjp are the same rule"):
        numpy_function(sine, vjp=sine, numpy_vjp=sine)


# -- arrays that the function may write to


def in_place(x, y):
    """Computes as compiled code does that takes typed arrays only."""
    assert x.flags.writeable
    assert x.flags.c_contiguous
    x *= y
    return x


def in_place_vjp(g, ans, x, y):
    g *= 1.0
    x *= g
    y *= g
    return y, x


def test_a_function_may_write_to_what_it_is_given():
    written = numpy_function(
        in_place, numpy_vjp=in_place_vjp, vmap="vectorized", writable=True
    )
    x, y = fnp.asarray([[1.0, 2.0, 3.0]] * 2).T, fnp.asarray([[3.0, 4.0]] * 3)
    before = np.array(x), np.array(y)
    wanted = before[0] * before[1]
    for f in (written, ft.jit(written), ft.vmap(written)):
        np.testing.assert_array_equal(f(x, y), fnp.asarray(wanted))
    for by_x in (ft.grad(lambda x: fnp.sum(written(x, y))), ft.jit(ft.grad(loss_of(written, y)))):
        np.testing.assert_array_equal(by_x(x), y)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])


def loss_of(f, y):
    return lambda x: fnp.sum(f(x, y))


def test_a_numpy_array_of_the_callers_is_left_alone():
    buffer = np.ones(3)
    numpy_function(in_place, writable=True)(buffer, buffer)
    assert buffer.tolist() == [1, 1, 1]


def test_the_decorator_takes_the_option():
    @numpy_function(writable=True)
    def doubled(x):
        x *= 2
        return x

    assert doubled(fnp.ones(2)).tolist() == [2, 2]
