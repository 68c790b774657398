"""Programs compute large constants as evaluation does, under every transformation."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized

import functensor as ft
import functensor.numpy as np

RNG = numpy.random.default_rng(0)
BIG = np.asarray(RNG.normal(size=(150, 150)))
ROWS = np.asarray(RNG.normal(size=(40, 500)))
TABLE = np.asarray(RNG.integers(0, 150, size=20000))


def product(x):
    return np.cumsum(x @ x, axis=0)


def f_product(x):
    return np.sum(np.tanh(product(BIG) / 100) * x) * x


def f_mask(x):
    return x * np.sum(BIG[BIG @ BIG > 0.5])


def f_lookup(x):
    return np.sum(np.take(ROWS[:, 0], TABLE % 40) * x) ** 2


def f_draw(x):
    return x * np.sum(ft.random.normal(ft.random.key(3), (200, 200)) ** 2) + x**2


def f_branch(x):
    return x**3 if np.sum(BIG @ BIG) > -1e9 else x**2


def f_number(x):
    return x * float(np.sum(BIG @ BIG)) + x ** int(np.sum(np.ones((300, 300))) // 45000)


def f_scan(x):
    return ft.scan(lambda c, row: (c * 0.9 + np.sum(np.sin(ROWS @ row)), c), x, ROWS[:5])[0]


def f_constant_scan(x):
    return x * ft.scan(lambda c, row: (c * 0.9 + np.sum(np.sin(row)), None), 0.0, ROWS)[0]


def f_cond(x):
    return ft.cond(x > 0, lambda x: x * np.sum(BIG @ BIG), lambda x: x, x)


def f_decided(x):
    return ft.cond(np.sum(BIG @ BIG) > 0, lambda x: x * 2.0, lambda x: x * x, x)


def f_loop(x):
    return ft.fori_loop(0, 3, lambda i, c: c * np.mean(np.cos(BIG @ BIG)) + i, x)


def f_checkpoint(x):
    y = BIG @ BIG

    @ft.checkpoint
    def inner(x):
        z = np.sin(y) if np.max(y) > 0 else y
        return np.sum(np.tanh(z * x)), z

    a, z = inner(x)
    return a + x * np.sum(z)


def f_rule(x):
    @ft.custom_vjp
    def scaled(x, m):
        return x * np.sum(m @ m)

    scaled.defvjp(
        lambda x, m: (x * np.sum(m @ m), m), lambda m, g: (3 * g * np.sum(m @ m), np.zeros_like(m))
    )
    return scaled(x, BIG @ BIG) + np.sum(scaled(2.0, BIG))


def f_filled(x):
    return (
        np.sum(np.ones((200, 200)) @ BIG[:, :1].repeat(2, 0)[:200] * x)
        + np.sum(np.tril(np.ones((150, 150))) @ BIG * x)
        * np.sum(np.eye(150) * np.arange(22500.0).reshape(150, 150))
        + x * np.linspace(0, 1, 9999)[7]
    )


def f_updated(x):
    grid = np.zeros((200, 200)).at[3:5].set(2.0).at[np.ones((200, 200)) > 2].add(1.0)
    return np.sum(grid * x) * x


def f_nested(x):
    y = BIG @ BIG
    inner = ft.jit(lambda z: np.sum(np.sin(y) @ BIG) * z if np.sum(y) > -1e9 else z)
    return inner(x) * x


EVERY = [
    f_product, f_mask, f_lookup, f_draw, f_branch, f_number, f_scan, f_constant_scan, f_cond,
    f_decided, f_loop, f_checkpoint, f_rule, f_filled, f_updated, f_nested,
]  # fmt: skip


def pushed(f):
    return lambda x: ft.jvp(f, (x,), (1.0,))


WAYS = {
    "jit": (ft.jit, lambda f: f),
    "grad(jit)": (lambda f: ft.grad(ft.jit(f)), ft.grad),
    "jit(grad)": (lambda f: ft.jit(ft.grad(f)), ft.grad),
    "jit(jit)": (lambda f: ft.jit(ft.jit(f)), lambda f: f),
    "jvp(jit)": (lambda f: pushed(ft.jit(f)), lambda f: pushed(f)),
    "jit(grad(grad))": (lambda f: ft.jit(ft.grad(ft.grad(f))), lambda f: ft.grad(ft.grad(f))),
    "grad(jit(grad))": (lambda f: ft.grad(ft.jit(ft.grad(f))), lambda f: ft.grad(ft.grad(f))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", EVERY, ids=lambda f: f.__name__)
def test_staged_equals_evaluated(f, way):
    staged, plain = (change(f) for change in WAYS[way])
    for x in (1.25, 0.75):
        got, wanted = staged(x), plain(x)
        for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
            assert a.dtype == numpy.asarray(b).dtype
            assert numpy.allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("order", [lambda f: ft.vmap(ft.jit(f)), lambda f: ft.jit(ft.vmap(f))])
@pytest.mark.parametrize("f", EVERY, ids=lambda f: f.__name__)
def test_staged_equals_evaluated_in_batches(f, order):
    xs = numpy.array([0.5, -1.25, 2.0])
    got, wanted = order(f)(xs), numpy.array([float(f(x)) for x in xs])
    assert numpy.allclose(got, wanted, rtol=1e-9)


# -- ranges are as NumPy counts them

NUMBERS = st.one_of(
    st.integers(-50, 50),
    st.floats(-9.0, 9.0).map(lambda x: round(x, 2)),
    st.sampled_from([0.1, 1e-4]),
)


@settings(max_examples=sized(15, 60), deadline=None)
@given(
    start=NUMBERS,
    length=st.integers(8192, 9000),
    step=NUMBERS.filter(bool),
    dtype=st.sampled_from([None, "float32", "float64", "int64"]),
)
def test_large_ranges_are_those_of_numpy(start, length, step, dtype):
    stop = start + step * length
    wanted = numpy.arange(start, stop, step, dtype)
    (got,) = ft.jit(lambda x: (np.arange(start, stop, step, dtype),))(1.0)
    assert got.dtype == wanted.dtype
    assert numpy.array_equal(got, wanted)
    assert ft.eval_shape(lambda: np.arange(start, stop, step, dtype)).shape == wanted.shape


@pytest.mark.parametrize(
    "make",
    [
        lambda np: np.linspace(0, 5, 9000),
        lambda np: np.linspace([0.0, 1.0], 7, 9000, endpoint=False, axis=1),
        lambda np: np.linspace(0, 90000, 9000, dtype="int32"),
        lambda np: np.geomspace(1, 100, 9000),
        lambda np: np.logspace(0, 2, 9000),
        lambda np: np.eye(100, 200, 3, dtype="float32"),
        lambda np: np.tri(300, k=-1, dtype=bool),
        lambda np: np.identity(300),
        lambda np: np.full((100, 200), 2.5),
        lambda np: np.full((20000,), 7),
        lambda np: np.zeros(20000, "complex64"),
        lambda np: np.ones_like(numpy.zeros((99, 99), "float32"), shape=(200, 300)),
    ],
)
def test_large_arrays_of_numbers_are_those_of_numpy(make):
    wanted = make(numpy)
    assert str(ft.eval_shape(lambda: make(np))) == str(ft.ShapeDtype(wanted.shape, wanted.dtype))
    for function in (lambda x: make(np), lambda x: np.flip(make(np), 0)[::-1]):
        got = ft.jit(function)(1.0)
        assert got.dtype == wanted.dtype
        assert numpy.array_equal(got, wanted)


# -- programs that Hypothesis composes

STEPS = [
    lambda v: v[0] + v[1],
    lambda v: v[0] * v[1],
    lambda v: np.sin(v[0]),
    lambda v: v[0] @ v[1],
    lambda v: np.sum(v[0], axis=0, keepdims=True) + v[1],
    lambda v: np.transpose(v[0]),
    lambda v: np.where(v[0] > v[1], v[0], v[1]),
    lambda v: np.flip(v[0], 1),
    lambda v: v[0].at[1].set(v[1][0]),
    lambda v: np.concatenate([v[0][:50], v[1][50:]]),
    lambda v: np.tanh(v[0] / 10),
    lambda v: np.max(v[0]) - v[1],
]


@settings(max_examples=sized(15, 60), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 9), st.integers(0, 9)),
        min_size=2,
        max_size=7,
    ),
    constant=st.booleans(),
)
def test_random_programs_of_constants(steps, constant):
    start = np.asarray(numpy.linspace(-1, 1, 10000).reshape(100, 100))

    def f(x):
        values = [start, np.ones((100, 100)), start if constant else start * x]
        for step, i, j in steps:
            out = STEPS[step]((values[i % len(values)], values[j % len(values)]))
            values.append(out / (1 + np.max(np.abs(out))))
        return np.sum(values[-1] * x) + np.sum(values[-2]), values[-1]

    got, wanted = ft.jit(f)(0.7), f(0.7)
    assert numpy.allclose(got[0], wanted[0], rtol=1e-8, atol=1e-8)
    assert numpy.allclose(got[1], wanted[1], rtol=1e-8, atol=1e-8)
    slope = ft.jit(ft.grad(lambda x: f(x)[0]))(0.7)
    assert numpy.allclose(slope, ft.grad(lambda x: f(x)[0])(0.7), rtol=1e-7, atol=1e-7)
