"""Loops as machine code give what they give eagerly, with no Python between their steps."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import RNN, assert_same, compiled, drawn, loops_of, recurrent

import functensor as ft
import functensor.numpy as fnp

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
DTYPES = ["f2", "f4", "f8", "c8", "c16", "i1", "u2", "i4", "i8", "?"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scans(dtype, shape, reverse):
    init, xs = drawn(shape, dtype), drawn((7, *shape), dtype, 1)

    def step(carry, x):
        if dtype == "?":
            new = carry ^ x
            return new, (carry & x, new)
        new = carry * x - carry if dtype[0] in "fc" else carry + x * 3
        return new, (carry, new + x)

    def f(init, xs):
        return ft.scan(step, init, xs, reverse=reverse)

    # Floats of 16 bits round to 3 digits in each of seven steps, in another order than NumPy's.
    assert_same(compiled(f, init, xs)(init, xs), f(init, xs), 1e-2 if dtype == "f2" else None)


@pytest.mark.parametrize("size", [1, 2, 7, 40])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_in_a_step(size, dtype):
    args = drawn((size,), dtype), drawn((size, size), dtype, 1) / size, drawn((9, size), dtype, 2)
    assert_same(compiled(recurrent, *args)(*args), recurrent(*args))


@pytest.mark.parametrize("length", [0, 1, 2])
def test_few_steps(length):
    args = np.ones(3), np.eye(3), np.ones((length, 3))
    assert_same(compiled(recurrent, *args)(*args), recurrent(*args))
    add = compiled(lambda n: ft.fori_loop(0, length, lambda i, x: x + i, n), 2.0)
    assert float(add(2.0)) == 2.0 + sum(range(length))


def test_steps_without_slices():
    def f(x):
        return ft.scan(lambda c, _: (c * 0.5 + 1, c), x, None, length=6)

    assert_same(compiled(f, np.ones(4))(np.ones(4)), f(np.ones(4)))


def test_carries_that_change_places():
    def step(carry, x):
        first, (second, count), same = carry
        return (second, (first + second, count + 1), same), (first, count, same, 1.0, x)

    args = np.ones(2), (np.ones(2), 0), np.arange(3.0)
    xs = np.arange(10).reshape(5, 2)

    def f(*carry):
        return ft.scan(step, carry, xs)

    assert_same(compiled(f, *args)(*args), f(*args))


def test_carries_that_become_constants():
    def step(carry, x):
        return (0.5, fnp.zeros(3), x), (carry, fnp.ones(2), True)

    args = (1.0, np.arange(3.0), 7.0), np.arange(4.0)

    def f(carry, xs):
        return ft.scan(step, carry, xs)

    assert_same(compiled(f, *args)(*args), f(*args))


def test_a_carry_that_is_a_part_of_another():
    def step(carry, x):
        a, b = carry
        return (fnp.concatenate([b, a[:2]]), a[1:3] * x), (a[::2], fnp.stack([b, b], axis=1))

    args = (np.arange(4.0), np.ones(2)), np.arange(1.0, 5.0)

    def f(carry, xs):
        return ft.scan(step, carry, xs)

    assert_same(compiled(f, *args)(*args), f(*args))


def test_views_and_broadcasts_in_a_step():
    def step(c, x):
        wide = fnp.broadcast_to(fnp.sum(c), (3, 2))
        turned = fnp.reshape(c.T, (6,))
        return c + x.T @ (wide * c), (c.T, fnp.reshape(c, (6,)), turned, wide, c[1, 1])

    args = drawn((3, 2), "f8"), drawn((4, 3, 3), "f8", 1) / 8

    def f(c, xs):
        return ft.scan(step, c, xs)

    assert_same(compiled(f, *args)(*args), f(*args))


def newton(x, wanted):
    def step(state):
        x, n = state
        return x - (x**3 - wanted) / (3 * x * x), n + 1

    return ft.while_loop(
        lambda s: (fnp.abs(s[0] ** 3 - wanted) > 1e-9) & (s[1] < 100), step, (x, 0)
    )


def test_while_loops():
    f = compiled(newton, 50.0, 7.0)
    for x, wanted in [(50.0, 7.0), (2.0, 8.0), (1.0, 1.0), (1e-30, 3.0), (np.nan, 1.0)]:
        assert_same(f(x, wanted), newton(x, wanted))


def test_conditions_of_several_kinds():
    def f(x):
        def go(s):
            return s[1]

        def step(s):
            y = s[0] * 0.5
            return y, fnp.max(y) > 0.1, s[2] + fnp.any(s[0] > 1)

        return ft.while_loop(go, step, (x, fnp.max(x) > 0, 0))

    x = np.arange(5.0)
    assert_same(compiled(f, x)(x), f(x))
    assert_same(ft.jit(f)(-x), f(-x))


def test_fori_loops():
    a, x = drawn((6, 6), "f8"), np.ones(6)

    def power(a, x):
        def step(i, v):
            u = a @ v
            return u / fnp.sqrt(fnp.sum(u * u)) + 0.0 * i

        return ft.fori_loop(0, 30, step, x)

    assert_same(compiled(power, a, x)(a, x), power(a, x), 1e-9)

    def counted(n, m):
        return ft.fori_loop(n, m, lambda i, s: s + 1.0 / (i + 1), 0.0)

    f = compiled(counted, 2, 9)
    for n, m in [(2, 9), (5, 5), (7, 3), (-1, -1)]:
        assert_same(f(n, m), counted(n, m))


def test_maps():
    xs = drawn((8, 5), "f4")

    def f(xs):
        return ft.control.map(lambda x: (nn_like(x), fnp.sum(x)), xs)

    def nn_like(x):
        return fnp.exp(x) / (1 + fnp.exp(x))

    assert_same(compiled(f, xs)(xs), f(xs))


def test_nested_loops():
    def f(x, xs):
        def outer(c, x):
            def inner(s):
                return s[0] * 0.5 + x, s[1] + 1

            y, n = ft.while_loop(lambda s: (fnp.max(s[0]) > x + 2) & (s[1] < 20), inner, (c, 0))
            z = ft.scan(lambda c, i: (c + i, c), 0.0, y)
            return y + 8, (n, z)

        return ft.scan(outer, x, xs)

    args = np.array([9.0, 3.0, 70.0]), np.array([0.5, 1.0, 0.0, 2.0])
    assert_same(compiled(f, *args)(*args), f(*args))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), ()])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0), (1, 1)])
def test_whether_any_or_all_elements_hold(shape, axis):
    x = np.resize([0.0, np.nan, -0.0, 5.0, 0.0], shape)
    for y in (x, x > 1, x.astype("f2"), np.nan_to_num(x).astype("i8"), np.ones(shape)):

        def f(y):
            more = fnp.any(y, axis=axis, keepdims=True) & fnp.all(y + y, axis=axis, keepdims=True)
            return more, fnp.any(y, axis=axis), fnp.all(y, axis=axis)

        assert_same(ft.jit(f).compile(y)(y), f(y))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "i8"])
def test_clipped_integers(dtype):
    xs = np.array([[0, 1, 120], [3, 7, 90], [5, 5, 5]], dtype)

    def f(xs):
        return ft.scan(lambda c, x: (fnp.clip(c + x, 2, x), c), xs[0], xs)

    assert_same(compiled(f, xs)(xs), f(xs))


def test_choices_in_a_step():
    def step(c, x):
        y = ft.cond(x > 0, lambda c: c * x, lambda c: c, c)
        places = [lambda c: c + 1, lambda c: fnp.partition(c, 1), lambda c: fnp.sum(c) * c]
        z = ft.switch(fnp.astype(x, int), places, y)
        return z, (y, fnp.astype(x, int))

    args = np.array([1.0, -0.5, 2.0]), np.array([-3.0, -0.5, 0.5, 1.0, 2.0, 9.0])

    def f(c, xs):
        return ft.scan(step, c, xs)

    # Machine code has no partitions.
    jitted = ft.jit(f).compile(*args)
    assert loops_of(jitted) == (0, 1)
    assert_same(jitted(*args), f(*args))
    numbers = args[1].astype(int)

    def g(c, xs, numbers):
        def step(c, given):
            x, number = given
            y = ft.cond(x > 0, lambda c: (c * x, x), lambda c: (c, 0.0), c)
            branches = [lambda c: c + 1, lambda c: c @ np.eye(3), lambda c: fnp.sum(c) * c]
            z = ft.switch(number, branches, y[0])
            return z, (y, ft.cond(number > 1, lambda c: newton(c, 5.0)[0], lambda c: c, x))

        return ft.scan(step, c, (xs, numbers))

    args = *args, numbers
    assert_same(compiled(g, *args)(*args), g(*args))


# -- elements at computed numbers


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4", "i8"])
def test_reads_and_updates_of_elements(dtype):
    x = drawn((6,), dtype)

    def f(x, n):
        def step(i, s):
            x, t = s
            x = x.at[i].set(x[i - 1] * 2 + t[0]).at[-i].add(3)
            return x, t.at[0].add(x[i])

        return ft.fori_loop(1, n, step, (x, x[:2]))

    before = x.copy()
    assert_same(compiled(f, x, 6)(x, 6), f(x, 6))
    np.testing.assert_array_equal(x, before)


def test_rows_and_parts_of_arrays():
    m, places = drawn((4, 3, 2), "f8"), np.array([0, -1, 2, 1, -4])

    def f(m, places):
        def step(m, i):
            row = m[i] + m[2 - i // 5, :, None, 1]
            m = m.at[i, 1:].add(m[..., i // 5, ::2][1:3]).at[3, i // 5].set(row[2])
            return m, (row, m[i, 0, 1], m[1, ..., i // 9])

        return ft.scan(step, m, places)

    def rows(m, places):
        def step(m, i):
            row = m[i] * 0.5
            return m.at[i].set(row + 1).at[i, 2].add(row[1]), (row, m[i, 0, 1], m[:, i - i, 1])

        return ft.scan(step, m, places)

    assert_same(compiled(rows, m, places)(m, places), rows(m, places))
    assert_same(compiled(f, m, places)(m, places), f(m, places))


def test_parts_without_elements():
    nothing = np.zeros((2, 0)), np.zeros(0)

    def f(x, wide, none):
        def step(i, x):
            x = fnp.concatenate([wide, x, wide], axis=1) * 2
            return x.at[i, 0:0].set(7.0).at[-i, 3:].add(none)

        return ft.fori_loop(0, 2, step, x)

    x = drawn((2, 3), "f8")
    assert_same(compiled(f, x, *nothing)(x, *nothing), f(x, *nothing))


def test_arrays_without_elements():
    x, none, xs = drawn((8,), "f8"), np.zeros((0,)), np.arange(4.0)

    def joined(x, none, xs):
        def step(c, y):
            return c + y, (fnp.concatenate([c[1:], c[:1], none]), fnp.concatenate([none, c]))

        return ft.scan(step, x, xs, reverse=True)

    def swapped(x, none, xs):
        return ft.scan(lambda c, y: ((c[1], c[0], c[2] + y), c[0]), (none, none * 2, x), xs)

    with ft.config.using(check_programs=True):
        for f in (joined, swapped):
            assert_same(compiled(f, x, none, xs)(x, none, xs), f(x, none, xs))


def test_rows_of_no_steps_that_nobody_needs():
    def f(x, xs):
        return ft.scan(lambda c, x: (c * 2 + x, c), x, xs)[0]

    x, xs = drawn((3,), "f8"), np.ones((0, 3))
    np.testing.assert_array_equal(compiled(f, x, xs)(x, xs), x)


def test_a_number_out_of_range():
    def f(x, n):
        y = fnp.sin(x) * 2
        z = ft.fori_loop(0, n, lambda i, y: y.at[i].set(y[i] * 2), y)
        return fnp.cos(z) + y

    x = np.arange(4.0)
    jitted = compiled(f, x, 4)
    assert_same(jitted(x, 4), f(x, 4))
    with pytest.raises(IndexError, match="index 4 is out of bounds") as caught:
        jitted(x, 5)
    assert any(__file__ in note for note in caught.value.__notes__)
    # Memory in another order is no wrong number.
    assert_same(jitted(np.arange(8.0)[::2] / 2, 4), f(x, 4))
    donating = ft.jit(f, donate_argnums=0)
    assert_same(donating.compile(fnp.array(x), 4)(fnp.array(x), 4), f(x, 4))


# -- derivatives and batches


def loss(h, w, xs):
    h, ys = recurrent(h, w, xs)
    return fnp.sum(h * h) + fnp.sum(ys)


def test_gradients():
    f = ft.value_and_grad(loss, argnums=(0, 1, 2))
    assert_same(compiled(f, *RNN, loops=2)(*RNN), f(*RNN))


def test_gradients_of_elements():
    def f(x, w):
        def step(i, s):
            return s + fnp.sin(x[i] * w[i, i]) * x[i - 1]

        return ft.fori_loop(0, 5, step, 0.0)

    g, args = ft.grad(f, argnums=(0, 1)), (drawn((5,), "f8"), drawn((5, 5), "f8", 1))
    assert_same(compiled(g, *args, loops=2)(*args), g(*args))


def test_tangents_and_second_derivatives():
    ways = tuple(np.ones_like(x) for x in RNN)

    def pushed(*xs):
        return ft.jvp(loss, xs, ways)

    def curved(*xs):
        return ft.jvp(ft.grad(loss, argnums=(0, 1)), xs, ways)

    assert_same(compiled(pushed, *RNN)(*RNN), pushed(*RNN))
    assert_same(compiled(curved, *RNN, loops=2)(*RNN), curved(*RNN))


def test_batches():
    batch = [np.stack([x, 0.5 * x, -x]) for x in RNN]
    f = ft.vmap(ft.grad(loss, argnums=1))
    assert_same(compiled(f, *batch, loops=2)(*batch), f(*batch))


def test_the_way_back_of_a_while_loop():
    def f(x, wanted):
        def step(state):
            x, n = state
            return x - (x**3 - wanted) / (3 * x * x), n + 1

        return ft.while_loop(lambda s: s[1] < 9, step, (x, 0), max_steps=20)[0]

    g = ft.grad(f, argnums=(0, 1))
    assert_same(compiled(g, 5.0, 7.0, loops=2)(5.0, 7.0), g(5.0, 7.0))


def test_a_batch_of_while_loops():
    f, xs = ft.vmap(lambda x: newton(x, 7.0)), np.array([50.0, 2.0, 1.9, 1e-3])
    assert_same(compiled(f, xs)(xs), f(xs))
