"""Random orders and samples of the parts of arrays."""

from __future__ import annotations

from math import prod

import numpy as np

from ..backends.annotations import Buffer, ShapeLike
from ..backends.restoring import errstate
from ..numpy.creation import asarray
from ..numpy.known_values import is_at_hand, value_of
from ..numpy.searching import searchsorted
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import misfit
from ..primitives.core.shape_dtype import canonical_axis
from ..primitives.random.bits import DRAWN
from .continuous import gumbel
from .discrete import randint
from .keys import RandomKey, beside_draws, fraction, shape_of_draws, words

__all__ = ["choice", "permutation"]


def permutation(key: RandomKey, x: ArrayLike, axis: int = 0, *, independent: bool = False) -> Array:
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
    x = x if isinstance(x, Array) else asarray(x)
    (x,) = beside_draws("permutation", x)
    axis = canonical_axis(axis, len(x.shape))
    if independent:
        order = ops.argsort(words(key, x.shape, 64, DRAWN), axis=axis)
        return ops.take_along_axis(x, order, axis=axis)
    return ops.take(x, ops.argsort(words(key, (x.shape[axis],), 64, DRAWN)), axis=axis)


def choice(
    key: RandomKey,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Array:
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
        ValueError: the sample without replacement is larger than the array that it is drawn from,
            or than the number of its parts with a probability above zero; or probabilities, where
            they are known, are negative, not finite, or all zero.

    >>> from functensor import random
    >>> sorted(random.choice(random.key(0), 3, (3,), replace=False).tolist())
    [0, 1, 2]
    """
    shape = shape_of_draws(shape)
    parts: Array | None = None
    if isinstance(a, int | np.integer):
        length = int(a)
    else:
        parts = a if isinstance(a, Array) else asarray(a)
        length = parts.shape[canonical_axis(axis, len(parts.shape))]
    draws = prod(shape)
    if length < 1 and draws:
        raise ValueError("choice: there is nothing to draw from")
    if not replace and draws > length:
        raise ValueError(f"choice: {draws} parts of {length} cannot be drawn without replacement")
    if parts is not None:
        (parts,) = beside_draws("choice", parts)
    if p is not None:
        p = asarray(beside_draws("choice", p)[0])
        if shape_of(p) != (length,):
            raise misfit(
                f"choice: probabilities of shape {shape_of(p)} for {length} parts",
                f"give one probability for each, in shape ({length},)",
            )
        if is_at_hand(p):
            _check_probabilities(np.asarray(value_of("choice", p, "")), 0 if replace else draws)
    if not length:
        places = asarray(np.zeros(shape, np.int64))
    elif p is None:
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
    return places if parts is None else ops.take(parts, places, axis=axis)


def _check_probabilities(p: Buffer, parts: int) -> None:
    """Checks probabilities in any scale, of which so many are to be above zero.

    Raises:
        ValueError: one is negative or not finite, or fewer than these, or none, are above zero.
    """
    if not (p >= 0).all() or not np.isfinite(p).all():
        raise ValueError(f"choice: probabilities are finite, and not negative: {p}")
    above = np.count_nonzero(p)
    if above < max(parts, 1) and p.size:
        raise ValueError(
            f"choice: {max(parts, 1)} parts are to be drawn, and {above} have a probability above "
            "zero"
        )
