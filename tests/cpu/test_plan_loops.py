"""Loops as one generated function: the same bits as step by step, and no call in a step."""

import _thread
import re
import signal
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.loops.scalars import wrapped
from functensor.backends.cpu.plan.loops.sums import is_zero

LENGTH = 7


def loop_sources(f, *args):
    """Returns the text of every loop of a jitted function."""
    program = ft.jit(f).lower(*args).optimized
    return [e.primitive.plan().source for e in program.equations if hasattr(e.primitive, "plan")]


def body_of(source):
    """Returns the lines within a loop, without comments."""
    lines = [line.split("  #")[0] for line in source.splitlines()]
    return [line.strip() for line in lines if line.startswith(" " * 8)]


def same(got, wanted):
    """Compares trees bit by bit, dtypes included."""
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True)


# -- lines of a step


def test_a_step_of_numbers_is_pythons_arithmetic():
    (source,) = loop_sources(lambda x: ft.fori_loop(0, 9, lambda i, x: x * 0.999 + 1.0, x), 1.0)
    assert body_of(source) == ["c = b * 0.999", "d = c + 1.0", "b = d"]
    strong = np.float64(1.0)
    (source,) = loop_sources(lambda x: ft.fori_loop(0, 9, lambda i, x: x - 2.0 * i, x), strong)
    assert not re.findall(r"\w+\(", " ".join(body_of(source)))


def test_a_step_of_a_small_vector_is_a_line_for_each_ufunc():
    x = np.ones(10)
    (source,) = loop_sources(lambda x: ft.fori_loop(0, 9, lambda i, x: x * 0.9 + 1.0, x), x)
    assert len(body_of(source)) == 3


def test_conditions_are_in_the_loop():
    def root(a):
        return ft.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, a)

    (source,) = loop_sources(root, 2.0)
    assert source.count("def ") == 1
    assert not [line for line in body_of(source) if "plan" in line]


def test_products_of_a_cell_are_calls_of_numpy_alone():
    def run(w, h, xs):
        def cell(h, x):
            h = fnp.tanh(w @ h + x)
            return h, h

        return ft.scan(cell, h, xs)

    (source,) = loop_sources(run, np.eye(4), np.ones(4), np.ones((5, 4)))
    calls = re.findall(r"(\w+)\(", " ".join(body_of(source)))
    assert calls == ["dot", "np_add", "np_tanh"]


def test_a_loop_is_planned_once():
    jitted = ft.jit(lambda x: ft.fori_loop(0, 3, lambda i, x: x + i, x))
    (equation,) = jitted.lower(1.0).optimized.equations
    assert equation.primitive.plan() is equation.primitive.plan()


# -- values: those of eager mode, to the last bit

EDGES = [0.0, -0.0, 1.0, -2.5, 1e308, 5e-324, np.inf, -np.inf, np.nan]
BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": fnp.maximum,
    "minimum": fnp.minimum,
    "where": lambda x, y: fnp.where(x < y, x, y),
    "ordered": lambda x, y: fnp.where((x <= y) & ~(x == y), 1.0, x - y),
    "arctan2": fnp.arctan2,
    "slopes": lambda x, y: ft.jvp(fnp.tanh, (x,), (y,))[1],
    "mixed": lambda x, y: fnp.sqrt(abs(x)) + fnp.exp(-y * y) - (y >= 0),
    "vector": lambda x, y: fnp.sum(np.arange(3.0) * x) + y,
    "single": lambda x, y: fnp.sum(np.arange(3, dtype="float32") * y) * x,
}


@pytest.mark.parametrize("name", sorted(BINARY))
@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.asarray])
def test_numbers_have_the_bits_of_eager_mode(name, kind):
    f = BINARY[name]

    def run(pairs):
        def step(carry, pair):
            x, y = pair
            return carry, f(x * start, y)

        start = kind(1.0)
        return ft.scan(step, 0.0, pairs)[1]

    x, y = map(np.ravel, np.meshgrid(EDGES, EDGES))
    with np.errstate(all="ignore"):
        same(ft.jit(run)((x, y)), run((x, y)))


@pytest.mark.parametrize("name", sorted(BINARY))
def test_carried_numbers_have_the_bits_of_eager_mode(name):
    f = BINARY[name]

    def run(x, y):
        return ft.fori_loop(0, 3, lambda i, c: (f(c[0], c[1] * 1.0), c[0] * 1.0), (x, y))

    jitted = ft.jit(run)
    for kind in (np.float64, fnp.asarray):
        for x in EDGES:
            with np.errstate(all="ignore"):
                same(jitted(kind(x), kind(0.7)), run(kind(x), kind(0.7)))


INTEGERS = {
    "grow": lambda x, i: x * 3 + i,
    "shrink": lambda x, i: -(x * x) - i,
    "parts": lambda x, i: x // 7 + x % 5,
    "chosen": lambda x, i: fnp.where((x % 2 == 0) | (i > 3), x // 2, 3 * x + 1),
    "abs": lambda x, i: abs(x - i * 2**20),
    "divided": lambda x, i: (x // (i + 1)) * 2,
    "limited": lambda x, i: fnp.minimum(fnp.maximum(x - 2, i), 9),
}


@pytest.mark.parametrize("name", sorted(INTEGERS))
@pytest.mark.parametrize("kind", [int, np.int64, np.int32])
def test_integers_wrap_around_as_in_eager_mode(name, kind):
    def run(x):
        return ft.fori_loop(0, LENGTH, lambda i, x: INTEGERS[name](x, i), x)

    jitted = ft.jit(run)
    for x in (0, 1, -7, 2**62, -(2**63), 2**63 - 1):
        if kind is np.int32:
            x = max(-(2**31), min(x, 2**31 - 1))
        with np.errstate(all="ignore"):
            same(jitted(kind(x)), run(fnp.asarray(x, dtype=kind)))


def test_integers_that_wrap_around():
    for x in (0, 2**63, -(2**63) - 1, 2**64 - 1, 3 * 2**64 + 5):
        assert wrapped(x) == int(np.array([x % 2**64], np.uint64).astype(np.int64)[0])


def test_counters_end_where_they_would():
    def run(start):
        return ft.scan(lambda i, _: (i + 1, i), start, None, length=5)

    for start in (0, -3, 2**63 - 3):
        with np.errstate(all="ignore"):
            same(ft.jit(run)(np.int64(start)), run(np.int64(start)))
    same(ft.jit(lambda: ft.fori_loop(3, 3, lambda i, x: x + i, 1.0))(), 1.0)


# -- what a loop reads and writes

CASES = {
    "slices": lambda xs: ft.scan(lambda c, x: (c + x, c * x), 0.5, xs),
    "backwards": lambda xs: ft.scan(lambda c, x: (c + x, c * x), 0.5, xs, reverse=True),
    "map": lambda xs: ft.control.map(lambda x: (fnp.sin(x), x > 0.5, x), xs),
    "passed on": lambda xs: ft.scan(lambda c, x: ((c[1], x), c), (1.0, 2.0), xs),
    "swapped": lambda xs: ft.scan(lambda c, x: ((c[1], c[0], c[2]), x), (xs, xs * 2, 1.0), xs),
    "same twice": lambda xs: ft.scan(lambda c, x: ((c[0] + x,) * 2, (c[0],) * 2), (xs, xs), xs),
    "nothing": lambda xs: ft.scan(lambda c, x: (c, None), xs, xs)[0],
    "constants": lambda xs: ft.scan(lambda c, x: (c, (1.0, np.arange(2), True)), 1.0, xs),
    "nested": lambda xs: ft.scan(
        lambda c, x: (ft.fori_loop(0, 3, lambda i, c: c * x + i, c), c), 1.0, xs
    ),
    "conditional": lambda xs: ft.scan(
        lambda c, x: (ft.cond(x > 0.5, lambda c: c * 2, lambda c: c - x, c), c), xs[0], xs
    ),
    "gradient": ft.grad(lambda xs: ft.scan(lambda c, x: (fnp.tanh(c * x), c), 1.0, xs)[0]),
    "while": lambda xs: ft.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * xs), (0, xs)),
    "limited": lambda xs: ft.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * xs), (0, xs), max_steps=3
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_loops_read_and_write(name, dtype):
    f = CASES[name]
    whole = np.random.default_rng(0).uniform(0.1, 0.9, (LENGTH, 2)).astype(dtype)
    jitted = ft.jit(f)
    for xs in (whole[:, 0].copy(), whole[:, 0], whole[::-1, 1], np.broadcast_to(whole[0, 0], 7)):
        if name == "gradient":
            for a, b in zip(ft.tree.leaves(jitted(xs)), ft.tree.leaves(f(xs)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6)
        else:
            same(jitted(xs), f(xs))


def test_slices_of_another_byte_order():
    f = CASES["map"]
    xs = np.linspace(0.0, 1.0, LENGTH)
    same(ft.jit(f)(xs.astype(">f8"))[0], f(xs)[0])


def test_slices_of_memory_that_is_not_aligned():
    xs = np.ndarray((5,), buffer=np.zeros(41, np.uint8), offset=1)
    xs[...] = np.arange(5.0)

    def f(xs):
        return ft.scan(lambda carry, x: (carry * 0.5 + x, carry - x), 1.0, xs)

    same(ft.jit(f)(xs), f(xs))


def test_loops_over_nothing():
    jitted = ft.jit(lambda xs: ft.scan(lambda c, x: (c + x, c), 1.0, xs))
    last, rows = jitted(np.ones(0))
    assert float(last) == 1.0
    assert rows.shape == (0,)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 2)])
def test_zeros_that_are_broadcast_add_nothing(shape):
    assert is_zero(np.broadcast_to(0.0, shape))
    assert is_zero(np.broadcast_to(1.0, shape)) == (0 in shape)


def test_results_share_no_memory_with_operands():
    jitted = ft.jit(lambda x: ft.scan(lambda c, _: (c, None), (x, x), None, length=2)[0])
    x = np.ones(5)
    a, b = map(np.asarray, jitted(x))
    x[:] = 7
    np.testing.assert_array_equal(a, np.ones(5))
    assert not np.shares_memory(a, b)


def test_a_loop_runs_in_several_threads_at_once():
    jitted = ft.jit(lambda x: ft.fori_loop(0, 2000, lambda i, v: fnp.sin(v * 1.1) + x, x * 0))
    wanted = [np.asarray(jitted(np.full(4, float(k)))) for k in range(4)]
    found = {}

    def work(k):
        found[k] = np.asarray(jitted(np.full(4, float(k))))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        np.testing.assert_array_equal(found[k], wanted[k])


def test_a_loop_without_end_is_interrupted():
    forever = ft.jit(lambda x: ft.while_loop(lambda x: x >= 0, lambda x: x * 0.5, x))
    timer = threading.Timer(0.2, _thread.interrupt_main)
    # Shells have programs in the background ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            forever(1.0)
    finally:
        signal.signal(signal.SIGINT, before)
    timer.join()
    assert float(ft.jit(lambda x: ft.fori_loop(0, 3, lambda i, x: x + 1, x))(1.0)) == 4.0


def test_an_error_in_a_step_names_the_line():
    def step(a, _):
        return fnp.linalg.inv(a), None

    with pytest.raises(np.linalg.LinAlgError) as caught:
        ft.jit(lambda a: ft.scan(step, a, None, length=2))(np.zeros((2, 2)))
    notes = " ".join(caught.value.__notes__)
    assert "inv" in notes
    assert "test_plan_loops.py" in notes


# -- random bodies

NUMBERS = st.sampled_from([0.5, -1.5, 2.0, 1, -3, np.float64(0.75), np.float32(1.25), np.int64(2)])
OPERATIONS = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: fnp.where(x < y, x, y),
    lambda x, y: fnp.sin(x) + y,
    lambda x, y: fnp.maximum(x, y),
    lambda x, y: fnp.sum(fnp.asarray([0.5, 1.5]) * x) + y,
    lambda x, y: x / (1 + y * y),
    lambda x, y: fnp.sqrt(abs(x)) * y,
]


@given(
    st.lists(NUMBERS, min_size=2, max_size=3),
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 9)), max_size=6
    ),
)
def test_random_bodies_have_the_values_of_eager_mode(starts, steps):
    def run(*starts):
        def body(i, values):
            known = [i, *values]
            for operation, a, b in steps:
                known.append(operation(known[a % len(known)], known[b % len(known)]))
            made = known[-len(values) :] if len(known) > 2 * len(values) else known[1:]
            return tuple(x * 1.0 + 0.0 * v for x, v in zip(made, values))

        return ft.fori_loop(0, 3, body, starts)

    starts = [np.float64(x) for x in starts]
    with np.errstate(all="ignore"):
        for a, b in zip(ft.jit(run)(*starts), run(*starts), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-12)


# -- elements at the places that a loop counts

ELEMENTS = {
    "read": lambda x: ft.fori_loop(0, 5, lambda i, s: s + x[i, 1] * x[-i, 0], 0.0),
    "read rows": lambda x: ft.fori_loop(0, 5, lambda i, s: s + x[i], x[0]),
    "read columns": lambda x: ft.fori_loop(0, 3, lambda i, s: s + x[:, i], x[:, 0]),
    "set": lambda x: ft.fori_loop(0, 5, lambda i, y: y.at[i, 2].set(i * 0.5), x),
    "set rows": lambda x: ft.fori_loop(1, 5, lambda i, y: y.at[i].set(y[i - 1] * 2), x),
    "add": lambda x: ft.fori_loop(0, 5, lambda i, y: y.at[i].add(y[i - 1, 0]), x),
    "chain": lambda x: ft.fori_loop(0, 5, lambda i, y: y.at[i].set(0.5).at[:, i % 3].add(1.5), x),
    "old value too": lambda x: ft.fori_loop(
        0, 5, lambda i, c: (c[0].at[i].set(1.5), c[0]), (x, x)
    ),
    "old value later": lambda x: ft.fori_loop(0, 5, lambda i, y: y.at[i].set(7.0) + y, x),
    "old row later": lambda x: ft.scan(
        lambda y, i: (y.at[i].set(7.0), y[i] * 1.0), x, np.arange(5)
    ),
    "row kept": lambda x: ft.scan(
        lambda c, i: ((c[0].at[i].set(7.0), c[0][i]), c[1]), (x, x[0]), np.arange(5)
    ),
    "both the same": lambda x: ft.fori_loop(
        0, 5, lambda i, c: (lambda y: (y, y))(c[0].at[i].add(1.5)), (x, x)
    ),
    "one of the other": lambda x: ft.fori_loop(
        0, 5, lambda i, c: (c[0].at[i].add(1.5), c[0].at[i].set(2.5)), (x, x)
    ),
    "swapped": lambda x: ft.fori_loop(
        0, 5, lambda i, c: (c[1], c[0].at[i].add(1.5)), (x, x * 2)
    ),
    "a view": lambda x: ft.fori_loop(
        0, 5, lambda i, c: (c[0].at[i].add(1.5), c[0][:2].sum() + c[1]), (x, 0.0)
    ),
    "stacked": lambda x: ft.scan(lambda y, i: (y.at[i].set(2.5), y), x, np.arange(5)),
    "stacked after": lambda x: ft.scan(
        lambda y, i: (lambda z: (z, z))(y.at[i].set(2.5)), x, np.arange(5)
    ),
    "of itself": lambda x: ft.fori_loop(0, 4, lambda i, y: y.at[i + 1].set(y[i]), x),
    "while": lambda x: ft.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1].at[c[0]].add(c[1][c[0] - 1])), (0, x)
    ),
    "gradient": ft.grad(
        lambda x: fnp.sum(ft.fori_loop(1, 5, lambda i, y: y.at[i].set(fnp.sin(y[i - 1])), x))
    ),
}


@pytest.mark.parametrize("name", sorted(ELEMENTS))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_elements_are_read_and_updated(name, dtype):
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(dtype)
    before = x.copy()
    jitted = ft.jit(ELEMENTS[name])
    wanted = ELEMENTS[name](x)
    for same_values in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        for got, right in zip(
            ft.tree.leaves(jitted(same_values)), ft.tree.leaves(wanted), strict=True
        ):
            assert got.dtype == right.dtype
            np.testing.assert_allclose(got, right, rtol=1e-6)
    np.testing.assert_array_equal(x, before)


def test_a_carry_that_is_updated_is_not_copied_in_every_step():
    (source,) = loop_sources(ELEMENTS["chain"], np.ones((5, 3)))
    assert not re.findall(r"\w+\(", " ".join(body_of(source)))
    (source,) = loop_sources(ELEMENTS["old value later"], np.ones((5, 3)))
    assert "np_array" in source


def test_places_out_of_bounds_raise_as_in_eager_mode():
    def run(x):
        return ft.fori_loop(0, 9, lambda i, s: s + x[i], 0.0)

    for f in (run, ft.jit(run)):
        with pytest.raises(IndexError, match="out of bounds"):
            f(np.ones(5))


def test_large_arrays_in_loops_are_fused_and_take_numbers():
    def run(x):
        def step(i, c):
            s, y = c
            return s * 0.5 + fnp.sum(y), fnp.sin(y) * s + i * 0.25 - y * y

        return ft.fori_loop(0, 3, step, (np.float64(0.125), x))

    x = np.random.default_rng(0).normal(size=(300, 300)) / 300
    (source,) = loop_sources(run, x)
    assert "region" in source
    for got, right in zip(ft.jit(run)(x), run(x), strict=True):
        assert got.dtype == right.dtype
        np.testing.assert_allclose(got, right, rtol=1e-9)


@pytest.mark.parametrize("n", [100, 4_096, 80_000])
def test_a_large_carry_may_be_updated_twice_in_a_step(n):
    def twice(x):
        return ft.fori_loop(0, 3, lambda i, c: c.at[i].add(1.0).at[i].add(2.0), x)

    def swapped(x):
        def step(i, c):
            a, b = c[i], c[i + 1]
            return c.at[i].set(b).at[i + 1].set(a)

        return ft.fori_loop(0, 3, step, x)

    x = np.arange(float(n))
    for f in (twice, swapped):
        np.testing.assert_array_equal(ft.jit(f)(x), f(x))


@pytest.mark.parametrize("column", [lambda m: m[:, 2], lambda m: m.T[1]])
def test_a_row_is_set_to_a_column_of_the_same_array(column):
    # NumPy's own assignment reads elements that it has written.
    m = np.arange(9.0).reshape(3, 3)

    def f(m, xs):
        def step(state):
            n, m = state
            return n + 1, m.at[xs[n]].set(column(m))

        return ft.while_loop(lambda s: s[0] < 4, step, (0, m))[1]

    wanted = m.copy()
    for i in (0, 2, 2, 1):
        wanted[i] = column(wanted).copy()
    np.testing.assert_array_equal(ft.jit(f)(m, np.array([0, 2, 2, 1])), wanted)
