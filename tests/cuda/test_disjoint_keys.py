"""Keys that share no element, which a scatter copies to instead of adding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, max_side=5)


@st.composite
def keys(draw):
    """Draws a shape and two keys of slices and integers."""
    shape = draw(SHAPES)
    drawn = hnp.basic_indices(shape, allow_newaxis=True)
    pair = [draw(drawn), draw(drawn)]
    return shape, [key if isinstance(key, tuple) else (key,) for key in pair]


@given(keys())
def test_disjoint_keys_share_no_element(case):
    from functensor.backends.cuda.disjoint_keys import are_disjoint

    shape, pair = case
    count = np.zeros(shape, int)
    for key in pair:
        count[key] += 1
    if are_disjoint(pair, shape):
        assert count.max() <= 1


def test_thirds_of_an_axis_are_disjoint():
    from functensor.backends.cuda.disjoint_keys import are_disjoint

    thirds = [(..., slice(0, 4)), (..., slice(4, 8)), (..., slice(8, None))]
    assert are_disjoint(thirds, (3, 12))
    assert not are_disjoint([*thirds, (0,)], (3, 12))
    assert are_disjoint([(slice(None, None, 2),), (slice(1, None, 2),)], (9,))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_scatter_to_disjoint_keys_copies(dtype):
    import functensor as ft
    import functensor.numpy as fnp

    def parts(x):
        first, second, third = fnp.split(x, 3, axis=-1)
        return fnp.sum(first * 2 + second * 3 + third)

    def some(x):
        return fnp.sum(x[1:3] * 2) + fnp.sum(x[4] * 3)

    x = ft.to_device(np.ones((6, 9), dtype), "cuda")
    wanted = np.repeat(np.array([2, 3, 1], dtype), 3)
    np.testing.assert_array_equal(ft.to_device(ft.grad(parts)(x), "cpu"), np.tile(wanted, (6, 1)))
    rows = np.array([0, 2, 2, 0, 3, 0], dtype)
    np.testing.assert_array_equal(ft.to_device(ft.grad(some)(x), "cpu")[:, 0], rows)


def test_long_axes_are_compared_by_their_ends():
    from functensor.backends.cuda.disjoint_keys import are_disjoint

    # To go through them would take hours.
    length = 2**60
    halves = [(slice(0, length // 2),), (slice(length // 2, None),)]
    assert are_disjoint(halves, (length,))
    assert are_disjoint([(slice(None, length // 2 - 1, -1),), halves[0]], (length,))
    assert not are_disjoint([(slice(length // 2 - 1, None),), halves[0]], (length,))
