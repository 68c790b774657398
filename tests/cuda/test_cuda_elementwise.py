"""Arithmetic on a GPU that is launched by this library's own kernels, and its derivatives."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as fnp

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.gpu

DTYPES = ["float16", "bfloat16", "float32", "float64"]
LENGTHS = [0, 1, 10, 4099, 70001]


@pytest.fixture(scope="module", autouse=True)
def kernels():
    ft.backends.get("cupy")
    from functensor.backends.cuda.kernels import elementwise

    return elementwise


def dtype_of(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def samples(shape, name, count=2):
    generator = numpy.random.default_rng(5)
    return [generator.uniform(0.5, 1.5, shape).astype(dtype_of(name)) for _ in range(count)]


def assert_like(got, wanted):
    """Compares with what NumPy computes in the same dtype; it rounds once more on a GPU or not."""
    assert isinstance(got, cupy.ndarray)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    eps = float(ml_dtypes.finfo(wanted.dtype).eps)
    numpy.testing.assert_allclose(
        got.get().astype(numpy.float64), wanted.astype(numpy.float64), rtol=2 * eps
    )


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_two_arrays(kernels, name, length):
    x, y = samples(length, name)
    a, b = cupy.asarray(x), cupy.asarray(y)
    for function in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
        compute = getattr(numpy, function)
        wide = compute(x.astype(numpy.float64), y.astype(numpy.float64))
        if function != "subtract":
            assert_like(kernels.ELEMENTWISE_FUNCTIONS[function](a, b), wide.astype(x.dtype))
        assert_like(kernels.ELEMENTWISE_FUNCTIONS[function](a[:0], b[:0]), x[:0])


@pytest.mark.parametrize("name", DTYPES)
def test_rows_columns_and_places_behind_a_boundary(kernels, name):
    x, y = samples((37, 19), name)
    a, b = cupy.asarray(x), cupy.asarray(y)
    add = kernels.ELEMENTWISE_FUNCTIONS["add"]
    for left, right in [(numpy.s_[:], numpy.s_[0]), (numpy.s_[:], numpy.s_[:, :1]),
                        (numpy.s_[1:], numpy.s_[1:]), (numpy.s_[:, ::2], numpy.s_[:, 3:4]),
                        (numpy.s_[3], numpy.s_[:])]:  # fmt: skip
        wide = x[left].astype(numpy.float64) + y[right].astype(numpy.float64)
        assert_like(add(a[left], b[right]), wide.astype(x.dtype))


def test_extrema_keep_nan(kernels):
    nan = numpy.nan
    x = cupy.asarray(numpy.array([nan, 1, 2, -numpy.inf], "f"))
    y = cupy.asarray(numpy.array([1, nan, 3, -numpy.inf], "f"))
    for name in ("maximum", "minimum"):
        wanted = getattr(numpy, name)(x.get(), y.get())
        numpy.testing.assert_array_equal(kernels.ELEMENTWISE_FUNCTIONS[name](x, y).get(), wanted)
        for number in (1.5, nan):
            wanted = getattr(numpy, name)(x.get(), numpy.float32(number))
            numpy.testing.assert_array_equal(
                kernels.ELEMENTWISE_FUNCTIONS[name](x, number).get(), wanted
            )
            numpy.testing.assert_array_equal(
                kernels.ELEMENTWISE_FUNCTIONS[name](number, x).get(), wanted
            )


@pytest.mark.parametrize("name", DTYPES)
def test_adding_in_place(kernels, name):
    x, y = samples(1001, name)
    a = cupy.asarray(x)
    place = a.data.ptr
    assert kernels.add_into(a, cupy.asarray(y)) is None
    assert a.data.ptr == place
    assert_like(a, (x.astype(numpy.float64) + y.astype(numpy.float64)).astype(x.dtype))


def test_adding_in_place_what_is_not_in_order(kernels):
    x, y = samples((6, 8), "float32")
    a = cupy.asarray(x)
    kernels.add_into(a.T, cupy.asarray(y).T)
    assert_like(a, x + y)
    whole = cupy.arange(5)
    kernels.add_into(whole, whole)
    assert whole.get().tolist() == [0, 2, 4, 6, 8]


def derivatives(f, *xs):
    """Returns the gradients by all arguments on the GPU, as NumPy has them, and on the CPU."""
    wanted = ft.grad(f, argnums=tuple(range(len(xs))))(*xs)
    got = ft.grad(f, argnums=tuple(range(len(xs))))(*[ft.to_device(x, "cuda:0") for x in xs])
    return [numpy.asarray(ft.to_device(v, "cpu")) for v in got], map(numpy.asarray, wanted)


@pytest.mark.parametrize("length", [7, 70001])
def test_both_factors(launches, length):
    x, y = samples(length, "float64")
    for got, wanted in zip(*derivatives(lambda x, y: fnp.sum(x * y * y), x, y), strict=True):
        numpy.testing.assert_allclose(got, wanted, rtol=1e-14)
    # The other product's cotangent is one number, spread.
    assert launches.count("products") == (1 if length == 7 else 0)


def test_one_factor_alone(launches):
    x, y = samples(7, "float32")
    a, b = ft.to_device(x, "cuda:0"), ft.to_device(y, "cuda:0")
    for f in (lambda v: fnp.sum(fnp.exp(v * b)), lambda v: fnp.sum(fnp.exp(b * v))):
        got = numpy.asarray(ft.to_device(ft.grad(f)(a), "cpu"))
        numpy.testing.assert_allclose(got, y * numpy.exp(x * y), rtol=1e-6)
    assert "products" not in launches


def test_squares_rows_and_higher_orders():
    x, y = samples((5, 3), "float64")
    functions = [
        lambda x, y: fnp.sum(x * x + y * y * y),
        lambda x, y: fnp.sum(x * y[0] * y[:, :1]),
        lambda x, y: fnp.sum(ft.grad(lambda v: fnp.sum(v * v * fnp.sin(v * y)))(x) * y),
    ]
    for f in functions:
        for got, wanted in zip(*derivatives(f, x, y), strict=True):
            numpy.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_a_chain_of_products(launches):
    x = numpy.linspace(0.7, 1.5, 10)

    def chain(x):
        y = x
        for _ in range(20):
            y = fnp.sin(y) * x
        return fnp.sum(y)

    (got,), (wanted,) = derivatives(chain, x)
    numpy.testing.assert_allclose(got, wanted, rtol=1e-12)
    # There and back: a sine and a product; both factors, the sine's slope, and the sum.
    assert len(launches) <= 20 * 5 + 4


# Axes between a run of axes in one operand: an even and an odd number of neighbours, axes of
# length 1 in several places, a run of two axes, and of the first one.
BETWEEN = [
    ((3, 5, 4, 8), (5, 1, 1)), ((3, 5, 3, 3), (1, 5, 1, 1)), ((2, 3, 4, 5), (3, 4, 1)),
    ((4, 1, 6, 7), (1, 6, 1)), ((600, 9, 33), (9, 1)), ((2, 7, 2), (7, 1)),
]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(("shape", "other"), BETWEEN)
def test_axes_in_the_middle(kernels, launches, name, shape, other):
    (x,), (y,) = samples(shape, name, 1), samples(other, name, 1)
    on_gpu, beside = cupy.asarray(x), cupy.asarray(y)
    assert_like(kernels.ELEMENTWISE_FUNCTIONS["add"](on_gpu, beside), x + y)
    assert_like(kernels.ELEMENTWISE_FUNCTIONS["subtract"](beside, on_gpu), y - x)
    flat = cupy.asarray(numpy.concatenate([x.ravel()[:1], x.ravel()]))
    assert_like(kernels.ELEMENTWISE_FUNCTIONS["multiply"](flat[1:].reshape(shape), beside), x * y)
    assert launches == ["channels"] * 3


def test_axes_that_are_no_run_are_left_to_cupy(kernels, launches):
    (x,), (y,) = samples((3, 5, 4), "float32", 1), samples((3, 1, 4), "float32", 1)
    assert_like(kernels.ELEMENTWISE_FUNCTIONS["add"](cupy.asarray(x), cupy.asarray(y)), x + y)
    assert_like(
        kernels.ELEMENTWISE_FUNCTIONS["add"](cupy.asarray(x)[:, :, :0], cupy.asarray(y)[:, :, :0]),
        (x + y)[:, :, :0],
    )
    assert launches == []


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_gradient_of_a_mean(launches, name, axis, keepdims):
    (x,) = samples((4, 3, 5), name, 1)
    g = numpy.ones_like(x.mean(axis, keepdims=keepdims))
    got = ft.vjp(lambda x: fnp.mean(x, axis, keepdims=keepdims), ft.to_device(x, "cuda:0"))[1](
        ft.to_device(g, "cuda:0")
    )
    got = got[0] if isinstance(got, tuple) else got
    wanted = numpy.full(x.shape, g.size / x.size)
    assert got.dtype == x.dtype
    numpy.testing.assert_allclose(
        numpy.asarray(ft.to_device(got, "cpu")).astype(float), wanted,
        rtol=2 * float(ml_dtypes.finfo(x.dtype).eps),
    )
    assert launches[-1] == "with_number"


def test_gradient_of_a_mean_of_more_than_float16_holds():
    x = ft.to_device(numpy.ones((70000,), numpy.float16), "cuda:0")
    got = ft.grad(lambda x: fnp.mean(x) * 60000)(x)
    numpy.testing.assert_allclose(ft.to_device(got, "cpu"), 6 / 7, rtol=3e-3)
