"""Strategies draw what they promise."""

import sys

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import functensor as ft
from functensor.backends.optional_modules import MissingExtraError
from functensor.testing import check_grads, strategies

few = settings(max_examples=25)


@few
@given(st.data(), st.sampled_from(["float16", "float32", "float64", "int32", "bool", "complex64"]))
def test_arrays_have_their_dtype_and_shape(data, dtype):
    x = data.draw(strategies.arrays(dtype))
    assert type(x) is ft.Array
    assert (x.dtype.name, x.ndim <= 3) == (dtype, True)
    assert numpy.abs(numpy.asarray(x, complex)).max() <= 6
    assert data.draw(strategies.arrays(dtype, (2, 0))).shape == (2, 0)
    assert data.draw(strategies.arrays(dtype, st.just((3,)))).shape == (3,)


@few
@given(strategies.numbers_apart_from([0.0, 1.0], distance=0.25, low=-2, high=3, width=32))
def test_numbers_keep_their_distance(x):
    assert -2 <= x <= 3
    assert min(abs(x), abs(x - 1)) >= 0.25


@few
@given(strategies.arrays(elements=strategies.numbers_apart_from()))
def test_kinks_are_avoided(x):
    check_grads(ft.numpy.abs, (x,))


@few
@given(strategies.distinct_arrays(shapes=(2, 3)))
def test_maxima_have_no_ties(x):
    flat = numpy.sort(numpy.ravel(x))
    assert numpy.diff(flat).min() >= 0.1 - 1e-12
    check_grads(lambda x: ft.numpy.max(x, axis=1), (x,))


@few
@given(strategies.positive_definite_matrices())
def test_matrices_have_a_factor(a):
    assert numpy.linalg.eigvalsh(a).min() >= 0.5 - 1e-9
    check_grads(lambda a: ft.numpy.linalg.cholesky(a + a.T), (a,))


@few
@given(strategies.simplex_points(4), strategies.simplex_points())
def test_probabilities_add_up(p, q):
    assert p.shape == (4,)
    for x in (p, q):
        assert numpy.sum(x) == pytest.approx(1)
        assert numpy.min(x) > 0


@few
@given(strategies.trees(max_leaves=4))
def test_trees_have_leaves(tree):
    leaves = ft.tree.leaves(tree)
    assert leaves
    assert {type(x) for x in leaves} == {ft.Array}


@few
@given(strategies.broadcastable_shapes(3))
def test_shapes_broadcast(shapes):
    assert len(shapes) == 3
    numpy.broadcast_shapes(*shapes)


@few
@given(strategies.keys())
def test_keys_draw(key):
    assert 0 <= ft.random.uniform(key).item() < 1


def test_an_interval_without_room_is_refused():
    with pytest.raises(ValueError, match="no number of the interval is so far from all points"):
        strategies.numbers_apart_from([0.0], distance=5.0)


def test_without_hypothesis_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'functensor\[hypothesis\]'"):
        strategies.keys()
