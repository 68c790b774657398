"""Signals, matrices, indices, parts of numbers and applied functions: edges and messages."""

from functools import partial

import numpy as np
import pytest
from support.numpy_cases import RNG, same

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import (
    ConcretizationError,
    ImmutableArrayError,
    ShapeError,
    UnusedUpdateWarning,
)
from functensor.primitives.special.modified_bessel import modified_bessel

A, V = RNG.normal(size=7), RNG.normal(size=4)


def refused(kind, words, call, *args, **kwargs):
    """Checks that a call raises an error of a kind, with these words."""
    with pytest.raises(kind, match=words):
        return call(*args, **kwargs)


# -- signals


@pytest.mark.parametrize("mode", ["full", "same", "valid", 0, 1, 2])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolution_of_all_lengths(name, mode):
    if isinstance(mode, int) and name == "convolve":
        return  # NumPy's knows numbers of modes for correlate only
    for n in range(1, 6):
        for m in range(1, 6):
            a, v = A[:n] + 1j * A[-n:], V[:1].repeat(m) * np.arange(1, m + 1) * (1 - 2j)
            wanted = getattr(np, name)(a, v, mode)
            same(getattr(fnp, name)(a, v, mode), wanted)
            batched = ft.vmap(lambda a, v: getattr(fnp, name)(a, v, mode))(a[None], v[None])
            np.testing.assert_allclose(batched[0], wanted, rtol=1e-12, atol=1e-14)


def test_what_cannot_be_convolved():
    refused(ValueError, r"convolve: neither sequence may be empty: \(7,\), \(0,\)",
            fnp.convolve, A, A[:0])
    refused(ValueError, r"sequences have one axis each(.|\n)*ft.vmap\(np.correlate\)",
            fnp.correlate, A[None], A)
    refused(ValueError, "mode is one of full, same, valid, not 'all'", fnp.convolve, A, V, "all")
    same(fnp.convolve(2.0, A), np.convolve(2.0, A))
    same(fnp.convolve([1, 2], [3, 4]), np.convolve([1, 2], [3, 4]))


def test_numerical_derivatives_are_numpys():
    f, x = RNG.normal(size=(4, 5)), np.array([0.0, 0.5, 2.0, 2.5])
    for args, options in (
        ((), {}), ((0.5,), {}), ((2, 3.0), {}), ((x, 1.0), {}), ((), {"axis": -1}),
        ((x,), {"axis": 0, "edge_order": 2}), ((), {"edge_order": 2}), ((1.0, x), {"axis": (1, 0)}),
    ):
        same(fnp.gradient(f, *args, **options), tuple(np.gradient(f, *args, **options))
             if options.get("axis") not in (-1, 0) else np.gradient(f, *args, **options))
    same(fnp.gradient(np.array([1, 4, 9])), np.gradient(np.array([1, 4, 9])))
    square = ft.grad(lambda x: fnp.gradient(x * x, x)[1])(x)
    rows = ft.jacfwd(lambda x: fnp.gradient(x * x, x))(x)
    np.testing.assert_allclose(square, rows[1], atol=1e-14)
    refused(ValueError, "axis 0 has 1 elements; edge_order=1 takes at least 2",
            fnp.gradient, np.ones(1))
    refused(ValueError, "edge_order is 1 or 2, not 3", fnp.gradient, A, edge_order=3)
    refused(TypeError, "gradient: 3 distances for 2 axes", fnp.gradient, f, 1.0, 2.0, 3.0)
    refused(ValueError, r"coordinates of shape \(4,\) for axis 1, 5 long", fnp.gradient, f, x, x)


def test_phases():
    p = np.array([0.0, 2.0, 5.5, 12.0, -3.0, np.pi])
    for options in ({}, {"period": 4.0}, {"period": 4}, {"discont": 5.0}):
        same(fnp.unwrap(p, **options), np.unwrap(p, **options))
    for period in (4, 5):
        whole = np.array([0, 2, 5, 12, -3])
        same(fnp.unwrap(whole, period=period), np.unwrap(whole, period=period))
    same(ft.grad(lambda p: fnp.unwrap(p).sum())(p), np.ones(6))


def test_the_bessel_function_where_it_is_large_and_small():
    assert np.asarray(fnp.i0(np.array([0.0, np.inf, -np.inf, 800.0, np.nan]))).tolist()[:4] == [
        1.0, np.inf, np.inf, np.inf,
    ]
    assert fnp.i0(3).dtype == np.float64
    assert fnp.i0(np.float32(3)).dtype == np.float32
    refused(TypeError, "i0: real numbers are wanted", fnp.i0, 1j)
    # DLMF 10.25.1: x^2 f'' + x f' = x^2 f.
    x = np.linspace(-60.0, 60.0, 41) + 0.1
    first = ft.vmap(ft.grad(fnp.i0))(x)
    second = ft.vmap(ft.grad(ft.grad(fnp.i0)))(x)
    np.testing.assert_allclose(x * x * second + x * first, x * x * fnp.i0(x), rtol=1e-13)
    np.testing.assert_array_equal(modified_bessel(np.array([-1.0, 1.0]), order=1) * [-1, 1] > 0, 1)


@pytest.mark.parametrize("size", [-1, 0, 1, 2, 5, 8])
def test_windows_are_numpys(size):
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        np.testing.assert_allclose(getattr(fnp, name)(size), getattr(np, name)(size), atol=1e-15)
    np.testing.assert_allclose(fnp.kaiser(size, 5.0), np.kaiser(size, 5.0), rtol=1e-13)


# -- matrices


def test_blocks():
    same(fnp.block(3.0), np.block(3.0))
    same(fnp.block([1, [2, 3]][1]), np.block([2, 3]))
    deep = [[[np.ones((1, 1, 2)), 2.0 * np.ones((1, 1, 1))]], [[np.zeros((1, 1, 3))]]]
    same(fnp.block(deep), np.block(deep))
    refused(ValueError, "block: a list of blocks is empty", fnp.block, [])
    refused(ValueError, r"lists of blocks are nested \[0, 1\] deep", fnp.block, [1, [2]])
    refused(TypeError, "blocks are nested in lists, not in tuples", fnp.block, ([1], [2]))
    refused(ShapeError, "concatenate: shapes", fnp.block, [[np.ones((2, 2)), np.ones((1, 2))]])


def test_diagonals():
    with pytest.warns(UnusedUpdateWarning, match="result of fill_diagonal is thrown away"):
        fnp.fill_diagonal(np.eye(2), 3.0, inplace=False)
    refused(ImmutableArrayError, r"would change float64\[2, 2\], but arrays are immutable",
            fnp.fill_diagonal, np.eye(2), 3.0)
    fill = partial(fnp.fill_diagonal, inplace=False)
    refused(ValueError, "at least two axes are needed", fill, A, 1.0)
    refused(ValueError, "axes of equal length are needed", fill, np.ones((2, 2, 3)), 1)
    refused(ValueError, "two or more axes of one length", fnp.diag_indices_from, np.ones((2, 3)))
    refused(ValueError, "a matrix is wanted", fnp.tril_indices_from, A)
    for shape in ((5, 2), (2, 5), (3, 3)):
        for wrap in (False, True):
            wanted = np.zeros(shape)
            np.fill_diagonal(wanted, [1.0, 2.0], wrap)
            same(fill(np.zeros(shape), [1.0, 2.0], wrap), wanted)
    assert fill(np.zeros((2, 2), int), 1.7).tolist() == [[1, 0], [0, 1]]


# -- indices


def test_grids_and_ranges():
    for key in (np.s_[0:3], np.s_[0:1:5j], np.s_[1:2, 0:3], np.s_[0:1:2j, 3:1:-1], np.s_[:2, :3]):
        same(fnp.mgrid[key], np.mgrid[key])
        same(fnp.ogrid[key], np.ogrid[key])
    x, m = np.array([1.0, 2.0]), np.ones((2, 2))
    for key in (
        (x, 3.0, x), (1, 2), np.s_[0:2:0.5, x], ("0,2", x, x),
        ("-1", m, m), ("0,3,0", x, x), ("0,3,-2", x, x), (np.float32(1), 2.0),
        (np.array([1], "int8"), 2),
    ):
        same(fnp.r_[key], np.asarray(np.r_[key]))
    # NumPy's are of its class for matrices.
    assert fnp.r_["r", x, 3.0].tolist() == [[1.0, 2.0, 3.0]]
    assert fnp.r_["c", x, 3.0].tolist() == [[1.0], [2.0], [3.0]]
    for key in ((x, x), (m, x), np.s_[1:3, 5:7], (1, 2)):
        same(fnp.c_[key], np.c_[key])
    refused(ValueError, "'x' says nothing", lambda: fnp.r_["x", x])
    refused(ValueError, "join something", lambda: fnp.r_["r"])


def test_indices_out_of_bounds():
    refused(ValueError, r"out of bounds for shape \(2, 3\)", fnp.unravel_index, 6, (2, 3))
    refused(TypeError, "indices are integers, not float64", fnp.unravel_index, 1.0, (2, 3))
    refused(ValueError, "out of bounds for length 2", fnp.ravel_multi_index, ([2], [0]), (2, 3))
    refused(ValueError, "3 index arrays for shape", fnp.ravel_multi_index, ([2], [0], [1]), (2, 3))
    refused(ValueError, "mode is 'raise', 'wrap' or 'clip'", fnp.choose, [0], [1.0], mode="all")
    refused(ValueError, "choose: there are indices out of bounds", fnp.choose, [1], [A])
    refused(ValueError, "choose: there are no choices", fnp.choose, [0], [])
    # Unknown ones are not looked at.
    assert ft.vmap(lambda i: fnp.unravel_index(i, (2, 3))[0])(np.array([1, 5])).tolist() == [0, 1]
    mask = np.array([True, False])
    same(fnp.choose(mask, [10, 20]), np.choose(mask, [10, 20]))


# -- other forms


def test_numbers_in_parts():
    x = np.array([0.0, -0.0, 2.0, -2.5, np.inf, -np.inf, 5e-324, 1e308])
    same(fnp.modf(x), np.modf(x), exact=True)
    assert np.signbit(fnp.modf(-2.0)[0])
    same(fnp.frexp(x)[0], np.frexp(x)[0], exact=True)
    same(fnp.frexp(x[:4])[1], np.frexp(x[:4])[1])
    for dtype in ("float16", "float32", "int8", "bool"):
        some = np.array([1, 0, 1]).astype(dtype)
        same(fnp.modf(some), np.modf(some))
        same(fnp.frexp(some), np.frexp(some))
    refused(TypeError, "bits are integers or booleans, not float64", fnp.packbits, x)
    refused(TypeError, "bytes are wanted, dtype uint8, not int64", fnp.unpackbits, [1])
    refused(ValueError, "bitorder is 'big' or 'little', not 'middle'", fnp.packbits, [1],
            bitorder="middle")
    refused(ValueError, "count=-9 leaves nothing of 8 bits", fnp.unpackbits, np.uint8([1]),
            count=-9)
    bits = RNG.integers(0, 2, (3, 10))
    back = fnp.unpackbits(fnp.packbits(bits, axis=1), axis=1, count=10)
    same(back, bits.astype("uint8"))


def test_arrays_out_of_anything():
    same(fnp.fromiter(range(4), int, 2), np.arange(2))
    same(fnp.frombuffer(np.arange(3.0).tobytes(), count=2, offset=8), np.array([1.0, 2.0]))
    same(fnp.fromstring("1 2", int, sep=" "), np.array([1, 2]))
    refused(ValueError, "there are no writeable ones", fnp.require, [1.0], None, ["C", "W"])
    refused(ValueError, "there are infinities or NaN", fnp.asarray_chkfinite, [np.nan])
    refused(ConcretizationError, "whether asarray_chkfinite raises an error depends on the value",
            ft.vmap(fnp.asarray_chkfinite), A)
    refused(ConcretizationError, "the dtype of what real_if_close returns depends on the value",
            ft.vmap(fnp.real_if_close), A + 0j)
    same(ft.vmap(fnp.real_if_close)(A), A)
    refused(ValueError, "trim is 'f', 'b' or 'fb', not 'x'", fnp.trim_zeros, A, "x")
    refused(ValueError, r"resize: there is no shape \(-1,\)", fnp.resize, A, -1)
    refused(np.exceptions.AxisError, "start", fnp.rollaxis, np.ones((2, 2)), 0, 3)
    same(fnp.trim_zeros(np.zeros(3)), np.zeros(0))
    same(fnp.resize(A[:0], (2,)), np.zeros(2))
    close = np.array([1.0 + 1e-13j])
    assert fnp.real_if_close(close).dtype == complex
    assert fnp.real_if_close(close, tol=1e4).dtype == float


@pytest.mark.parametrize("dtype", ["float32", ">f8", ">i2", "complex64", "bool"])
@pytest.mark.parametrize(("shift", "axis"), [(1, 0), (-5, 1), (0, 1), (2, None), ((1, 2), (0, 1))])
def test_rolled_arrays_keep_their_dtype(dtype, shift, axis):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    same(fnp.roll(x, shift, axis), np.roll(x, shift, axis), exact=True)


# -- applied functions


def test_functions_of_slices():
    x = RNG.normal(size=(2, 3, 4))
    for axis in (0, 1, -1):
        for function in (np.sum, np.cumsum, np.diag, lambda row: np.stack([row, row])):
            wanted = np.apply_along_axis(function, axis, x)
            same(fnp.apply_along_axis(function, axis, x), wanted)
    assert fnp.apply_along_axis(fnp.sum, 0, np.ones((3, 0))).shape == (0,)
    assert fnp.apply_along_axis(lambda row, a, b=1: a * row[0] + b, 0, A, 2.0, b=3) == 2 * A[0] + 3
    refused(ValueError, r"turned shape \(2, 3, 4\) into \(4,\)", fnp.apply_over_axes,
            lambda a, axis: a[0, 0], x, 0)


def test_pieces_do_not_leak():
    def f(x):
        return fnp.piecewise(x, [x < 0, x > 0], [lambda x: -x, lambda x: fnp.log(x)])

    x = np.array([-1.0, 0.0, 2.0])
    same(f(x), np.array([1.0, 0.0, np.log(2.0)]))
    wanted = np.array([-1.0, 0.0, 0.5])
    same(ft.grad(lambda x: f(x).sum())(x), wanted)
    same(ft.vmap(ft.grad(f))(x), wanted)
    program = ft.make_program(ft.grad(lambda x: f(x).sum()))(x)
    same(program(x), wanted)
    same(fnp.piecewise(x, x > 0, [1.0]), np.piecewise(x, x > 0, [1.0]))
    same(fnp.piecewise(x, [x > 0], [lambda v, a: v * a, 9.0], 2), np.array([9.0, 9.0, 4.0]))
    same(fnp.piecewise(np.arange(3), [[True, False, True]], [1.7]), np.array([1, 0, 1]))
    refused(ValueError, "piecewise: 3 functions for 1 conditions", fnp.piecewise, x, [x > 0],
            [1, 2, 3])


def test_functions_of_elements():
    calls = []

    @fnp.vectorize
    def hypotenuse(a, b=4.0):
        """Returns the long side."""
        calls.append(1)
        return fnp.sqrt(a * a + b * b)

    assert hypotenuse.__doc__ == "Returns the long side."
    same(hypotenuse(np.array([[3.0], [0.0]])), np.array([[5.0], [4.0]]))
    same(hypotenuse(np.array([3.0, 0.0]), b=np.array([[4.0], [0.0]])),
         np.array([[5.0, 4.0], [3.0, 0.0]]))
    assert len(calls) == 2
    assert hypotenuse(3.0).item() == 5.0
    assert hypotenuse(np.zeros((0, 2))).shape == (0, 2)
    np.testing.assert_allclose(ft.grad(lambda a: hypotenuse(a).sum())(np.array([3.0])), [0.6])

    decorated = fnp.vectorize(otypes=["float32"], doc="other", excluded={0})(lambda p, x: p[0] * x)
    assert decorated.__doc__ == "other"
    same(decorated([2.0], np.arange(2.0)), np.array([0.0, 2.0], "float32"))


def test_signatures():
    dot = fnp.vectorize(fnp.dot, signature="(n),(n)->()")
    same(dot(np.ones((3, 1, 2)), np.ones((4, 2))), np.full((3, 4), 2.0))
    outer = fnp.vectorize(lambda x, y: (fnp.outer(x, y), x), signature="(m),(n)->(m,n),(m)")
    assert [x.shape for x in outer(np.ones((5, 2)), np.ones(3))] == [(5, 2, 3), (5, 2)]
    for text in ("(n)", "n->n", "(n)->", "(n->n)"):
        refused(ValueError, "is no signature such as", fnp.vectorize, fnp.dot, signature=text)
    refused(ValueError, "axis 'n' has length 2 and length 3", dot, np.ones(2), np.ones(3))
    refused(ValueError, "lacks axes of", dot, np.float64(1), np.ones(3))
    refused(TypeError, "1 arguments for the signature", dot, np.ones(2))
    wrong = fnp.vectorize(lambda x: x, signature="(n)->()")
    refused(ValueError, r"a result of shape \(2,\) for", wrong, np.ones((3, 2)))
    few = fnp.vectorize(lambda x: x, signature="(n)->(n),(n)")
    refused(ValueError, "vectorize: 1 results for", few, np.ones(2))
    refused(ConcretizationError, "bool", fnp.vectorize(lambda x: 1 if x > 0 else 0), np.ones(2))
