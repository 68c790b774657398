"""Results that are the same on every device, and numbers of the CPU among arrays of a GPU."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import nn
from functensor.primitives.core.registry import registry
from functensor.testing import assert_allclose

gpu = pytest.mark.gpu
EACH = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
INF, NAN = numpy.inf, numpy.nan


def placed(values, device):
    return ft.to_device(numpy.asarray(values), device)


def plain(x):
    return numpy.asarray(ft.to_device(x, "cpu"))


NUMBERS = [INF, -INF, NAN, 0.0, -0.0, 2.0, -2.0, 1.0, -1.0, 0.1, 7.0, -6.3]


@EACH
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_division_with_remainder_on_each_device(device, name, dtype):
    numbers = [2**53 + 1, 7, -7, 3, -3, 0, 1] if dtype[0] == "i" else [255, 7, 3, 0, 1]
    numbers = numpy.array(NUMBERS if dtype[0] == "f" else numbers, dtype)
    x, y = [z.ravel() for z in numpy.meshgrid(numbers, numbers)]
    ours, theirs = getattr(np, name), getattr(numpy, name)
    got, wanted = plain(ours(placed(x, device), placed(y, device))), theirs(x, y)
    assert got.dtype == dtype
    numpy.testing.assert_array_equal(got, wanted)
    number = ~numpy.isnan(wanted)
    numpy.testing.assert_array_equal(numpy.signbit(got)[number], numpy.signbit(wanted)[number])
    if dtype[0] == "f":
        for divisor in (2.0, INF, -INF):
            numpy.testing.assert_array_equal(
                plain(ours(placed(x, device), divisor)), theirs(x, numpy.array(divisor, dtype))
            )


@EACH
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_derivatives_of_products_with_zeros_and_infinities(device):
    def slope(x):
        return plain(ft.grad(lambda x: np.cumprod(x).sum())(placed(x, device)))

    numpy.testing.assert_array_equal(slope([2.0, INF, 0.0, 3.0]), [INF, 2.0, INF, NAN])
    numpy.testing.assert_array_equal(slope([INF, 2.0]), [3.0, INF])
    numpy.testing.assert_array_equal(slope([0.0, INF, 2.0]), [INF, 0.0, NAN])
    a, b = numpy.array([2.0, INF, 0.0, 3.0]), numpy.array([1.0, 1.0, 1.0, -1.0])
    for reverse in (False, True):
        order = range(4)[::-1] if reverse else range(4)
        wanted, h = numpy.zeros(4), 0.0
        for n, i in enumerate(order):
            wanted[i] = h = b[i] + (a[i] * h if n else 0.0)
        rows = placed(numpy.stack([a, a[::-1]]), device)
        values = placed(numpy.stack([b, b]), device)
        got = registry.linear_recurrence(rows, values, axis=1, reverse=reverse)
        numpy.testing.assert_array_equal(plain(got)[0], wanted)


@EACH
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_slopes_of_silu_far_from_zero(device, dtype):
    x = placed(numpy.array([-INF, -1e4, 0.0, 1e4, INF, NAN], dtype), device)

    def first(x):
        return ft.grad(lambda x: nn.silu(x).sum())(x)

    wanted = [0.0, 0.0, 0.5, 1.0, 1.0, NAN]
    numpy.testing.assert_allclose(plain(first(x)), wanted, atol=1e-30)
    forward = ft.jvp(nn.silu, (x,), (np.ones_like(x),))[1]
    numpy.testing.assert_allclose(plain(forward), wanted, atol=1e-30)
    second = ft.grad(lambda x: first(x).sum())(x)
    numpy.testing.assert_allclose(plain(second), [0.0, 0.0, 0.5, 0.0, 0.0, NAN], atol=1e-30)


@EACH
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64"])
def test_the_dtype_of_logaddexp_of_integers(device, dtype):
    x = numpy.ones(3, dtype)
    wanted = numpy.logaddexp(x, x)
    got = np.logaddexp(placed(x, device), placed(x, device))
    assert got.dtype == wanted.dtype
    numpy.testing.assert_allclose(plain(got), wanted, rtol=numpy.finfo(wanted.dtype).eps * 2)


# -- numbers of the CPU among arrays of a GPU

SCALE = numpy.float64(1.5)
X = numpy.arange(6.0).reshape(2, 3)


def loss(scale, x):
    return (np.sin(scale) * scale * x + scale).sum()


TRANSFORMED = {
    "grad": lambda f: ft.grad(f),
    "second": lambda f: ft.grad(ft.grad(f)),
    "jacrev": lambda f: ft.jacrev(f),
    "hessian": lambda f: ft.hessian(f),
    "jacfwd of grad": lambda f: ft.jacfwd(ft.grad(f)),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(f)),
    "vjp": lambda f: lambda s: ft.vjp(f, s)[1](f(s) * 0 + 1)[0],
}


@gpu
@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("number", [SCALE, np.asarray(1.5), 1.5])
def test_a_cotangent_is_where_its_input_is(name, number):
    there = ft.to_device(X, "cuda")
    got = TRANSFORMED[name](lambda s: loss(s, there))(number)
    assert got.device == "cpu"
    assert_allclose(got, TRANSFORMED[name](lambda s: loss(s, np.asarray(X)))(number))


@gpu
def test_numbers_of_the_cpu_keep_promotion_and_meet_vectors_there():
    there = ft.to_device(X.astype("float32"), "cuda")
    value, slope = ft.value_and_grad(lambda s: (s * there).sum())(2.0)
    assert (value.dtype, slope.device) == ("float32", "cpu")
    w = numpy.array([1.0, 2.0, 3.0])

    def f(w, x):
        return (np.sum(w * w) * x).sum() + np.sum(w)

    by_w, by_x = ft.grad(f, (0, 1))(w, there)
    assert (by_w.device, by_x.device) == ("cpu", "cuda:0")
    assert_allclose(by_w, 2 * w * X.sum() + 1)
    assert_allclose(by_x, numpy.full((2, 3), 14.0, "float32"))
    assert_allclose(ft.jvp(lambda w: f(w, there), (w,), (w,))[1], 28 * X.sum() + 6)
    rows = ft.jacfwd(lambda w: np.sum(w * w) * there)(w)
    assert (rows.shape, rows.device) == ((2, 3, 3), "cuda:0")


@gpu
def test_positions_along_an_axis_are_where_the_examples_are():
    there = ft.to_device(X, "cuda")

    def f(x):
        return x * ft.axis_index("i")

    for call in (
        ft.vmap(f, axis_name="i"),
        ft.vmap(ft.grad(lambda x: f(x).sum()), axis_name="i"),
        ft.vmap(ft.checkpoint(f), axis_name="i"),
        ft.grad(lambda x: ft.vmap(ft.checkpoint(f), axis_name="i")(x).sum()),
        ft.vmap(lambda x: ft.axis_index("i"), axis_name="i"),
        ft.vmap(lambda x: x[ft.axis_index("i")], axis_name="i"),
        ft.vmap(
            ft.vmap(lambda x: x + ft.axis_index(("i", "j")), axis_name="j"), axis_name="i"
        ),
    ):
        got = call(there)
        assert got.device == "cuda:0"
        assert_allclose(got, call(np.asarray(X)))
