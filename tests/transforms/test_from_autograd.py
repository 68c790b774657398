"""Calls of programs for HIPS autograd that other suites here do not try."""

import importlib

import numpy as np
import pytest
import scipy.signal
import scipy.stats

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import (
    ImmutableArrayError,
    NonScalarOutputError,
    ShapeError,
    TracerConversionError,
)
from functensor.scipy import signal, stats
from functensor.scipy.linalg import solve_banded
from functensor.testing import check_grads

X = np.array([1.5, -0.5, 2.5])


# -- whole numbers made of what is differentiated


def test_casts_to_whole_numbers_have_no_derivative_to_lose():
    seen = []

    def fun(x):
        steps = fnp.int64(x)
        seen.append((steps, np.asarray(x, dtype=int), np.array(x, bool), fnp.bool_(x > 0)))
        for _ in range(int(x[2])):
            x = x * 2
        table = [10.0, 20.0, 30.0][fnp.argmax(x)] * np.arange(4.0)[fnp.argmax(x)]
        return fnp.sum(x**2 * steps) * table

    wanted = 16 * 60.0 * 2 * X * np.trunc(X)
    np.testing.assert_allclose(ft.grad(fun)(X), wanted)
    np.testing.assert_allclose(ft.jvp(fun, (X,), (np.ones(3),))[1], wanted.sum())
    np.testing.assert_allclose(ft.hessian(fun)(X), np.diag(wanted / X))
    for steps, cast, truth, positive in seen:
        assert [type(a) for a in (steps, cast, truth)] == [np.ndarray] * 3
        assert steps.tolist() == cast.tolist() == [1, 0, 2]
        assert truth.all()
        assert positive.tolist() == [True, False, True]


def test_what_is_cast_can_be_written_to():
    def fun(x):
        count = np.array(x, dtype=int)
        count[0] = 7
        return fnp.sum(x * count)

    np.testing.assert_array_equal(ft.grad(fun)(X), [7, 0, 2])


@pytest.mark.parametrize("dtype", [None, float, np.float32, complex])
def test_casts_that_would_lose_a_derivative_are_refused(dtype):
    with pytest.raises(TracerConversionError, match=r"depends on argument 0"):
        ft.grad(lambda x: np.asarray(x, dtype).sum())(X)


def test_whole_numbers_are_not_known_where_values_are_not():
    for transform in (ft.vmap, ft.make_program):
        with pytest.raises(TracerConversionError, match="asked for a plain NumPy array"):
            transform(lambda x: np.asarray(x, int))(X)

    def filled(x):
        counts = np.zeros(3, int)
        counts[:] = x
        return x.sum()

    with pytest.raises(ImmutableArrayError, match="cannot record gradients of x"):
        ft.grad(filled)(X)


# -- functions that return one element and not a scalar


def test_an_array_with_one_element_has_a_gradient():
    def fun(x):
        return (x[None, :] @ x[:, None]) * 3

    assert fun(X).shape == (1, 1)
    np.testing.assert_allclose(ft.grad(fun)(X), 6 * X)
    value, gradient = ft.value_and_grad(fun)(X)
    np.testing.assert_allclose(value, [[3 * X @ X]])
    np.testing.assert_allclose(gradient, 6 * X)
    np.testing.assert_allclose(ft.hvp(fun, (X,), (X,)), 6 * X)
    np.testing.assert_allclose(ft.vmap(ft.grad(fun))(np.stack([X, 2 * X])), [6 * X, 12 * X])
    np.testing.assert_allclose(ft.make_program(ft.grad(fun))(X).run([X])[0], 6 * X)
    twice = ft.grad(lambda x: ft.grad(lambda y: y[:1] ** 3)(x)[:1])(X)
    np.testing.assert_allclose(twice, [9.0, 0, 0])
    np.testing.assert_array_equal(ft.grad(lambda x: np.ones((1, 1)))(X), np.zeros(3))
    assert ft.grad(fun)(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("out", [lambda x: x[:2], lambda x: x[:0], lambda x: x[None]])
def test_more_or_fewer_elements_have_none(out):
    with pytest.raises(NonScalarOutputError, match="the output has shape"):
        ft.grad(out)(X)


# -- distributions as modules


DISTRIBUTIONS = [
    name
    for name in stats.__all__
    if hasattr(getattr(stats, name), "logpdf") or hasattr(getattr(stats, name), "logpmf")
]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_are_imported_as_modules(name):
    assert importlib.import_module(f"functensor.scipy.stats.{name}") is getattr(stats, name)


def test_functions_of_distributions_are_imported_by_name():
    import functensor.scipy.stats.norm as normal
    from functensor.scipy.stats.t import logpdf

    assert normal is stats.norm
    assert logpdf(0.0, 3.0) == stats.t.logpdf(0.0, 3.0)


@pytest.mark.parametrize(
    "arguments",
    [
        (np.zeros(2), np.array([[2.0, 0.3], [0.3, 1.0]])),
        (None, np.array([[2.0, 0.3], [0.3, 1.0]])),
        (np.zeros(3), 2.0),
        (np.zeros(3), [1.0, 2.0, 3.0]),
        (0.0, 2.5),
        (),
    ],
)
def test_entropy_of_normal_vectors(arguments):
    got = stats.multivariate_normal.entropy(*arguments)
    np.testing.assert_allclose(got, scipy.stats.multivariate_normal.entropy(*arguments), rtol=1e-13)


def test_entropy_of_normal_vectors_has_derivatives_and_batches():
    entropy = stats.multivariate_normal.entropy
    cov = np.array([[2.0, 0.3], [0.3, 1.0]])
    check_grads(lambda c: entropy(cov=(c + c.T) / 2), (cov,), order=2)
    check_grads(lambda c: entropy(np.zeros(3), c), (1.5,), order=2)
    both = entropy(cov=np.stack([cov, 2 * cov]))
    np.testing.assert_allclose(both, [entropy(cov=cov), entropy(cov=2 * cov)], rtol=1e-14)
    np.testing.assert_allclose(ft.vmap(lambda c: entropy(cov=c))(np.stack([cov, 2 * cov])), both)


# -- convolution over some axes, summed over others


def summed(images, kernels, mode):
    """Returns the convolution of (number, channel, y, x) and (channel, kernel, y, x)."""
    return np.array(
        [
            [
                sum(scipy.signal.convolve(a, b, mode) for a, b in zip(image, kernel, strict=True))
                for kernel in kernels.swapaxes(0, 1)
            ]
            for image in images
        ]
    )


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolution_over_some_axes(mode):
    rng = np.random.default_rng(0)
    images, kernels = rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(3, 2, 2, 3))

    def over_images(a, b):
        return signal.convolve(a, b, mode, axes=([2, 3], [2, 3]), dot_axes=([1], [0]))

    wanted = summed(images, kernels, mode)
    np.testing.assert_allclose(over_images(images, kernels), wanted, rtol=1e-12)
    check_grads(over_images, (images[:1, :2, :3, :3], kernels[:2, :, :, :2]), order=2)
    mapped = ft.vmap(over_images, (0, None))(images[:, None], kernels)
    np.testing.assert_allclose(mapped[:, 0], wanted, rtol=1e-12)


def test_convolution_pairs_axes_of_any_place():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(3, 6, 5))
    wanted = [
        [[np.convolve(x[:, i], y[j, :, k], "valid") for k in range(5)] for j in range(3)]
        for i in range(2)
    ]
    # The second one is longer here: the result is that of the operands the other way round.
    got = signal.convolve(x, y, "valid", axes=([0], [1]))
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    counts = signal.convolve(np.array([1, 2]), np.array([1, 1]), axes=([0], [0]))
    assert (counts.tolist(), counts.dtype) == ([1, 3, 2], np.int64)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"axes": ([0], [0, 1])}, r"do not fit operands of shapes \(3, 2\) and \(2, 2\)"),
        ({"axes": ([0], [0]), "dot_axes": ([1], [])}, "do not fit operands"),
        ({"axes": ([0], [0]), "dot_axes": ([0], [1])}, "name an axis twice"),
        ({"axes": ([0], [0]), "mode": "most"}, "mode='most'"),
        ({"dot_axes": ([0], [0])}, "dot_axes goes with axes"),
    ],
)
def test_convolution_over_axes_that_do_not_fit(options, words):
    with pytest.raises(ValueError, match=words):
        signal.convolve(np.ones((3, 2)), np.ones((2, 2)), **options)


# -- systems of band matrices


def test_band_systems_say_what_does_not_fit():
    with pytest.raises(ShapeError, match=r"l_and_u=\(1, 1\), but ab has shape \(2, 4\)"):
        solve_banded((1, 1), np.ones((2, 4)), np.ones(4))
    with pytest.raises(ShapeError, match="solve_banded: b of shape"):
        solve_banded((1, 0), np.ones((2, 4)), np.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        solve_banded((0, 0), np.zeros((1, 2)), np.ones(2))


def test_what_band_matrices_do_not_hold_is_not_read():
    bands = np.array([[np.nan, 1.0, 2.0], [4.0, 5.0, 6.0], [1.0, 3.0, np.nan]])
    dense = np.diag([4.0, 5, 6]) + np.diag([1.0, 2], 1) + np.diag([1.0, 3], -1)
    b = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(solve_banded((1, 1), bands, b), np.linalg.solve(dense, b))

    def gradients(solve, a):
        return ft.grad(lambda a, b: fnp.sum(solve(a, b) ** 2), (0, 1))(a, b)

    by_bands, by_b = gradients(lambda a, b: solve_banded((1, 1), a, b), bands)
    by_dense, wanted = gradients(fnp.linalg.solve, dense)
    np.testing.assert_allclose(by_b, wanted)
    np.testing.assert_allclose(by_bands[1], np.diag(by_dense))
    np.testing.assert_allclose(by_bands[0], [0, *np.diag(by_dense, 1)])
    np.testing.assert_allclose(by_bands[2], [*np.diag(by_dense, -1), 0])
