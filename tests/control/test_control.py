"""Control flow: what loops and branches return for every kind of value, plainly and in programs."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as np
from functensor import random
from functensor.primitives.core.trace import slot

X = numpy.array([0.5, 1.0, 2.0])
SINGLE = numpy.arange(3, dtype=numpy.float32)


def staged(f):
    return lambda *args: ft.make_program(f)(*args)(*args)


FORMS = {"plain": lambda f: f, "staged": staged, "jit": ft.jit}

pytestmark = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def same(got, wanted):
    """Asserts that trees are equal to the last bit, dtypes too."""
    assert ft.tree.structure(got) == ft.tree.structure(wanted)
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert isinstance(a, ft.Array)
        assert a.dtype == numpy.asarray(b).dtype
        numpy.testing.assert_array_equal(numpy.asarray(a), b)


# -- values


def test_a_weak_carry_takes_the_dtype_that_comes_out(form):
    def f(x):
        return ft.scan(lambda c, x: (c + x, np.multiply(c, 2)), 0, x)

    same(form(f)(SINGLE), (numpy.float32(3), numpy.array([0, 0, 2], numpy.float32)))
    same(form(f)(numpy.arange(3)), (numpy.int64(3), numpy.array([0, 0, 2])))


def test_a_counter_decides_no_promotion(form):
    def f(x):
        return ft.fori_loop(0, 3, lambda i, c: c * 2 + i, x)

    same(form(f)(SINGLE), SINGLE * 8 + 4)
    traced = form(lambda x, n: ft.fori_loop(0, n, lambda i, c: c * 2 + i, x))
    same(traced(SINGLE, 3), SINGLE * 8 + 4)
    typed = form(lambda x: ft.fori_loop(numpy.int32(0), 3, lambda i, c: c + i, x))
    same(typed(numpy.int32(4)), numpy.int32(7))


def test_an_empty_range_returns_the_initial_value(form):
    for lower, upper in ((0, 0), (3, 1)):
        same(form(lambda x: ft.fori_loop(lower, upper, lambda i, c: c * 2, x))(X), X)  # noqa: B023
    same(form(lambda x: ft.while_loop(lambda c: c[0] > 1, lambda c: c * 2, x))(X), X)
    same(form(lambda x: ft.while_loop(lambda c: c[0] < 99, lambda c: c * 2, x, max_steps=0))(X), X)


def test_max_steps_ends_a_loop(form):
    f = form(lambda n: ft.while_loop(lambda n: n < 100, lambda n: n * n, n, max_steps=2))
    same(f(numpy.int64(2)), numpy.int64(16))
    same(f(numpy.int64(11)), numpy.int64(121))


def test_a_scan_of_no_slices(form):
    def f(x):
        return ft.scan(lambda c, x: (c + np.sum(x), {"twice": x * 2, "c": c}), 0.0, x)

    wanted = (numpy.float32(0), {"twice": numpy.zeros((0, 3), "f4"), "c": numpy.zeros(0, "f4")})
    same(form(f)(numpy.zeros((0, 3), numpy.float32)), wanted)
    grad = ft.grad(lambda c, x: ft.scan(lambda c, x: (c * x[0], None), c, x)[0], (0, 1))
    same(form(grad)(2.0, numpy.zeros((0, 3))), (numpy.float64(1), numpy.zeros((0, 3))))


def test_a_scan_without_arrays(form):
    same(form(lambda x: ft.scan(lambda c, _: (c * 2, None), x, length=3))(X), (X * 8, None))
    same(form(lambda x: ft.scan(lambda c, _: ((), ()), (), None, 2))(X), ((), ()))


def test_reverse_keeps_results_beside_their_slices(form):
    f = form(lambda x: ft.scan(lambda c, x: (c + x, c), 0.0, x, reverse=True))
    same(f(X), (numpy.float64(3.5), numpy.array([3.0, 2.0, 0.0])))


@pytest.mark.parametrize("unroll", [1, 2, 3, True])
def test_unrolling_changes_no_result(form, unroll):
    f = form(lambda x: ft.scan(lambda c, x: (c + x, c), 0.0, x, unroll=unroll))
    same(f(X), (numpy.float64(3.5), numpy.array([0.0, 0.5, 1.5])))
    g = form(lambda x: ft.fori_loop(0, 3, lambda i, c: c + i, x, unroll=unroll))
    same(g(X), X + 3)


def test_what_is_stacked_may_be_the_same_in_every_step(form):
    def f(x):
        c, (ones, three) = ft.scan(lambda c, s: (np.sin(c * s), (np.ones(2), 3.0)), 1.0, x)
        return c + np.sum(ones) * x[0] + three[1]

    c = 1.0
    slopes = []
    for s in X:
        slopes = [d * s * numpy.cos(c * s) for d in slopes] + [c * numpy.cos(c * s)]
        c = numpy.sin(c * s)
    numpy.testing.assert_allclose(form(ft.grad(f))(X), numpy.add(slopes, [6, 0, 0]))


def test_booleans_and_complex_numbers_are_carried(form):
    f = form(lambda x: ft.scan(lambda c, x: (np.logical_xor(c, x > 0.7), c), False, x))
    same(f(X), (numpy.bool_(False), numpy.array([False, False, True])))

    def g(x):
        return np.abs(ft.scan(lambda c, x: (c * x * 1j, c), 1 + 0j, x)[0])

    numpy.testing.assert_allclose(form(ft.grad(g))(X), [2, 1, 0.5])


def test_keys_are_carried(form):
    def body(key, _):
        key, other = random.split(key)
        return key, random.normal(other, (2,))

    key, wanted = random.key(3), []
    for _ in range(3):
        key, row = body(key, None)
        wanted.append(row)
    got_key, got = form(lambda key: ft.scan(body, key, None, 3))(random.key(3))
    same(got_key, key)
    numpy.testing.assert_allclose(got, numpy.stack(wanted), rtol=1e-15)


def test_results_share_no_memory_with_arguments(form):
    x = X.copy()
    c, ys = form(lambda x: ft.scan(lambda c, _: (c, c), x, None, length=3))(x)
    x[:] = 7
    if form is ft.jit:
        same(c, X)
    same(ys, numpy.stack([X] * 3))


def test_switch_takes_the_nearest_branch(form):
    f = form(lambda i: ft.switch(i, [lambda: 1.0, lambda: 2.0, lambda: 3.0]))
    assert [float(f(i)) for i in (-4, 0, 1, 2, 9)] == [1, 1, 2, 3, 3]
    same(form(lambda x: ft.switch(7, [np.sin], x))(X), numpy.sin(X))
    g = form(lambda i: ft.vmap(lambda i: ft.switch(i, [lambda: 1.0, lambda: 2.0]))(i))
    same(g(numpy.array([-1, 0, 1, 5])), numpy.array([1.0, 1, 2, 2]))


def test_a_condition_may_be_a_number(form):
    f = form(lambda x: ft.cond(x, lambda: 1.0, lambda: 2.0))
    assert [float(f(x)) for x in (0, 3, 0.0, -0.5, True, False)] == [2, 1, 2, 1, 1, 2]


def test_weak_results_of_branches_take_the_dtype_of_the_others(form):
    f = form(lambda x: ft.cond(x[0] > -1, lambda: x[1], lambda: 1.0))
    same(f(SINGLE), numpy.float32(1))
    if form is not FORMS["plain"]:
        g = form(lambda x: ft.cond(x[0] > 5, lambda: x[1], lambda: 1))
        same(g(SINGLE), numpy.float32(1))


def test_only_the_branch_that_is_taken_runs(form):
    def endless(x):
        return ft.while_loop(lambda y: y > 0, lambda y: y * 1, x)

    f = form(lambda x, p: ft.cond(p, lambda: endless(x), lambda: x))
    assert float(f(2.0, False)) == 2.0


def test_a_loop_under_vmap_ends_with_its_last_example(form):
    def f(n, x):
        return ft.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * s[0] + 1), (0, x))

    counts = numpy.array([0, 1, 3])
    steps, rows = form(ft.vmap(f, (0, None)))(counts, SINGLE)
    same(steps, counts)
    same(rows, numpy.stack([SINGLE, SINGLE * 0 + 1, SINGLE * 0 + 5]))
    g = form(ft.vmap(lambda n: ft.fori_loop(0, n, lambda i, c: c * 2 + i, SINGLE)))
    same(g(counts), numpy.stack([SINGLE, SINGLE * 2, SINGLE * 8 + 4]))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_branches_not_taken_bring_no_nan_into_derivatives(form):
    def root(x):
        return ft.cond(x > 0, np.sqrt, lambda x: x * 0.0, x)

    xs = numpy.array([-1.0, 0.0, 4.0])
    same(form(ft.grad(lambda x: np.sum(ft.vmap(root)(x))))(xs), numpy.array([0, 0, 0.25]))

    def falling(x):
        return ft.while_loop(lambda x: x > 1.5, lambda x: np.sqrt(x - 1.5) + 1, x, max_steps=5)

    found = form(ft.grad(lambda x: np.sum(ft.vmap(falling)(x))))(numpy.array([1.0, 3.0]))
    wanted = [float(ft.grad(falling)(x)) for x in (1.0, 3.0)]
    numpy.testing.assert_allclose(found, wanted)


def test_examples_speak_of_each_other_within_loops(form):
    def f(x):
        def body(c, _):
            return c + ft.psum(c * x, "i") + ft.axis_index("i"), None

        return ft.scan(body, x, None, length=2)[0]

    wanted, index = X, numpy.arange(3)
    for _ in range(2):
        wanted = wanted + numpy.sum(wanted * X) + index
    numpy.testing.assert_allclose(form(ft.vmap(f, axis_name="i"))(X), wanted)


def test_checkpoints_in_loops_and_loops_in_checkpoints(form):
    def plain(x):
        return ft.scan(lambda c, xi: (np.sin(c * xi) * x[0], None), 1.0, x)[0]

    def inside(x):
        def body(c, xi):
            return ft.checkpoint(lambda c: np.sin(c * xi) * x[0])(c), None

        return ft.scan(body, 1.0, x)[0]

    wanted = numpy.asarray(ft.grad(plain)(X))
    numpy.testing.assert_allclose(form(ft.grad(inside))(X), wanted)
    numpy.testing.assert_allclose(form(ft.grad(ft.checkpoint(plain)))(X), wanted)


def test_functions_with_rules_of_their_own_in_loops(form):
    @ft.custom_vjp
    def odd(x):
        return x * x

    odd.defvjp(lambda x: (x * x, x), lambda x, g: (3 * x * g,))
    f = form(ft.grad(lambda x: ft.scan(lambda c, _: (odd(c), None), x, None, length=2)[0]))
    assert float(f(1.5)) == pytest.approx(3 * 1.5**2 * 3 * 1.5)


def test_a_body_is_free_of_what_an_exception_leaves(form):
    def broken(c, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        form(lambda x: ft.scan(broken, 0.0, x))(X)
    with pytest.raises(KeyError, match="mine"):
        form(lambda x: ft.cond(x[0] > 0, broken, lambda *_: x, x, x))(X)
    assert slot.trace is None
    assert slot.running is None
    same(form(lambda x: ft.scan(lambda c, x: (c + x, None), 0.0, x)[0])(X), numpy.float64(3.5))


def test_errors_of_values_are_raised(form):
    # Of a condition that always holds, all steps are run.
    f = form(lambda x, i: ft.scan(lambda c, i: (c + x[i], None), 0.0, i)[0])
    assert float(f(X, numpy.array([0, 2]))) == 2.5
    with pytest.raises(IndexError, match="out of bounds"):
        f(X, numpy.array([0, 3]))


def test_nothing_is_differentiated_that_has_no_derivative(form):
    def f(x):
        count = ft.while_loop(lambda n: n < 10, lambda n: n + np.astype(x[2], int), 1)
        return x[0] * count

    same(form(ft.grad(f))(X), numpy.array([11.0, 0, 0]))


def test_hooks_see_what_happens_inside(form):
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, out: seen.append(op.name))
    program = ft.make_program(
        lambda x: (
            ft.scan(lambda c, x: (np.sin(c * x), None), 1.0, x)[0],
            ft.cond(x[0] > 0, np.exp, np.cos, x),
            ft.while_loop(lambda c: c < 3, lambda c: c + 1, x[0]),
        )
    )(X)
    with ft.hooks.use(hook):
        program(X)
    assert seen.count("sin") == 3
    assert seen.count("exp") == 1
    assert "cos" not in seen
    assert seen.count("less") == 4
    assert "scan" not in seen


class Doubled(ft.hooks.Hook):
    """Doubles the cotangents of what it watches."""

    def backward(self, op, grad_inputs, grad_output):
        return [None if g is None else g * 2 for g in grad_inputs]


def test_hooks_on_the_way_back(form):
    def f(x):
        return ft.scan(lambda c, x: (c * x, None), 1.0, x)[0]

    with ft.hooks.use(Doubled(), match="multiply"):
        # The last factor's cotangent passes one product, the first one's all three.
        wanted = numpy.array([8.0, 4, 2]) / X
        numpy.testing.assert_allclose(ft.grad(f)(X), wanted)
        numpy.testing.assert_allclose(ft.grad(ft.make_program(f)(X))(X), wanted)

    def watched(x):
        with ft.hooks.use(Doubled(), match="multiply"):
            return ft.grad(f)(x)

    numpy.testing.assert_allclose(form(watched)(X), wanted)


def test_tensors_are_carried(form):
    x = ft.tensor(X, requires_grad=True)
    out, _ = ft.scan(lambda c, xi: (c * xi, None), 1.0, x)
    out.backward()
    numpy.testing.assert_allclose(numpy.asarray(x.grad), 1 / X)
    y = ft.tensor(X, requires_grad=True)
    total = ft.while_loop(lambda c: c < 30.0, lambda c: c * y[2], y[1])
    total.backward()
    numpy.testing.assert_allclose(numpy.asarray(y.grad), [0, 32, 80])


# -- associative_scan


@given(st.integers(0, 40), st.booleans(), st.integers(0, 1))
def test_prefixes_of_an_operation_that_does_not_commute(form, length, reverse, axis):
    matrices = numpy.random.default_rng(length).normal(size=(length, 3, 2, 2))
    elems = numpy.moveaxis(matrices, 0, axis)

    def f(x):
        return ft.associative_scan(lambda a, b: a @ b, x, reverse=reverse, axis=axis)

    if form is FORMS["jit"]:
        f = staged(f)
    got = numpy.moveaxis(numpy.asarray(f(elems)), axis, 0)
    wanted, total = [], None
    for m in matrices[::-1] if reverse else matrices:
        total = m if total is None else total @ m
        wanted.append(total)
    if reverse:
        wanted.reverse()
    assert got.shape == matrices.shape
    for a, b in zip(got, wanted, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


# -- shapes


@given(
    st.integers(0, 5),
    st.lists(st.sampled_from([(), (1,), (2, 3), (0,)]), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_scans_of_trees_are_loops_in_python(form, length, shapes, reverse, carries):
    rng = numpy.random.default_rng(length)
    xs = {str(i): rng.normal(size=(length, *shape)) for i, shape in enumerate(shapes)}
    init = [rng.normal(size=shape) for shape in shapes] if carries else []

    def body(c, x):
        rows = [np.sin(x[str(i)]) + (c[i] if carries else 0) for i in range(len(shapes))]
        return [r * 2 for r in rows] if carries else [], (rows, {"sum": np.sum(rows[0])})

    def f(init, xs):
        return ft.scan(body, init, xs, reverse=reverse)

    c, rows = init, []
    for t in reversed(range(length)) if reverse else range(length):
        c, y = body(c, {k: v[t] for k, v in xs.items()})
        rows.append(y)
    if reverse:
        rows.reverse()
    got_c, got = (staged(f) if form is not FORMS["plain"] else f)(init, xs)
    for a, b in zip(ft.tree.leaves(got_c), ft.tree.leaves(c), strict=True):
        numpy.testing.assert_allclose(a, b)
    for i, leaf in enumerate(ft.tree.leaves(got)):
        assert leaf.shape[0] == length
        for t, y in enumerate(rows):
            numpy.testing.assert_allclose(leaf[t], ft.tree.leaves(y)[i])
