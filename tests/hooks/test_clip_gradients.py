"""clip_gradients limits cotangents of every dtype and size, at every order of derivative."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as np
from functensor.hooks import clip_gradients


def gradient(g, jit=False, **limits):
    """Returns what clipping makes of a cotangent."""
    g = np.array(g)

    def f(x):
        return ft.tag(x, "here")

    def run(g):
        return ft.vjp(clip_gradients(f, "here", **limits), np.zeros_like(g))[1](g)[0]

    return numpy.asarray((ft.jit(run) if jit else run)(g))


@pytest.mark.parametrize("jit", [False, True])
@given(
    st.lists(st.floats(-1, 1), max_size=5),
    st.floats(-100, 100),
    st.floats(1e-3, 1e3),
)
def test_a_norm_of_any_magnitude(jit, direction, exponent, limit):
    g = numpy.array(direction, float) * 10.0**exponent
    wanted = g if numpy.linalg.norm(g) <= limit else g * (limit / numpy.linalg.norm(g))
    # Subnormal numbers have fewer digits.
    numpy.testing.assert_allclose(gradient(g, jit, max_norm=limit), wanted, rtol=1e-12, atol=1e-320)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float16", [30000.0, 40000.0]),
        ("bfloat16", [3e38, 1e38]),
        ("float32", [3e38, 2e38]),
        ("float64", [3e300, 4e300]),
        ("complex64", [3e30 + 4e30j, 0]),
        ("complex128", [3e200 + 4e200j, 1e200]),
    ],
)
def test_squares_do_not_leave_the_range_of_the_dtype(dtype, values):
    g = np.array(values).astype(dtype)
    found = gradient(g, max_norm=1.0)
    assert found.dtype == g.dtype
    kind = complex if "complex" in dtype else float
    plain = numpy.asarray(g).astype(kind)
    parts = plain / numpy.abs(plain).max()
    wanted = parts / numpy.linalg.norm(parts)
    # One unit in the last place of a number is 1e-3 of it in float16, and 8e-3 in bfloat16.
    rtol = {"float16": 1e-3, "bfloat16": 1e-2}.get(dtype, 1e-6)
    numpy.testing.assert_allclose(found.astype(kind), wanted, rtol=rtol)


def test_a_long_gradient_of_float16():
    g = numpy.ones(100_000, "float16")
    # Numbers of float16 stand up to 1e-3 of themselves apart.
    numpy.testing.assert_allclose(gradient(g, max_norm=1.0), 100_000**-0.5, rtol=1e-3)


@pytest.mark.parametrize("shape", [(), (0,), (3,)])
def test_zeros_stay_and_have_derivatives(shape):
    clipped = clip_gradients(lambda x: np.sum(x**3), "power", max_norm=1.0)
    x = np.zeros(shape)
    assert not np.any(ft.grad(clipped)(x))
    assert not np.any(ft.grad(lambda x: np.sum(ft.grad(clipped)(x)))(x))


def test_numbers_that_are_not_finite():
    inf, nan = numpy.inf, numpy.nan
    numpy.testing.assert_array_equal(gradient([inf, 0.5], max_norm=1.0), [inf, 0.5])
    numpy.testing.assert_array_equal(gradient([nan, 0.5], max_norm=1.0), [nan, 0.5])
    wanted = [1, -1, nan, 0.5]
    numpy.testing.assert_array_equal(gradient([inf, -inf, nan, 0.5], max_value=1.0), wanted)


def test_the_absolute_values_of_complex_elements_are_cut_off():
    found = gradient([3 + 4j, 0.1j], max_value=1.0)
    numpy.testing.assert_allclose(found, [0.6 + 0.8j, 0.1j], rtol=1e-15)


def test_a_clipped_gradient_is_differentiated():
    def f(x):
        return np.sum(np.tanh(ft.tag(x, "h")) ** 2)

    def by_hand(x):
        g = ft.grad(f)(x)
        return g * (0.5 / np.sqrt(np.sum(g**2)))

    x = np.array([0.3, -1.0, 2.0])
    found = ft.jacobian(ft.grad(clip_gradients(f, "h", max_norm=0.5)))(x)
    numpy.testing.assert_allclose(found, ft.jacobian(by_hand)(x), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("limits", [{}, {"max_norm": 1.0, "max_value": 1.0}, {"max_norm": -1.0}])
def test_one_limit_is_wanted(limits):
    with pytest.raises(ValueError, match="takes one limit that is not negative"):
        clip_gradients(np.sin, **limits)
