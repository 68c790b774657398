"""Bins: every number lies in its own, at all magnitudes; their edges rise and are exact."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from functensor.hooks.bins import ZERO, bins_of, edges_of, lower_edge

EXTREMES = np.array([5e-324, 2.2e-308, 1e-30, 0.5, 1.0, 1.2499999999999998, 1.25, 1.7e308])
FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1)


@given(FLOATS)
def test_numbers_lie_between_the_edges_of_their_bins(numbers):
    numbers = np.array([*numbers, *EXTREMES, *-EXTREMES, 0.0, -0.0])
    for number, code in zip(numbers, bins_of(numbers).tolist(), strict=True):
        if number == 0:
            assert code == ZERO
        else:
            assert np.sign(code) == np.sign(number)
            assert lower_edge(abs(code)) <= abs(number) < lower_edge(abs(code) + 1)


@given(FLOATS)
def test_codes_rise_with_numbers(numbers):
    ordered = np.sort(np.array(numbers))
    assert np.all(np.diff(bins_of(ordered)) >= 0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1).map(np.array))
def test_edges_are_of_bins_without_gaps(numbers):
    numbers[np.abs(numbers) < 1e-9] = 0
    codes = bins_of(numbers).tolist()
    edges, places = edges_of(codes)
    assert np.all(np.diff(edges) > 0)
    assert len(edges) == len(places) + 1
    assert sorted(places.values()) == list(range(len(places)))
    assert set(codes) <= set(places)
    counts = np.zeros(len(places), int)
    np.add.at(counts, [places[code] for code in codes], 1)
    for number, code in zip(numbers, codes, strict=True):
        low, high = edges[places[code]], edges[places[code] + 1]
        assert low < number <= high if number < 0 else low <= number < high
    # NumPy's histogram has the same counts, but for values at the upper edges of negative bins.
    inside = numbers[~np.isin(numbers, edges[edges < 0])]
    at_edges = [places[code] for code, x in zip(codes, numbers, strict=True) if x not in inside]
    np.add.at(counts, at_edges, -1)
    assert counts.tolist() == np.histogram(inside, edges)[0].tolist()


def test_each_power_of_two_has_four_bins():
    assert np.unique(bins_of(np.linspace(1, 2, 1000, endpoint=False))).size == 4
    edges, _ = edges_of(bins_of(np.array([1.0, 3.9])).tolist())
    assert edges.tolist() == [1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0]


def test_the_bin_of_zero_reaches_to_its_neighbours():
    edges, places = edges_of(bins_of(np.array([-1.0, 0.0, 2.0])).tolist())
    assert edges.tolist() == [-1.25, -1.0, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5]
    assert places[ZERO] == 1
    assert edges_of([ZERO])[0].tolist() == [-5e-324, 5e-324]
    assert edges_of([])[0].tolist() == [-5e-324, 5e-324]
    assert edges_of(bins_of(np.array([1.7e308])).tolist())[0][-1] == np.inf
