"""Arguments that NumPy refuses, and interpolation between infinite points."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np

INF, NAN = numpy.inf, numpy.nan

# Calls that were answered, although NumPy has no answer, and the text of the error.
REFUSED = [
    (lambda: np.interp(0.5, [0.0, 1.0], [0.0, 1.0], period=0), ValueError, "period of zero"),
    (lambda: np.digitize([0.5], [1.0, 0.0, 2.0]), ValueError, "neither rise nor fall"),
    (lambda: np.digitize([1], numpy.array([1, 3, 2], "u1")), ValueError, "neither rise nor fall"),
    (lambda: np.bincount([1, 2], minlength=-1), ValueError, "minlength is not negative"),
    (lambda: np.sum(np.ones((2, 3)), True), TypeError, "an axis is an integer, not True"),
    (lambda: np.max(np.ones((2, 3)), axis=(0, False)), TypeError, "not False"),
    (lambda: np.ones((2, 3)).mean(True), TypeError, "an axis is an integer"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case):
    call, kind, text = REFUSED[case]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("function", [np.quantile, np.nanquantile])
@pytest.mark.parametrize("weights", [[0.0, 0.0], [INF, 1.0], [NAN, 1.0]])
def test_weights_without_a_sum(function, weights):
    with pytest.raises(ValueError, match="sums of weights are finite and above zero"):
        function([1.0, 2.0], 0.5, weights=weights, method="inverted_cdf")


@pytest.mark.filterwarnings("ignore:invalid value")
def test_rows_of_nan_alone_need_no_weights():
    x = np.array([[NAN, NAN], [1.0, 2.0]])
    found = np.nanquantile(x, 0.5, axis=1, weights=np.ones((2, 2)), method="inverted_cdf")
    numpy.testing.assert_array_equal(found, [NAN, 1.0])


INFINITE = [
    (0.0, [0.0, 1.0], [-INF, 2.0]),
    (0.5, [0.0, 1.0], [-INF, 2.0]),
    (1.0, [0.0, 1.0], [-INF, 2.0]),
    (0.0, [0.0, 1.0], [3.0, INF]),
    (0.5, [0.0, 1.0], [3.0, INF]),
    (0.5, [0.0, 1.0], [INF, INF]),
    (0.5, [0.0, 1.0], [-INF, INF]),
    (INF, [0.0, INF], [0.0, 1.0]),
    (1.0, [0.0, 1.0, INF], [0.0, 1.0, 5.0]),
    (7.0, [0.0, 1.0, INF], [0.0, 1.0, 5.0]),
    (NAN, [0.0, 1.0], [3.0, 4.0]),
    (0.5, [0.0, 1.0], [NAN, 4.0]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(("x", "xp", "fp"), INFINITE)
def test_interpolation_between_infinite_points(x, xp, fp):
    wanted = numpy.interp(x, xp, fp)
    numpy.testing.assert_equal(np.interp(x, xp, fp).item(), wanted)
    numpy.testing.assert_equal(ft.jit(np.interp)(x, np.array(xp), np.array(fp)).item(), wanted)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_slopes_stay_finite_beside_infinite_points():
    slope = ft.grad(lambda x: np.interp(x, [0.0, 1.0, 2.0], [-INF, 1.0, 4.0]))(1.5)
    assert slope == 3


TABLES = [
    ([-INF, -1.0, 2.0, 2.0], [-INF, -INF, -INF, -1.0]),
    ([-1.0, 0.0, INF], [NAN, -INF, 2.0]),
    ([0.0, 0.0], [INF, INF]),
    ([-INF, -1.0, INF, INF], [2.0, -INF, -1.0, -INF]),
    ([-INF, 0.0, INF], [2.0, 0.0, 3.0]),
    ([1.0, INF], [-INF, 0.0]),
    ([-1.0, -1.0], [3.0, 0.0]),
    ([-1.0, 1.0], [1e20, 1.0]),
    ([-INF, INF], [complex(1, INF), complex(INF, 2)]),
    ([-1.0, 1.0, 2.0], [complex(-INF, 1), complex(2, NAN), complex(2, -INF)]),
    ([0.0], [complex(INF, INF)]),
]
PLACES = numpy.array([-INF, -2.0, -1.0, -0.5, 0.0, 1.0, 1.5, 2.0, 3.0, INF, NAN])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(("xp", "fp"), TABLES)
def test_interpolation_at_infinite_places_is_numpys(xp, fp):
    wanted = numpy.interp(PLACES, xp, fp)
    for function in (np.interp, ft.jit(np.interp)):
        found = numpy.asarray(function(PLACES, np.array(xp), np.array(fp)))
        for part in ("real", "imag"):
            numpy.testing.assert_array_equal(getattr(found, part), getattr(wanted, part))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_infinite_places_make_no_derivative_nan():
    def total(x, xp, fp):
        return np.sum(np.interp(x, xp, fp))

    slopes = ft.grad(total, (0, 1, 2))
    found = slopes(*map(np.array, ([-INF, 0.5, INF], [0.0, 1.0], [2.0, 5.0])))
    for got, wanted in zip(found, ([0, 3, 0], [-1.5, -1.5], [1.5, 1.5]), strict=True):
        numpy.testing.assert_array_equal(got, wanted)
    found = slopes(*map(np.array, ([-7.0, 9.0], [-INF, 0.0, INF], [2.0, 5.0, 8.0])))
    for got, wanted in zip(found, ([0, 0], [0, 0, 0], [0, 2, 0]), strict=True):
        numpy.testing.assert_array_equal(got, wanted)


def test_logarithmic_spaces_of_several_bases():
    for base, axis in (([2.0, 3.0, 4.0], 0), ([[2.0], [3.0]], -1), ([2.0], 0)):
        wanted = numpy.logspace(0, 2, 3, base=base, axis=axis)
        found = np.logspace(0, 2, 3, base=base, axis=axis)
        assert found.shape == wanted.shape
        numpy.testing.assert_allclose(found, wanted, rtol=1e-14)
    given = [0, 1], [2, 3], 4
    wanted = numpy.logspace(*given, base=[2.0, 3.0])
    numpy.testing.assert_allclose(np.logspace(*given, base=[2.0, 3.0]), wanted, rtol=1e-14)


def test_extrema_with_an_initial_value():
    assert np.nanmax(np.ones((0, 2)), initial=2.0) == 2
    assert np.nanmin(np.ones((0, 2)), 0, initial=2.0).tolist() == [2, 2]
    found = np.nanmax(np.array([False, True]), initial=True)
    assert found.dtype == bool
    assert np.bincount([]).tolist() == []


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("places", [(), (2.0,), ([0.0, 1.0, 2.0, 3.0, 4.0],), ([0, 1, 3, 5, 6],)])
def test_central_differences_do_not_look_at_the_middle(places):
    x = numpy.array([1.0, NAN, 3.0, INF, 7.0])
    wanted = numpy.gradient(x, *places)
    for function in (np.gradient, ft.jit(np.gradient)):
        found = function(x, *map(np.array, places))
        numpy.testing.assert_array_equal(found, wanted)
