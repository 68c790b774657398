"""Functions of arrays on a GPU while the default device is the CPU: nothing has to be moved."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import sparse
from functensor.backends import DeviceError
from functensor.testing import assert_allclose, check_grads

pytestmark = pytest.mark.gpu

X = numpy.array([3.0, 1.0, 2.0, 2.0])
MATRIX = numpy.array([[2.0, 1.0], [1.0, 3.0]])
MASK = numpy.array([True, False, True, True])
ONES = [1.0, 2.0, 3.0, 4.0]

CALLS = {
    "append": lambda x, m: np.append(x, 5.0),
    "array": lambda x, m: np.array([x, [1, 2, 3, 4]]),
    "array of numbers": lambda x, m: np.array([[x[0], 0.0], [1.0, x[1]]]),
    "bincount": lambda x, m: np.bincount(x.astype(int)),
    "block": lambda x, m: np.block([[m, m], [numpy.float64(1), 2.0, 3.0, 4.0]]),
    "compress": lambda x, m: np.compress(MASK, x),
    "cov": lambda x, m: np.cov(m),
    "cumulative_sum": lambda x, m: np.cumulative_sum(x, include_initial=True),
    "delete": lambda x, m: np.delete(x, [0, 2]),
    "diff": lambda x, m: np.diff(x, prepend=0.0, append=[1.0]),
    "digitize": lambda x, m: np.digitize(x, np.sort(x)),
    "ediff1d": lambda x, m: np.ediff1d(x, to_begin=7.0, to_end=[8.0, 9.0]),
    "extract": lambda x, m: np.extract(x > 1, x),
    "fill_diagonal": lambda x, m: np.fill_diagonal(m, [5.0, 6.0], inplace=False),
    "full_like": lambda x, m: np.full_like(x, 7),
    "geomspace": lambda x, m: np.geomspace(x[1], 8.0, 4),
    "gradient": lambda x, m: np.gradient(x, 0.5),
    "histogram": lambda x, m: np.histogram(x, [0.0, 1.5, 4.0])[0],
    "histogram in a range": lambda x, m: np.histogram(x, 3, range=(0.0, 4.0))[0],
    "insert": lambda x, m: np.insert(x, 1, 9.0),
    "interp": lambda x, m: np.interp(1.5, np.sort(x), x),
    "intersect1d": lambda x, m: np.intersect1d(x, np.flip(x)),
    "isin": lambda x, m: np.isin(x, x[:2]),
    "linspace": lambda x, m: np.linspace(0.0, x[0], 3),
    "lstsq": lambda x, m: np.linalg.lstsq(m, x[:2])[0],
    "matrix_power": lambda x, m: np.linalg.matrix_power(m, 0),
    "matrix_rank": lambda x, m: np.linalg.matrix_rank(m, tol=1e-3),
    "median": lambda x, m: np.median(x),
    "nanargmax": lambda x, m: np.nanargmax(x),
    "nanmedian": lambda x, m: np.nanmedian(m, axis=0),
    "nonzero": lambda x, m: np.nonzero(x > 1)[0],
    "nonzero of a size": lambda x, m: np.nonzero(x > 1, size=3)[0],
    "packbits": lambda x, m: np.packbits(x > 1),
    "pad": lambda x, m: np.pad(x, 2, "linear_ramp", end_values=(1.0, 2.0)),
    "piecewise": lambda x, m: np.piecewise(x, [x < 2, x > 2], [np.negative, 5.0]),
    "pinv": lambda x, m: np.linalg.pinv(m, rcond=1e-3),
    "polyfit": lambda x, m: np.polyfit(x[:3], x[1:], 1),
    "polyint": lambda x, m: np.polyint(x, k=3.0),
    "polyval": lambda x, m: np.polyval(x, 2.0),
    "quantile": lambda x, m: np.quantile(x, [0.25, 0.5]),
    "r_": lambda x, m: np.r_[x, 1.0, 0:3],
    "resize": lambda x, m: np.resize(x, (2, 3)),
    "roots": lambda x, m: np.abs(np.roots(x[:3])),
    "searchsorted": lambda x, m: np.searchsorted(np.sort(x), 2.0),
    "take": lambda x, m: np.take(x, [3, 0]),
    "trim_zeros": lambda x, m: np.trim_zeros(x - x[0]),
    "unique": lambda x, m: np.unique(x),
    "unique of a size": lambda x, m: np.unique(x, size=4, fill_value=0),
    "vander": lambda x, m: np.vander(x, 3),
    "where": lambda x, m: np.where(x > 1, 1.0, -1.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_and_lists_go_where_arrays_are(name):
    here = CALLS[name](np.asarray(X), np.asarray(MATRIX))
    there = CALLS[name](ft.to_device(X, "cuda"), ft.to_device(MATRIX, "cuda"))
    assert there.device == "cuda:0"
    assert_allclose(there, here, rtol=1e-9)


def test_lists_of_which_one_is_of_another_kind():
    there, places = ft.to_device(numpy.array(ONES), "cuda"), ft.to_device(MASK.astype(int), "cuda")
    matrix = np.outer(there, there) + np.eye(4, device="cuda")
    for got, wanted in (
        (np.bincount(places, ONES), [2.0, 8.0]),
        (np.bincount([1, 0, 1, 1], there), [2.0, 8.0]),
        (np.take(ONES, places), [2.0, 1.0, 2.0, 2.0]),
        (np.full_like(there, ONES), ONES),
        (np.linalg.solve(matrix, (matrix @ there).tolist()), ONES),
        (np.linalg.solve(matrix.tolist(), matrix @ there), ONES),
    ):
        assert got.device == "cuda:0"
        assert_allclose(got, np.asarray(wanted), rtol=1e-9)


def test_lists_under_transformations():
    there = ft.to_device(numpy.arange(8.0).reshape(2, 4), "cuda")
    for f in (lambda r: r * ONES, lambda r: ONES - r, lambda r: np.dot(ONES, r) * r):
        slope = ft.grad(lambda r, f=f: f(r).sum())
        for call in (ft.vmap(f), lambda x, f=f: f(x[0]), ft.vmap(slope)):
            assert_allclose(call(there), call(np.asarray(ft.to_device(there, "cpu"))))
    tensor = ft.CudaTensor(ONES, requires_grad=True)
    (tensor * ONES).sum().backward()
    assert tensor.grad.tolist() == ONES
    there = there.at[0].set(ONES)
    assert there[0].tolist() == ONES


# Functions that find out themselves that their operands are apart, and say so in their name.
APART = {
    "array_equal": lambda x, y: np.array_equal(x, y),
    "average": lambda x, y: np.average(x, weights=y),
    "convolve": lambda x, y: np.convolve(x, y),
    "cross": lambda x, y: np.cross(x[:3], y[:3]),
    "digitize": lambda x, y: np.digitize(x, y),
    "full_like": lambda x, y: np.full_like(x, y),
    "geomspace": lambda x, y: np.geomspace(x, y, 3),
    "interp": lambda x, y: np.interp(x, y, y),
    "isin": lambda x, y: np.isin(x, y),
    "linspace": lambda x, y: np.linspace(x, y, 3),
    "nanquantile": lambda x, y: np.nanquantile(x, y / 9),
    "percentile": lambda x, y: np.percentile(x, y),
    "polyval": lambda x, y: np.polyval(x, y),
    "searchsorted": lambda x, y: np.searchsorted(x, y),
    "trapezoid": lambda x, y: np.trapezoid(x, y),
}


@pytest.mark.parametrize("name", APART)
def test_14_the_function_is_named_and_nothing_is_moved(name):
    there, here = ft.to_device(X, "cuda"), np.asarray(X)
    for operands in ((there, here), (here, there)):
        with pytest.raises(DeviceError) as info:
            APART[name](*operands)
        lines = str(info.value).splitlines()
        assert lines[0].startswith(f"{name} of arrays on different devices: operand 0 (float64[")
        assert lines[-2] == '  fix: x = ft.to_device(x, "cuda:0") for each that is elsewhere'


def test_arrays_stay_where_they_are():
    there = ft.to_device(X, "cuda")
    for call in (
        lambda: np.append(there, X),
        lambda: np.histogram(there, numpy.array([0.0, 1.0])),
        lambda: np.array([there, X]),
        lambda: np.interp(there, X, X),
    ):
        with pytest.raises(DeviceError, match="different devices"):
            call()


def test_what_is_wrong_with_values_is_not_waited_for():
    there = ft.to_device(numpy.array([numpy.nan, numpy.nan]), "cuda")
    assert int(np.nanargmax(there)) == -1
    with pytest.raises(ValueError, match="all elements of a slice are NaN"):
        np.nanargmax(np.asarray([numpy.nan]))
    places = ft.to_device(numpy.array([99]), "cuda")
    assert np.unravel_index(places, (2, 3))[0].device == "cuda:0"


def test_values_that_shapes_depend_on_are_read():
    there = ft.to_device(numpy.array([0.0, 1.0, 0.0, 2.0, 2.0]), "cuda")
    values, index, inverse, counts = np.unique_all(there)
    assert [x.device for x in (values, index, inverse, counts)] == ["cuda:0"] * 4
    assert (values.tolist(), counts.tolist()) == ([0, 1, 2], [2, 1, 2])
    with pytest.raises(ValueError, match="ends exchanged"):
        np.histogram(there, 3, range=(1.0, 0.0))
    with pytest.warns(numpy.exceptions.RankWarning):
        np.polyfit(there[:2] * 0, there[:2], 1)


def test_derivatives_are_checked_there():
    there = ft.to_device(numpy.array([3.0, 1.0, 2.0, 1.5]), "cuda")
    check_grads(lambda x: np.sort(x * x).cumsum() / x.sum(), (there,), order=2)


def test_sparse_derivatives():
    def f(x):
        return x**2 + np.concatenate([x[1:], x[:1]]) * 3

    there, here = ft.to_device(X, "cuda"), np.asarray(X)
    jacobian = sparse.jacobian(f)(there)
    assert jacobian.values.device == "cuda:0"
    assert jacobian.pattern == sparse.jacobian_pattern(f)(here)
    assert_allclose(jacobian.todense(), sparse.jacobian(f)(here).todense())
    assert_allclose(jacobian @ there, sparse.jacobian(f)(here) @ here)
    hessian = sparse.hessian(lambda x: (x**3).sum() + x[0] * x[1])(there)
    assert hessian.todense().device == "cuda:0"
    pytest.importorskip("scipy")
    assert jacobian.toscipy().shape == (4, 4)
