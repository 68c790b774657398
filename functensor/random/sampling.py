"""Orders and samples of what is there."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.restoring import errstate
from ..numpy.creation import asarray
from ..numpy.searching import searchsorted
from ..primitives.core.array import Array
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import ShapeError, message
from ..primitives.core.registry import registry as ops
from ..primitives.core.shape_dtype import canonical_axis
from .continuous import gumbel
from .discrete import randint
from .keys import DRAWN, as_shape, beside_draws, fraction, words

__all__ = ["choice", "permutation"]


def permutation(key: Any, x: Any, axis: int = 0, *, independent: bool = False) -> Any:
    """Returns numbers, or the parts of an array along an axis, in random order.

    Args:
        key: a key.
        x: an array, or an integer n that stands for 0, 1, ..., n - 1.
        axis: along which axis.
        independent: whether every line along the axis gets an order of its own.

    Returns:
        An array of x's shape and dtype; derivatives flow through it.

    >>> from functensor import random
    >>> sorted(random.permutation(random.key(0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    if isinstance(x, int | np.integer):
        return ops.argsort(words(key, (int(x),), 64, DRAWN))
    if not isinstance(x, Array):
        x = asarray(x)
    (x,) = beside_draws("permutation", x)
    axis = canonical_axis(axis, len(x.shape))
    if independent:
        order = ops.argsort(words(key, x.shape, 64, DRAWN), axis=axis)
        return ops.take_along_axis(x, order, axis=axis)
    return ops.take(x, ops.argsort(words(key, (x.shape[axis],), 64, DRAWN)), axis=axis)


def choice(
    key: Any,
    a: Any,
    shape: Sequence[int] | int = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
) -> Any:
    """Returns a random sample of numbers or of the parts of an array along an axis.

    Args:
        key: a key.
        a: an array, or an integer n that stands for 0, 1, ..., n - 1.
        shape: the shape of the sample.
        replace: whether a part may be drawn again.
        p: the probability of each part, in any scale; None stands for equal ones.
        axis: along which axis to draw.

    Returns:
        An array of a's dtype with the axes of ``shape`` in the place of ``axis``.

    Raises:
        ValueError: the sample is larger than what it is drawn from, and without replacement.

    >>> from functensor import random
    >>> sorted(random.choice(random.key(0), 3, (3,), replace=False).tolist())
    [0, 1, 2]
    """
    shape = as_shape(shape)
    whole = isinstance(a, int | np.integer)
    if not whole and not isinstance(a, Array):
        a = asarray(a)
    length = int(a) if whole else a.shape[canonical_axis(axis, len(a.shape))]
    draws = prod(shape)
    if length < 1 and draws:
        raise ValueError("choice: there is nothing to draw from")
    if not replace and draws > length:
        raise ValueError(f"choice: {draws} parts of {length} cannot be drawn without replacement")
    if p is not None:
        p = asarray(*beside_draws("choice", p))
    if not whole:
        (a,) = beside_draws("choice", a)
    if p is not None and shape_of(p) != (length,):
        raise ShapeError(
            message(
                f"choice: probabilities of shape {shape_of(p)} for {length} parts",
                fix=f"give one probability for each, in shape ({length},)",
                number=16,
            )
        )
    if p is None:
        if replace:
            places = randint(key, shape, 0, length)
        else:
            places = ops.reshape(ops.index(permutation(key, length), slice(draws)), shape)
    elif replace:
        heights = ops.cumsum(ops.astype(p, np.float64))
        height = ops.multiply(fraction(key, shape, np.dtype(np.float64)), ops.index(heights, -1))
        # Rounding may lift a height to the last one, which belongs to no part.
        places = ops.minimum(searchsorted(heights, height, "right"), length - 1)
    else:
        # The largest sums of logits and Gumbel numbers: Vieira, "Gumbel-max trick", 2014.
        # Parts of probability zero come last.
        with errstate(divide="ignore"):
            logits = ops.log(ops.astype(p, np.float64))
        scores = ops.add(gumbel(key, (length,)), logits)
        order = ops.argsort(ops.negative(scores))
        places = ops.reshape(ops.index(order, slice(draws)), shape)
    return places if whole else ops.take(a, places, axis=axis)
