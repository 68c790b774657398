"""Fourier transforms, convolution, interpolation and integrals: dtypes, edges and errors."""

import numpy as np
import pytest

import functensor as ft
from functensor.testing import assert_allclose, check_grads

fft = ft.numpy.fft
signal = ft.scipy.signal
ndimage = ft.scipy.ndimage
integrate = ft.scipy.integrate


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("dtype", ["?", "i2", "f2", "f4", "f8", "c8", "c16"])
def test_dtypes_are_those_of_numpy(name, dtype):
    x = np.arange(1, 5).astype(dtype)
    if name in ("rfft", "ihfft") and x.dtype.kind == "c":
        with pytest.raises(TypeError, match=f"{name} transforms real values, not {x.dtype}"):
            getattr(fft, name)(x)
        return
    wanted = getattr(np.fft, name)(x)
    got = getattr(fft, name)(x)
    assert_allclose(got, wanted, rtol=1e-6)
    shape = ft.eval_shape(getattr(fft, name), x)
    assert (shape.shape, shape.dtype) == (wanted.shape, wanted.dtype)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_gradients_keep_dtypes(name):
    for dtype in ("f4", "c8"):
        x = np.arange(1, 5).astype(dtype)
        if dtype == "c8" and name in ("rfft", "ihfft"):
            continue
        g = ft.grad(lambda x: ft.numpy.abs(getattr(fft, name)(x)).sum())(x)
        assert (g.shape, g.dtype) == (x.shape, x.dtype)


def test_numpy_s_functions_dispatch():
    x = ft.numpy.array([1.0, 2.0, 4.0])
    assert isinstance(np.fft.fft(x), ft.Array)
    g = ft.grad(lambda x: np.abs(np.fft.rfft(x, n=4)).sum())(x)
    assert_allclose(g, ft.grad(lambda x: ft.numpy.abs(fft.rfft(x, n=4)).sum())(x))
    assert_allclose(np.fft.fftshift(x), np.array([4.0, 1.0, 2.0]))


def test_a_complex_transform_of_real_values_has_real_gradients():
    x = np.array([1.0, -2.0, 0.5])
    g = ft.grad(lambda x: (ft.numpy.abs(fft.fft(x)) ** 2).sum())(x)
    # Parseval: the sum is n times that of the squares.
    assert_allclose(g, 6 * x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fft.fft(np.zeros((4, 0))),
        lambda: fft.fft(np.ones(3), 0),
        lambda: fft.irfft(np.ones(1)),
        lambda: fft.hfft(np.ones(1)),
        lambda: fft.fftn(np.ones((2, 3)), s=(2, 0), axes=(0, 1)),
    ],
)
def test_nothing_to_transform(call):
    with pytest.raises(ValueError, match=r"Invalid number of FFT data points \(0\) specified"):
        call()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: fft.fft(np.ones(3), norm="x"), ValueError, "Invalid norm value x"),
        (lambda: fft.fft(1.0), IndexError, "out of bounds"),
        (lambda: fft.fft(np.ones(3), axis=1), np.exceptions.AxisError, "out of bounds"),
        (lambda: fft.fft(np.ones(3), 2.5), TypeError, "integer"),
        (
            lambda: fft.fftn(np.ones((2, 3)), s=(2,), axes=(0, 1)),
            ValueError,
            r"fftn: Shape and axes have different lengths: s=\(2,\) has 1 entries for 2 axes",
        ),
        (lambda: fft.rfftn(np.ones((2, 3)), axes=()), ValueError, "needs at least one axis"),
        (lambda: fft.fftfreq(2.5), ValueError, "n should be an integer"),
        (lambda: fft.rfftfreq(0), ValueError, "n should be an integer of at least 1, not 0"),
    ],
)
def test_refused_transforms(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_empty_batches_and_no_axes():
    assert fft.fft(np.zeros((0, 4))).shape == (0, 4)
    assert fft.rfft2(np.zeros((0, 2, 4))).shape == (0, 2, 3)
    assert_allclose(fft.fftn(np.ones((2, 3)), axes=()), np.ones((2, 3)))
    assert fft.fftfreq(4, dtype="float32").dtype == np.float32


# Convolution


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("shapes", [((400,), (300,)), ((60, 50), (20, 30))])
def test_long_operands_are_transformed(mode, shapes):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape) for shape in shapes)
    staged = ft.make_program(lambda x, y: signal.convolve(x, y, mode))(x, y)
    names = {equation.primitive.name for equation in staged.equations}
    # In mode "valid" there are few places, at which a sum costs less.
    assert ("rfft" in names, "conv" in names) == (mode != "valid", mode == "valid")
    assert_allclose(
        signal.convolve(x, y, mode, "fft"),
        signal.convolve(x, y, mode, "direct"),
        rtol=1e-9,
        atol=1e-9,
    )


def test_short_operands_and_integers_are_summed():
    assert signal.convolve([True, False], [True, True]).dtype == bool
    exact = signal.convolve(np.full(3000, 2**40), np.full(2000, 3))
    assert exact.dtype == np.int64
    assert exact[2500] == 2000 * 3 * 2**40


def test_an_infinity_stays_where_it_is_in_the_direct_method():
    x = np.array([1.0, np.inf, 2.0, 3.0, 4.0])
    got = np.asarray(signal.convolve(x, np.ones(2), method="direct"))
    np.testing.assert_array_equal(got, [1, np.inf, np.inf, 5, 7, 4])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: signal.convolve(np.ones(2), np.ones((2, 2))), "same dimensionality"),
        (lambda: signal.convolve(np.ones(2), np.ones(2), "ful"), "acceptable modes"),
        (lambda: signal.correlate(np.ones(2), np.ones(2), method="x"), "acceptable methods"),
        (lambda: signal.convolve(np.ones(0), np.ones(2)), "an operand is empty"),
        (
            lambda: signal.correlate(np.ones((2, 3)), np.ones((3, 2)), "valid"),
            "at least as large as the other along every axis",
        ),
        (lambda: signal.fftconvolve(np.ones(2), np.ones(2), axes=[]), "axes cannot be empty"),
        (lambda: signal.fftconvolve(np.ones(2), np.ones(2), axes=[0, 0]), "unique"),
        (
            lambda: signal.fftconvolve(np.ones((2, 3)), np.ones((3, 3)), axes=1),
            "they do not broadcast along axis 0",
        ),
    ],
)
def test_refused_convolutions(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_refused_trends():
    with pytest.raises(ValueError, match="types are 'linear' and 'constant'"):
        signal.detrend(np.ones(3), type="x")
    with pytest.raises(ValueError, match=r"bp=\[4\]: places lie between 0 and 3"):
        signal.detrend(np.ones(3), bp=[4])


def test_no_elements():
    assert signal.fftconvolve(np.ones(0), np.ones(2)).shape == (0,)


# Interpolation


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("length", [2, 3, 7])
def test_a_reflected_array_is_a_longer_periodic_one(order, length):
    """SciPy's own filter is right to a few digits only at such edges, for few elements."""
    x = np.random.default_rng(1).normal(size=length)
    places = np.linspace(-4, length + 4, 23)[None]
    doubled = np.concatenate([x, x[::-1]])
    got = ndimage.map_coordinates(x, places, order=order, mode="reflect")
    wanted = ndimage.map_coordinates(doubled, places, order=order, mode="grid-wrap")
    assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("mode", ["mirror", "reflect", "grid-wrap", "nearest", "constant", "wrap"])
def test_splines_pass_through_the_elements(order, mode):
    x = np.random.default_rng(2).normal(size=(6, 5))
    places = np.indices(x.shape).astype(float)
    got = ndimage.map_coordinates(x, places, order=order, mode=mode)
    tolerance = 1e-5 if mode == "nearest" and order > 1 else 1e-12  # extended by twelve elements
    assert_allclose(got, x, rtol=tolerance, atol=tolerance)


def test_an_axis_of_one_element_is_constant():
    for mode in ("mirror", "reflect", "wrap", "grid-wrap", "nearest"):
        got = ndimage.map_coordinates(np.array([2.0]), [[-0.6, 0.0, 1.7]], order=1, mode=mode)
        assert_allclose(got, np.full(3, 2.0))


def test_integers_are_rounded_and_dtypes_given():
    x = np.arange(3)
    assert_allclose(ndimage.map_coordinates(x, [[0.5, 1.5, 1.2]], order=1), np.array([1, 2, 1]))
    assert_allclose(ndimage.map_coordinates(-x, [[0.5, 1.5]], order=1), np.array([-1, -2]))
    got = ndimage.map_coordinates(x, [[0.5]], order=1, output="float32")
    assert_allclose(got, np.array([0.5], "float32"))


def test_places_that_are_not_numbers_give_none():
    got = ndimage.map_coordinates(np.arange(4.0), [[np.nan, np.inf, 1.5]], order=1, mode="nearest")
    np.testing.assert_array_equal(got, [np.nan, 3.0, 1.5])


def test_gradients_by_the_constant_and_by_one_place():
    x = np.arange(4.0)

    def outside(cval):
        return ndimage.map_coordinates(x, [[-1.0, 1.5, 9.0]], order=1, cval=cval).sum()

    assert_allclose(ft.grad(outside)(0.5), 2.0)

    def at(place):
        return ndimage.map_coordinates(x**2, ft.numpy.reshape(place, (1,)), order=3, mode="mirror")

    check_grads(at, (1.3,), order=2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ndimage.map_coordinates(np.ones(3), [[0.0]], mode="x"), ValueError, "modes are"),
        (lambda: ndimage.map_coordinates(np.ones(3), [[0.0]], order=6), ValueError, "orders 0 to"),
        (
            lambda: ndimage.map_coordinates(np.ones((3, 3)), [[0.0]]),
            ValueError,
            "give one coordinate for each",
        ),
        (lambda: ndimage.map_coordinates(np.ones(0), [[0.0]]), ValueError, "no elements"),
        (lambda: ndimage.map_coordinates(np.ones(3), [[1j]]), TypeError, "real numbers"),
        (
            lambda: ndimage.map_coordinates(np.ones(3), [[0.0]], np.ones(1)),
            TypeError,
            "output= takes a dtype",
        ),
    ],
)
def test_refused_interpolations(call, error, words):
    with pytest.raises(error, match=words):
        call()


# Integrals of samples


def test_simpson_keeps_single_precision_and_is_exact_for_parabolas():
    x = np.array([0.0, 0.3, 1.0, 1.2, 2.0, 3.5])
    for count in (3, 4, 5, 6):
        y = 3 * x[:count] ** 2 - x[:count]
        wanted = x[count - 1] ** 3 - x[count - 1] ** 2 / 2
        assert_allclose(integrate.simpson(y, x=x[:count]), wanted, rtol=1e-12)
    assert integrate.simpson(np.ones(4, "float32")).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: integrate.simpson(np.ones(0)), "at least one sample"),
        (lambda: integrate.simpson(np.ones(3), x=np.ones(2)), "must be the same as y: 2 and 3"),
        (lambda: integrate.trapezoid(np.ones(3), np.ones((2, 3))), "must be 1-D or the same as y"),
        (lambda: integrate.trapezoid(1.0), "the values are a scalar"),
        (lambda: integrate.cumulative_trapezoid(np.ones(0)), "at least one sample"),
        (lambda: integrate.cumulative_trapezoid(np.ones(3), initial=1), "must be `None` or `0`"),
    ],
)
def test_refused_integrals(call, words):
    with pytest.raises(ValueError, match=words):
        call()
