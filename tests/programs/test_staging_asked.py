"""Values of large constants that Python asked for are used like any other."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np

# Large enough for staging to leave to the runs what is computed of it.
BIG = np.ones((300, 300))
DOUBLES = numpy.random.default_rng(0).normal(size=20000)


def branch(x):
    total = np.sum(BIG)
    if total > 0:
        total = total * 2
    return x * total


def norm(x):
    length = np.linalg.norm(BIG)
    if length == 0:
        raise ValueError("nothing to divide by")
    return x * (1 / length)


def guarded(x):
    s = np.std(BIG)
    if s == 0:
        s = s + 1e-6
    return (x - np.mean(BIG)) / s


def number(x):
    total = np.sum(BIG)
    return x * float(total) * np.sqrt(total)


def item(x):
    top = np.max(BIG)
    assert top.item() == 1
    return x * np.stack([top, -top, np.minimum(top, 0.5)]) * np.full(3, top)


def rank(x):
    values = np.linalg.svd(BIG)[1]
    kept = int(np.sum(values > 1e-6))
    return x * np.sum(values[:kept])


def matrix(x):
    product = BIG @ BIG
    assert np.all(np.isfinite(product))
    return np.sum(x * product)


def inner(x):
    total = np.sum(BIG)
    return x * ft.jit(lambda n: n / 2)(total) if total else x


def checkpointed(x):
    total = np.sum(BIG)
    return ft.checkpoint(lambda x: np.sin(x) * total)(x) if total > 1 else x


def scanned(x):
    total = np.mean(BIG)
    if total < 0:
        return x
    return ft.scan(lambda c, _: (c * total * 2, None), x, None, length=3)[0]


def counted(x):
    return ft.fori_loop(0, np.sum(BIG).astype(int) // 45000, lambda i, v: v * 2, x)


FUNCTIONS = [
    branch, norm, guarded, number, item, rank, matrix, inner, checkpointed, scanned, counted,
]  # fmt: skip


def same(got, wanted):
    assert got.dtype == wanted.dtype
    numpy.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda fun: fun.__name__)
def test_functions_that_ask_are_what_they_are_eagerly(fun):
    def total(x):
        return np.sum(fun(x) ** 2)

    x = np.asarray(0.7)
    for _ in range(2):
        same(ft.jit(fun)(x), fun(x))
    slope = ft.grad(total)(x)
    same(ft.jit(ft.grad(total))(x), slope)
    same(ft.grad(ft.jit(total))(x), slope)
    same(ft.jit(ft.jacfwd(total))(x), slope)
    same(ft.jit(ft.hessian(total))(x), ft.hessian(total)(x))
    xs = np.linspace(-1, 1, 3)
    same(ft.jit(ft.vmap(ft.grad(total)))(xs), ft.vmap(ft.grad(total))(xs))
    same(ft.vmap(ft.jit(fun))(xs), ft.vmap(fun)(xs))


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda fun: fun.__name__)
def test_they_are_bodies_of_loops_and_of_checkpoints(fun):
    def total(x):
        return np.sum(fun(x)) * 1e-9

    def loop(x):
        return ft.scan(lambda c, _: (c + total(c), None), x, None, length=2)[0]

    x = np.asarray(0.7)
    same(ft.jit(loop)(x), loop(x))
    same(ft.jit(ft.grad(loop))(x), ft.grad(loop)(x))
    again = ft.checkpoint(total)
    same(ft.jit(ft.grad(again))(x), ft.grad(total)(x))
    program = ft.make_program(ft.grad(total))(x)
    same(program.run([x])[0], ft.grad(total)(x))


@pytest.mark.parametrize("make", [
    lambda: np.ones(20000).astype("float32"),
    lambda: np.asarray(DOUBLES).astype("float32"),
    lambda: np.asarray(np.asarray(DOUBLES), "float32"),
    lambda: np.arange(20000).astype("float32"),
])  # fmt: skip
def test_large_constants_are_cast(make):
    x = np.ones(20000, "float32")

    def fun(x):
        return x * make()

    same(ft.jit(fun)(x), fun(x))
    cast, passed = ft.jit(lambda x: (make(), x))(x)
    same(cast, make())
    same(passed, x)


def test_a_single_meets_a_large_double():
    def fun(x):
        return np.sum(x * DOUBLES * 1.0)

    x = np.ones(20000, "float32")
    for slope in (ft.jit(ft.grad(fun)), ft.grad(ft.jit(fun))):
        same(slope(x), ft.grad(fun)(x))
    xs = np.stack([x, 2 * x])
    same(ft.jit(ft.vmap(ft.grad(fun)))(xs), ft.vmap(ft.grad(fun))(xs))


def test_ranges_have_the_bounds_that_there_were():
    low, high = numpy.array([1.0, 2.0]), numpy.array(20000)

    def fun(x):
        return np.linspace(low, low + 1, 20000) * x, np.arange(0, high) * x

    f = ft.jit(fun)
    wanted = fun(2.0)
    for _ in range(2):
        for got, known in zip(f(2.0), wanted, strict=True):
            same(got, known)
        low[:] = 0
        high[...] = 5
