"""Division with remainder, shifts and decimals as machine code: NumPy's results in all cases."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same, compiled, loops_of, of_slices

import functensor as ft
import functensor.numpy as fnp
from functensor.scipy import special

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),
]
DIVIDED = {
    "remainder": lambda x, y: x % y,
    "quotient": lambda x, y: x // y,
    "fmod": fnp.fmod,
}
OF_FLOATS = {
    **DIVIDED,
    "remainder by a number": lambda x, y: x % 0.3 + y % -2.0,
    "quotient by a number": lambda x, y: x // 0.7 + 100.0 // y,
    "remainder by 0": lambda x, y: x % 0.0,
    "quotient by 0": lambda x, y: x // -0.0,
    **{
        f"{n} decimals": lambda x, y, n=n: fnp.round(x, n) for n in (0, 1, 2, 5, -1, -2)
    },
}  # fmt: skip
OF_WHOLE_NUMBERS = {
    **DIVIDED,
    "left": lambda x, y: x << y,
    "right": lambda x, y: x >> y,
    "left by a number": lambda x, y: (x << 3) + (y << 100),
    "right by a number": lambda x, y: (x >> 3) + (y >> 100),
    "by numbers": lambda x, y: x // 3 + y % 5 + x % 8,
    "by 0": lambda x, y: x // 0 + y % 0,
    "decimals": lambda x, y: fnp.round(x, 2) + y,
}


def pairs(numbers, dtype):
    """All pairs of numbers."""
    return [v.ravel() for v in np.meshgrid(*[np.array(numbers, dtype)] * 2)]


def floats(dtype):
    limits, rng = np.finfo(dtype), np.random.default_rng(0)
    numbers = [
        *(0.0, 1.0, 0.5, 3.0, 0.3, 7.25, np.inf, np.nan, limits.max, limits.tiny),
        *(limits.smallest_subnormal, 100.0, 1e3, *rng.normal(size=9)),
        *np.exp(rng.normal(size=9) * (2 if dtype == "f2" else 20)),
    ]
    return pairs([*numbers, *np.negative(numbers)], dtype)


def wholes(dtype):
    limits = np.iinfo(dtype)
    numbers = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100, limits.max, limits.max - 1]
    return pairs([*numbers, *([-1, -2, -3, -7, -64, limits.min] if limits.min else [])], dtype)


def assert_bits(f, *args):
    """Asserts that a loop of one step, and a program without loops, have the results of NumPy."""
    wanted = [np.asarray(v) for v in f(*args)]
    for got in (compiled(of_slices(f), *args)(*args), ft.jit(f).compile(*args)(*args)):
        for x, y in zip(got, wanted, strict=True):
            x = np.asarray(x)
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
            there = y == y
            np.testing.assert_array_equal(np.signbit(x[there]), np.signbit(y[there]))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_floats(dtype):
    assert_bits(lambda x, y: [f(x, y) for f in OF_FLOATS.values()], *floats(dtype))


@pytest.mark.parametrize("dtype", [*"bBhHiIqQ"])
def test_whole_numbers(dtype):
    assert_bits(lambda x, y: [f(x, y) for f in OF_WHOLE_NUMBERS.values()], *wholes(dtype))


def test_booleans():
    def f(x, y):
        return [fnp.remainder(x, y), fnp.floor_divide(x, y), fnp.left_shift(x, y), x >> y]

    assert_bits(f, *pairs([True, False], "?"))


def test_numbers_of_a_loop():
    def f(x, n):
        def step(i, state):
            x, n = state
            return (x + i) % 1.3 - (x // 0.4), (n * 7 + 3) % (n + 2) + (n >> i) + (n << i) // 3

        return ft.fori_loop(0, 5, step, (x, n))

    for n in (5, -9):
        assert_same(compiled(f, 0.7, n)(0.7, n), f(0.7, n))


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8"])
def test_products_with_logarithms(name, dtype):
    numbers = [0.0, -0.0, 1, 2, -1, -2, 0.5, np.inf, -np.inf, np.nan, 1e-4]
    x, y = pairs(numbers if dtype[0] == "f" else [0, 1, 2, 3], dtype)

    def f(x, y):
        return getattr(special, name)(x, y)

    found, wanted = np.asarray(compiled(of_slices(f), x, y)(x, y)), np.asarray(f(x, y))
    assert_same(found, wanted)
    there = wanted == wanted
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(wanted[there]))


def test_batches_and_strides():
    def f(x, n):
        def step(i, state):
            x, n = state
            return (x.T[::-1] + i) % 2.5 + fnp.round(x, 1), (n[::-1] << i) // (n + 7) % 11

        return ft.fori_loop(0, 3, step, (x, n))

    x = np.linspace(-4, 4, 18).reshape(2, 3, 3)
    n = np.arange(8).reshape(2, 4)
    batch = ft.vmap(f)
    assert_same(ft.jit(batch).compile(x, n)(x, n), batch(x, n))


def test_derivatives():
    def loss(x):
        def step(x, _):
            return (x * 1.5) % 2.0 + special.xlogy(x, x + 3.0), None

        return fnp.sum(ft.scan(step, x, None, length=3)[0])

    x = np.linspace(0.1, 1.9, 7)
    jitted = ft.jit(ft.grad(loss)).compile(x)
    assert loops_of(jitted)[1] == 0, jitted.explain()
    assert_same(jitted(x), ft.grad(loss)(x))


def test_no_elements():
    def f(x):
        return ft.fori_loop(0, 2, lambda i, x: x % 3 + x // 2 + (x << 1), x)

    x = np.zeros((0, 3), int)
    assert_same(ft.jit(f).compile(x)(x), f(x))
