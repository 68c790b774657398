"""Medians and quantiles at their edges: NaN, infinities, ties, nothing; and reductions of NaN."""

import warnings

import numpy as np
import pytest
from support.numpy_cases import same

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ImmutableArrayError, ShapeError

NAN = np.nan
HOLES = np.array([[1.0, NAN, 3.0], [NAN, NAN, NAN], [2.0, 5.0, NAN]])
METHODS = ("linear", "lower", "hazen", "inverted_cdf", "midpoint")


def quiet(function, *args, **kwargs):
    """Returns what NumPy's function returns, without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize(
    "name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian"]
)
def test_nan_is_left_out_without_a_warning(name, axis):
    same(getattr(fnp, name)(HOLES, axis=axis), quiet(getattr(np, name), HOLES, axis=axis))
    gradient = ft.grad(lambda x: fnp.nansum(getattr(fnp, name)(x, axis=axis)))(HOLES)
    assert np.all(np.isfinite(gradient))
    assert np.all(np.asarray(gradient)[np.isnan(HOLES)] == 0)


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_of_rows_with_nan(method):
    q = [0.0, 0.3, 1.0]
    for function in ("quantile", "nanquantile"):
        wanted = quiet(getattr(np, function), HOLES, q, axis=1, method=method)
        same(getattr(fnp, function)(HOLES, q, axis=1, method=method), wanted)
    mapped = ft.vmap(lambda row: fnp.nanquantile(row, np.array(q), method=method))(HOLES)
    same(mapped, quiet(np.nanquantile, HOLES, q, axis=1, method=method).T)


def test_infinities_are_values():
    x = np.array([-np.inf, 1.0, np.inf])
    assert fnp.quantile(x, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist() == [
        -np.inf, -np.inf, 1.0, np.inf, np.inf,
    ]
    assert fnp.median(x[1:]).item() == np.inf
    assert fnp.quantile([np.inf, np.inf], 0.3).item() == np.inf
    assert fnp.nanmax(np.array([-np.inf, NAN])).item() == -np.inf
    assert fnp.nanargmax(np.array([NAN, -np.inf])).item() == 1


def test_derivatives_go_to_the_neighbours():
    x = np.array([4.0, 1.0, 3.0, 9.0])
    same(ft.grad(fnp.median)(x), np.array([0.5, 0.0, 0.5, 0.0]))
    same(ft.grad(lambda x: fnp.quantile(x, 0.25))(x), np.array([0.0, 0.25, 0.75, 0.0]))
    same(ft.grad(lambda x: fnp.quantile(x, 0.25, method="nearest"))(x), np.eye(4)[2])
    # By the fraction: the distance of neighbours over that of their fractions.
    np.testing.assert_allclose(ft.grad(lambda q: fnp.quantile(x, q))(0.5), 3.0)
    np.testing.assert_allclose(ft.grad(lambda q: fnp.percentile(x, q))(90.0), 15 / 100)
    # Equal elements share nothing: one of them has it all.
    ties = ft.grad(fnp.median)(np.array([2.0, 2.0, 2.0, 5.0]))
    assert ties.sum().item() == 1
    assert set(ties.tolist()) <= {0.0, 0.5, 1.0}


def test_dtypes_are_numpys():
    x = np.array([3.0, 1.0, 2.0], "float32")
    for q in (0.3, np.float32(0.3), np.float64(0.3), [0.3]):
        same(fnp.quantile(x, q), np.quantile(x, q))
        same(fnp.percentile(x, q), np.percentile(x, q))
    same(fnp.median(np.array([1, 2], "int8")), np.median(np.array([1, 2], "int8")))
    same(fnp.median([True, False]), np.median([True, False]))
    assert fnp.quantile([True, False], 0.5, method="lower").dtype == bool


def test_nothing_has_no_quantile():
    assert np.isnan(fnp.median(np.zeros(0)))
    same(fnp.median(np.zeros((2, 0)), axis=0), np.zeros(0))
    assert np.isnan(fnp.nanquantile(np.zeros(0), [0.1, 0.2])).tolist() == [True, True]
    for name in ("quantile", "percentile"):
        with pytest.raises(ValueError, match=f"{name}: there are no elements to choose from"):
            getattr(fnp, name)(np.zeros((0, 2)), 0.5)


def test_wrong_arguments_are_refused():
    x = np.arange(3.0)
    with pytest.raises(ValueError, match=r"quantile: q lies from 0 to 1, not 1\.5"):
        fnp.quantile(x, 1.5)
    with pytest.raises(ValueError, match=r"percentile: q lies from 0 to 100, not \[-1.0\]"):
        fnp.percentile(x, [-1.0])
    with pytest.raises(ValueError, match="method 'linea' is none of averaged_inverted_cdf, "):
        fnp.quantile(x, 0.5, method="linea")
    with pytest.raises(TypeError, match="quantile: complex numbers have no order"):
        fnp.quantile(x + 1j, 0.5)
    with pytest.raises(ValueError, match="weights go with method='inverted_cdf' only"):
        fnp.quantile(x, 0.5, weights=x)
    with pytest.raises(ValueError, match=r"weights of shape \(2,\) for an array of shape \(3,\)"):
        fnp.quantile(x, 0.5, weights=x[:2], method="inverted_cdf")
    with pytest.raises(ValueError, match="weights are not negative"):
        fnp.quantile(x, 0.5, weights=-x, method="inverted_cdf")
    for call in (fnp.median, fnp.nanmean, fnp.nansum, lambda x, out: fnp.quantile(x, 0.5, out=out)):
        with pytest.raises(ImmutableArrayError, match="out="):
            call(x, out=np.zeros(()))
    with pytest.raises(np.exceptions.AxisError):
        fnp.median(x, axis=1)


def test_weights_count_elements():
    x, w = np.array([5.0, 1.0, 3.0]), np.array([2.0, 1.0, 3.0])
    repeated = np.repeat(x, w.astype(int))
    q = [0.0, 0.1, 0.2, 0.6, 0.7, 1.0]
    got = fnp.quantile(x, q, weights=w, method="inverted_cdf")
    same(got, np.quantile(repeated, q, method="inverted_cdf"))
    both = np.stack([x, x + 1])
    same(
        fnp.quantile(both, 0.5, axis=(1,), weights=w, method="inverted_cdf"),
        np.quantile(both, 0.5, axis=(1,), weights=w, method="inverted_cdf"),
    )
    leading = fnp.quantile(x, 0.0, weights=np.array([1.0, 0.0, 1.0]), method="inverted_cdf")
    assert leading.item() == 3.0


def test_partitions():
    x = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    got = np.asarray(fnp.partition(x, [1, -2]))
    assert (got[1], got[3]) == (2.0, 4.0)
    assert sorted(got) == sorted(x)
    assert fnp.partition(np.zeros(0), 0).shape == (0,)
    with pytest.raises(ShapeError, match="kth=5 is out of bounds for an axis of length 5"):
        fnp.partition(x, 5)
    with pytest.raises(ValueError, match="kind is 'introselect', not 'quick'"):
        fnp.argpartition(x, 1, kind="quick")
    gradient = ft.grad(lambda x: fnp.partition(x, 2)[2] ** 2)(x)
    same(gradient, 6.0 * np.eye(5)[4])
    assert fnp.lexsort((np.array([2, 1]),)).tolist() == [1, 0]
    with pytest.raises(ValueError, match="lexsort: keys of different shapes"):
        fnp.lexsort(([1, 2], [1]))
    with pytest.raises(TypeError, match="lexsort: there is no key"):
        fnp.lexsort([])


def test_where_needs_a_value_to_begin_with():
    x, keep = np.array([1.0, NAN, 7.0]), np.array([True, True, False])
    assert fnp.nanmax(x, where=keep, initial=-1.0).item() == 1.0
    assert fnp.nanmean(x, where=keep).item() == 1.0
    assert fnp.nanvar(x, where=keep).item() == 0.0
    with pytest.raises(ValueError, match="nanmax: where= may leave no element"):
        fnp.nanmax(x, where=keep)
    with pytest.raises(ValueError, match="nanargmin: all elements of a slice are NaN"):
        fnp.nanargmin(HOLES, axis=1)
    assert ft.vmap(fnp.nanargmin)(HOLES).tolist() == [0, -1, 0]
    with pytest.raises(ValueError, match="ddof and correction are the same thing"):
        fnp.nanvar(x, ddof=1, correction=1)
    assert np.isnan(fnp.nanvar(x[:1], ddof=1))
    assert fnp.nanstd(x, mean=np.array([3.0])).item() == np.sqrt((4 + 16) / 2)


@pytest.mark.parametrize(("name", "holes"), [("median", 0), ("nanmedian", 0), ("nanmedian", 2)])
def test_the_one_large_number_in_the_middle_does_not_overflow(name, holes):
    x = np.array([3e38] * 3 + [NAN] * holes, "float32")
    function = getattr(fnp, name)
    with np.errstate(all="raise"):
        found = [function(x), ft.jit(function)(x), ft.vmap(function)(x[None])[0]]
    assert found == [x[0]] * 3
    assert ft.grad(function)(x).sum() == 1
