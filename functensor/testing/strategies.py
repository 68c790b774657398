"""Hypothesis strategies of arrays, trees and inputs at which functions behave well.

They are for tests of one's own: draw inputs, and compare derivatives by
`functensor.testing.check_grads`. Hypothesis is the extra ``functensor[hypothesis]``.

>>> from hypothesis import given, settings
>>> import functensor as ft, functensor.numpy as np
>>> from functensor.testing import check_grads, strategies
>>> @settings(max_examples=5, database=None)
... @given(strategies.arrays(shapes=(2, 3)))
... def test_sine(x):
...     check_grads(np.sin, (x,), order=2)
>>> test_sine()
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..backends.annotations import DTypeLike
from ..backends.dtypes import named
from ..backends.optional_modules import extra
from ..faces.publish import publish
from ..primitives.core.buffers import wrap
from ..random.keys import key as random_key

__all__ = [
    "arrays", "broadcastable_shapes", "distinct_arrays", "keys", "numbers_apart_from",
    "positive_definite_matrices", "simplex_points", "trees",
]  # fmt: skip

# A strategy of Hypothesis's, which type checkers know where it is installed.
Strategy = Any


def _hypothesis() -> Any:
    """Returns Hypothesis's strategies, or says how to install them."""
    return extra("hypothesis.strategies", "hypothesis")


def _of_arrays() -> Any:
    """Returns Hypothesis's strategies of arrays of NumPy's."""
    _hypothesis()
    return extra("hypothesis.extra.numpy", "hypothesis")


def _shapes(shapes: Any, least: int = 0) -> Strategy:
    """Returns a strategy of shapes, of one that was given or of a shape."""
    if shapes is None:
        return _of_arrays().array_shapes(min_dims=least, max_dims=3, min_side=1, max_side=4)
    return _hypothesis().just(tuple(shapes)) if isinstance(shapes, Sequence) else shapes


def numbers_apart_from(
    points: Sequence[float] = (0.0,),
    distance: float = 0.1,
    low: float = -3.0,
    high: float = 3.0,
    width: int = 64,
) -> Strategy:
    """Returns a strategy of numbers in an interval that keep their distance from some points.

    So a function is smooth near them that has kinks or poles at the points.

    Args:
        points: numbers.
        distance: how far the numbers are from each of them at least.
        low, high: the interval.
        width: how many bits the numbers have: 16, 32 or 64.

    Returns:
        A strategy of floats.
    """
    st = _hypothesis()
    ends = [low, *sorted(p for p in points if low < p < high), high]
    pieces = []
    for i, (begin, end) in enumerate(pairwise(ends)):
        first = begin + distance * (i > 0)
        last = end - distance * (i + 2 < len(ends))
        cast = np.dtype(f"f{width // 8}").type
        first, last = float(cast(first)), float(cast(last))
        if first < last:
            pieces.append(st.floats(first, last, allow_subnormal=False, width=width))
    if not pieces:
        raise ValueError("numbers_apart_from: no number of the interval is so far from all points")
    return st.one_of(pieces)


def arrays(
    dtype: DTypeLike = "float64",
    shapes: Any = None,
    elements: Strategy | None = None,
    *,
    device: str | None = None,
) -> Strategy:
    """Returns a strategy of arrays whose numbers are neither huge nor tiny.

    Args:
        dtype: theirs; floats, integers, complex numbers or booleans.
        shapes: a shape, or a strategy of shapes; by default of up to three axes of lengths 1 to 4.
        elements: a strategy of elements; by default of numbers from -3 to 3.
        device: where they are; the CPU by default.

    Returns:
        A strategy of `functensor.Array`.
    """
    from ..transforms.device import to_device  # which arrays elsewhere need

    st = _hypothesis()
    wanted = named(dtype)
    if elements is None:
        elements = _elements(st, wanted)
    shape = _shapes(shapes)
    made = shape.flatmap(
        lambda s: st.lists(elements, min_size=int(np.prod(s)), max_size=int(np.prod(s))).map(
            lambda found: wrap(np.asarray(found, wanted).reshape(s))
        )
    )
    return made if device is None else made.map(lambda x: to_device(x, device))


def _elements(st: Any, dtype: np.dtype[Any]) -> Strategy:
    """Returns a strategy of the elements of a dtype."""
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        return st.integers(0 if dtype.kind == "u" else -5, 5)
    bits = min(64, dtype.itemsize * (4 if dtype.kind == "c" else 8))
    reals = st.floats(-3, 3, allow_subnormal=False, width=max(bits, 16))
    return st.builds(complex, reals, reals) if dtype.kind == "c" else reals


def distinct_arrays(
    dtype: DTypeLike = "float64", shapes: Any = None, *, gap: float = 0.1
) -> Strategy:
    """Returns a strategy of arrays no two elements of which are close: maxima have no ties.

    Args:
        dtype: theirs, floats.
        shapes: a shape, or a strategy of shapes.
        gap: how far elements are apart at least.

    Returns:
        A strategy of `functensor.Array`.
    """
    st = _hypothesis()
    wanted = named(dtype)

    def of_shape(shape: tuple[int, ...]) -> Strategy:
        size = int(np.prod(shape))
        shifts = st.lists(st.floats(0, 1), min_size=size, max_size=size)
        return st.tuples(st.permutations(range(size)), shifts).map(
            lambda drawn: wrap(
                np.asarray(
                    [gap * (2 * place + shift - size) for place, shift in zip(*drawn, strict=True)],
                    wanted,
                ).reshape(shape)
            )
        )

    return _shapes(shapes).flatmap(of_shape)


def positive_definite_matrices(
    size: int | None = None, dtype: DTypeLike = "float64", *, smallest: float = 0.5
) -> Strategy:
    """Returns a strategy of symmetric matrices whose eigenvalues are positive.

    Args:
        size: the number of rows; by default drawn from 1 to 4.
        dtype: theirs, floats.
        smallest: the least eigenvalue.

    Returns:
        A strategy of `functensor.Array`.
    """
    st = _hypothesis()
    sizes = st.integers(1, 4) if size is None else st.just(size)
    reals = st.floats(-1, 1, allow_subnormal=False)

    def made(rows: list[float]) -> Any:
        n = round(len(rows) ** 0.5)
        a = np.asarray(rows).reshape(n, n)
        return wrap(np.asarray(a @ a.T + smallest * np.eye(n), named(dtype)))

    return sizes.flatmap(lambda n: st.lists(reals, min_size=n * n, max_size=n * n).map(made))


def simplex_points(
    size: int | None = None, dtype: DTypeLike = "float64", *, least: float = 0.01
) -> Strategy:
    """Returns a strategy of vectors of positive numbers that add up to 1: probabilities.

    Args:
        size: their length; by default drawn from 1 to 5.
        dtype: theirs, floats.
        least: by what part of its share a number stays above zero.

    Returns:
        A strategy of `functensor.Array`.
    """
    st = _hypothesis()
    sizes = st.integers(1, 5) if size is None else st.just(size)
    parts = st.floats(least, 1, allow_subnormal=False)

    def made(found: list[float]) -> Any:
        return wrap(np.asarray(np.asarray(found) / sum(found), named(dtype)))

    return sizes.flatmap(lambda n: st.lists(parts, min_size=n, max_size=n).map(made))


def trees(leaves: Strategy | None = None, *, max_leaves: int = 6) -> Strategy:
    """Returns a strategy of nested dictionaries, tuples and lists, of at least one leaf.

    Args:
        leaves: a strategy of leaves; by default `arrays`.
        max_leaves: how many there are at most.

    Returns:
        A strategy of trees.
    """
    st = _hypothesis()
    names = st.text("abcxyz", min_size=1, max_size=3)

    def nested(inner: Strategy) -> Strategy:
        several = st.lists(inner, min_size=1, max_size=3)
        return several | several.map(tuple) | st.dictionaries(names, inner, min_size=1, max_size=3)

    return st.recursive(arrays() if leaves is None else leaves, nested, max_leaves=max_leaves)


def broadcastable_shapes(count: int = 2, *, max_dims: int = 3, max_side: int = 4) -> Strategy:
    """Returns a strategy of tuples of shapes that broadcast against each other.

    Args:
        count: how many shapes.
        max_dims: how many axes they have at most.
        max_side: the greatest length of an axis.

    Returns:
        A strategy of tuples of shapes.
    """
    found = _of_arrays().mutually_broadcastable_shapes(
        num_shapes=count, max_dims=max_dims, max_side=max_side
    )
    return found.map(lambda drawn: tuple(drawn.input_shapes))


def keys() -> Strategy:
    """Returns a strategy of random keys, as `functensor.random.key` makes them."""
    return _hypothesis().integers(0, 2**32 - 1).map(random_key)


publish(globals())
