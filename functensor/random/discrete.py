"""Distributions of integers and of truth values."""

from __future__ import annotations

import numpy as np

from ..backends.annotations import DType, DTypeLike, ShapeLike
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import REAL, canonical_axis, shape_dtype
from ..primitives.random.bits import DRAWN
from ..primitives.random.rejection import random_binomial, random_poisson
from .continuous import gumbel
from .keys import (
    KEY_WORD_VALUES,
    RandomKey,
    beside_draws,
    check_fit,
    checked_key,
    fraction,
    inner_fraction,
    real_parameters,
    shape_for,
    shape_of_draws,
    split,
    words,
)

__all__ = [
    "bernoulli", "binomial", "categorical", "geometric", "multinomial", "poisson", "rademacher",
    "randint",
]  # fmt: skip


def bernoulli(key: RandomKey, p: ArrayLike = 0.5, shape: ShapeLike | None = None) -> Array:
    """Returns booleans that are true with probability p.

    Args:
        key: a key.
        p: the probability, a number or an array.
        shape: the result's shape; None stands for that of p.

    Returns:
        An array of ``bool``.

    >>> from functensor import random
    >>> random.bernoulli(random.key(0), 0.3, (2, 3)).shape
    (2, 3)
    """
    (p,) = beside_draws("bernoulli", p)
    shape = shape_for("bernoulli", shape, p)
    return ops.less(fraction(key, shape, np.dtype(np.float64)), p)


def rademacher(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.float64) -> Array:
    """Returns numbers that are 1 or -1 with equal probability.

    Args:
        key: a key; see `key`.
        shape: the shape of the result.
        dtype: the dtype of the result.

    >>> from functensor import random
    >>> abs(random.rademacher(random.key(0), (3,)))
    Array([1., 1., 1.], dtype=float64, device='cpu')
    """
    coins = ops.right_shift(words(key, shape_of_draws(shape), 8, DRAWN), 7)
    return ops.subtract(ops.multiply(ops.astype(coins, dtype), 2), 1)


def randint(
    key: RandomKey,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike = np.int64,
) -> Array:
    """Returns integers that are uniformly distributed from minval up to, not including, maxval.

    Args:
        key: a key.
        shape: the result's shape.
        minval, maxval: integers within the dtype; they broadcast to the shape.
        dtype: an integer dtype.

    Returns:
        An array of that shape and dtype. Probabilities differ by a factor of at most
        1 + 1 / (2**64 // (maxval - minval)).

    Raises:
        ValueError: the bounds are plain numbers and there is no integer between them, or they do
            not fit the dtype. (Bounds that are arrays are clipped to the dtype, and where there is
            no integer between them the result is minval.)

    >>> from functensor import random
    >>> dice = random.randint(random.key(0), (100,), 1, 7)
    >>> int(dice.min()), int(dice.max())
    (1, 6)
    """
    dtype, shape = np.dtype(dtype), shape_of_draws(shape)
    if dtype.kind not in "iu":
        raise TypeError(f"randint draws integers, not {dtype}")
    check_fit("randint", shape, minval, maxval)
    drawn = words(key, shape, 64, DRAWN)
    if isinstance(minval, int) and isinstance(maxval, int):
        info = np.iinfo(dtype)
        if not info.min <= minval < maxval <= info.max + 1:
            raise ValueError(f"randint: no {dtype} is at least {minval} and below {maxval}")
        span, low = (maxval - minval) % KEY_WORD_VALUES, minval % KEY_WORD_VALUES
        if span:
            drawn = ops.remainder(drawn, span)
        # Words of 64 bits wrap around, so that negative bounds come out right.
        return ops.astype(ops.add(drawn, low), dtype)
    least, last = _within(dtype, minval, 0), _within(dtype, maxval, 1)
    width = ops.subtract(ops.astype(last, np.uint64), ops.astype(least, np.uint64))
    # Bounds with nothing between them give minval; a count of 0 stands for all 2**64 words.
    width = ops.where(ops.less(last, least), np.uint64(0), width)
    count = ops.add(width, np.uint64(1))
    endless = ops.equal(count, 0)
    drawn = ops.where(endless, drawn, ops.remainder(drawn, ops.where(endless, 1, count)))
    return ops.astype(ops.add(drawn, ops.astype(least, np.uint64)), dtype)


def _within(dtype: DType, bound: ArrayLike, less: int) -> Array | np.generic:
    """Returns a bound of integers, clipped to a dtype, less 0 or 1, in that dtype."""
    limits = np.iinfo(dtype)
    if isinstance(bound, int | np.integer):
        whole: np.generic = dtype.type(min(max(int(bound) - less, limits.min), limits.max))
        return whole
    (bound,) = beside_draws("randint", bound)
    kind = shape_dtype(bound).dtype
    if kind != np.uint64:
        bound, kind = ops.astype(bound, np.int64), np.dtype(np.int64)
    own = np.iinfo(kind)
    # 1 can be taken away; an unsigned 0 becomes all bits, which are -1 where that is in the dtype.
    bottom, top = max(limits.min + less, own.min), min(limits.max + less, own.max)
    clipped = ops.clip(bound, kind.type(bottom), kind.type(top))
    return ops.astype(ops.subtract(clipped, kind.type(less)), dtype)


def categorical(
    key: RandomKey, logits: ArrayLike, axis: int = -1, shape: ShapeLike | None = None
) -> Array:
    """Returns indices drawn with probabilities softmax(logits).

    Args:
        key: a key.
        logits: logarithms of probabilities, up to a constant.
        axis: the axis of the categories.
        shape: the result's shape, which ends in that of logits without the axis; None stands for
            the shape of logits without the axis.

    Returns:
        An array of ``int64``.

    >>> from functensor import random
    >>> import functensor.numpy as np
    >>> random.categorical(random.key(0), np.log(np.array([0.0, 1.0, 0.0]) + 1e-300), shape=(3,))
    Array([1, 1, 1], dtype=int64, device='cpu')
    """
    logits = logits if isinstance(logits, Array) else asarray(logits)
    (logits,) = beside_draws("categorical", logits)
    axis = canonical_axis(axis, len(logits.shape))
    logits = ops.moveaxis(logits, axis, -1)
    rest = logits.shape[:-1]
    shape = rest if shape is None else shape_of_draws(shape)
    check_fit("categorical", shape, np.empty(rest))
    dtype = logits.dtype if logits.dtype.kind in REAL else np.dtype(np.float64)
    return ops.argmax(ops.add(gumbel(key, (*shape, logits.shape[-1]), dtype), logits), axis=-1)


# -- counts. They have no derivatives.


def poisson(
    key: RandomKey, lam: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.int64
) -> Array:
    """Returns numbers of events, of a known mean, that happen independently of each other.

    Args:
        key: a key.
        lam: the mean, from 0 to 2**62.
        shape: the result's shape; None stands for that of lam.
        dtype: an integer or real dtype.

    Returns:
        An array of that shape and dtype; -1 where lam is negative or NaN. Means below 10 by
        inversion, others by W. Hörmann's PTRS, "The transformed rejection method for generating
        Poisson random variables", 1993.

    >>> from functensor import random
    >>> x = random.poisson(random.key(0), 3.0, (10000,))
    >>> bool(abs(x.mean() - 3) < 0.1)
    True
    """
    shape, (lam,) = real_parameters("poisson", shape, np.float64, lam)
    drawn = random_poisson.bind((checked_key(key), ops.broadcast_to(lam, shape)), {})
    return _counts(drawn, dtype)


def binomial(
    key: RandomKey,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.int64,
) -> Array:
    """Returns how many of n independent trials succeed, each with probability p.

    Args:
        key: a key.
        n: how many trials, up to 2**62.
        p: the probability of success; it broadcasts with n.
        shape: the result's shape; None stands for that to which n and p broadcast.
        dtype: an integer or real dtype.

    Returns:
        An array of that shape and dtype; -1 where n is negative or p is no probability. Small
        means by inversion, others by W. Hörmann's BTRS, "The generation of binomial random
        variates", 1993.

    >>> from functensor import random
    >>> random.binomial(random.key(0), 10, [0.0, 1.0])
    Array([ 0, 10], dtype=int64, device='cpu')
    """
    shape, given = real_parameters("binomial", shape, np.float64, n, p)
    spread = (ops.broadcast_to(x, shape) for x in given)
    return _counts(random_binomial.bind((checked_key(key), *spread), {}), dtype)


def geometric(
    key: RandomKey, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.int64
) -> Array:
    """Returns how many trials it takes to the first success, from 1 up.

    Args:
        key: a key.
        p: the probability of success, above 0 and up to 1.
        shape: the result's shape; None stands for that of p.
        dtype: an integer or real dtype.

    Returns:
        An array of that shape and dtype, by inversion; -1 where p is no such probability.

    >>> from functensor import random
    >>> random.geometric(random.key(0), 1.0, (3,))
    Array([1, 1, 1], dtype=int64, device='cpu')
    """
    shape, (p,) = real_parameters("geometric", shape, np.float64, ops.stop_gradient(p))
    waited = ops.log(inner_fraction(key, shape, np.float64, "geometric"))
    between = ops.logical_and(ops.greater(p, 0.0), ops.less(p, 1.0))
    rate = ops.negative(ops.log1p(ops.negative(ops.where(between, p, 0.5))))
    number = ops.add(ops.floor(ops.divide(ops.negative(waited), rate)), 1.0)
    other = ops.where(ops.equal(p, 1.0), 1.0, -1.0)
    return _counts(ops.where(between, ops.minimum(number, 2.0**62), other), dtype)


def _counts(numbers: Array, dtype: DTypeLike) -> Array:
    """Returns counts in a dtype, its largest number in place of those beyond it."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu" and dtype.itemsize < 8:
        numbers = ops.minimum(numbers, np.iinfo(dtype).max)
    return ops.astype(numbers, dtype)


def multinomial(
    key: RandomKey,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.int64,
) -> Array:
    """Returns how many of n independent draws fall to each category.

    Args:
        key: a key.
        n: how many draws; its shape broadcasts with that of p without the last axis.
        p: the probability of each category, along the last axis, in any scale.
        shape: the result's shape without the categories; None stands for what n and p give.
        dtype: an integer or real dtype.

    Returns:
        An array of shape ``(*shape, categories)`` and that dtype: binomial numbers, each of what
        the categories before it have left.

    >>> from functensor import random
    >>> random.multinomial(random.key(0), 100, [0.2, 0.3, 0.5]).sum()
    Array(100, dtype=int64, device='cpu')
    """
    n, p = map(asarray, beside_draws("multinomial", n, p))
    p = ops.astype(p, np.float64)
    categories = p.shape[-1]
    shape = shape_for("multinomial", shape, n, np.empty(p.shape[:-1]))
    # The share of each category among itself and those behind it.
    rest = ops.flip(ops.cumsum(ops.flip(p, axis=-1), axis=-1), axis=-1)
    share = ops.clip(ops.divide(p, ops.where(ops.greater(rest, 0.0), rest, 1.0)), 0.0, 1.0)
    left = ops.broadcast_to(n, shape)
    counts = []
    keys = split(key, max(categories - 1, 1))
    for i in range(categories - 1):
        count = binomial(ops.index(keys, i), left, ops.index(share, (..., i)), shape)
        counts.append(count)
        left = ops.subtract(left, count)
    return _counts(ops.stack([*counts, left], axis=-1), dtype)
