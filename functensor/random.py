"""Random numbers as functions of a key: the same key gives the same numbers, everywhere.

There is no state. A key used twice gives the same numbers twice: to draw anew, `split` it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, prod
from typing import Any

import numpy as np

from .numpy.searching import searchsorted
from .primitives.array import Array
from .primitives.errors import ShapeError, message
from .primitives.registry import registry as ops
from .primitives.rules import shape_of
from .primitives.types import broadcast_shapes, canonical_axis
from .quantile import normal_probability, normal_quantile
from .random_keys import (
    DRAWN,
    WORD,
    as_shape,
    bits,
    check_fit,
    fold_in,
    fraction,
    inner_fraction,
    key,
    real_dtype,
    split,
    words,
)

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "rademacher",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]

# -- uniform numbers


def uniform(
    key: Any,
    shape: Sequence[int] | int = (),
    dtype: Any = np.float64,
    minval: Any = 0.0,
    maxval: Any = 1.0,
) -> Any:
    """Returns numbers that are uniformly distributed on the interval [minval, maxval).

    Args:
        key: a key.
        shape: the result's shape.
        dtype: a real dtype.
        minval, maxval: the bounds; they broadcast to the shape, and derivatives flow to them.

    Returns:
        An array of that shape and dtype. The product with a wide interval may round up to maxval.

    >>> from functensor import random
    >>> x = random.uniform(random.key(0), (1000,), minval=-1.0)
    >>> bool((x >= -1).all() & (x < 1).all())
    True
    """
    dtype, shape = real_dtype(dtype, "uniform"), as_shape(shape)
    check_fit("uniform", shape, minval, maxval)
    unit = fraction(key, shape, dtype)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return unit
    low, high = ops.astype(minval, dtype), ops.astype(maxval, dtype)
    return ops.add(ops.multiply(unit, ops.subtract(high, low)), low)


def bernoulli(key: Any, p: Any = 0.5, shape: Sequence[int] | int | None = None) -> Any:
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
    shape = shape_of(p) if shape is None else as_shape(shape)
    check_fit("bernoulli", shape, p)
    return ops.less(fraction(key, shape, np.dtype(np.float64)), p)


def rademacher(key: Any, shape: Sequence[int] | int = (), dtype: Any = np.float64) -> Any:
    """Returns numbers that are 1 or -1 with equal probability.

    >>> from functensor import random
    >>> abs(random.rademacher(random.key(0), (3,)))
    Array([1., 1., 1.], dtype=float64, device='cpu')
    """
    coins = ops.right_shift(words(key, as_shape(shape), 8, DRAWN), 7)
    return ops.subtract(ops.multiply(ops.astype(coins, dtype), 2), 1)


def randint(
    key: Any, shape: Sequence[int] | int, minval: Any, maxval: Any, dtype: Any = np.int64
) -> Any:
    """Returns integers that are uniformly distributed from minval up to, not including, maxval.

    Args:
        key: a key.
        shape: the result's shape.
        minval, maxval: integers within the dtype; they broadcast to the shape.
        dtype: an integer dtype.

    Returns:
        An array of that shape and dtype. Probabilities differ by less than a factor of
        1 + (maxval - minval) / 2**64.

    Raises:
        ValueError: the bounds are plain numbers and there is no integer between them, or they do
            not fit the dtype.

    >>> from functensor import random
    >>> dice = random.randint(random.key(0), (100,), 1, 7)
    >>> int(dice.min()), int(dice.max())
    (1, 6)
    """
    dtype, shape = np.dtype(dtype), as_shape(shape)
    if dtype.kind not in "iu":
        raise TypeError(f"randint draws integers, not {dtype}")
    check_fit("randint", shape, minval, maxval)
    drawn = words(key, shape, 64, DRAWN)
    if isinstance(minval, int) and isinstance(maxval, int):
        info = np.iinfo(dtype)
        if not info.min <= minval < maxval <= info.max + 1:
            raise ValueError(f"randint: no {dtype} is at least {minval} and below {maxval}")
        span, low = (maxval - minval) % WORD, minval % WORD
        if span:
            drawn = ops.remainder(drawn, span)
        # Words of 64 bits wrap around, so that negative bounds come out right.
        return ops.astype(ops.add(drawn, low), dtype)
    low, high = ops.astype(minval, np.uint64), ops.astype(maxval, np.uint64)
    return ops.astype(ops.add(ops.remainder(drawn, ops.subtract(high, low)), low), dtype)


# -- other distributions


def normal(key: Any, shape: Sequence[int] | int = (), dtype: Any = np.float64) -> Any:
    """Returns numbers of the standard normal distribution.

    Scale and shift them, ``mean + std * normal(key, shape)``, for derivatives by mean and std.

    Args:
        key: a key.
        shape: the result's shape.
        dtype: a real or complex dtype; complex numbers have variance 1, half in each part.

    Returns:
        An array of that shape and dtype, by the method of Box and Muller, "A note on the
        generation of random normal deviates", 1958.

    >>> from functensor import random
    >>> x = random.normal(random.key(0), (10000,))
    >>> bool(abs(x.mean()) < 0.05), bool(abs(x.std() - 1) < 0.05)
    (True, True)
    """
    dtype, shape = np.dtype(dtype), as_shape(shape)
    if dtype.kind == "c":
        real = np.finfo(dtype).dtype
        parts = normal(key, (2, *shape), real)
        both = ops.add(ops.index(parts, 0), ops.multiply(ops.index(parts, 1), 1j))
        return ops.astype(ops.multiply(both, 0.5**0.5), dtype)
    wide = np.dtype(np.float32) if real_dtype(dtype, "normal").itemsize < 4 else dtype
    length = prod(shape)
    pairs = -(-length // 2)
    unit = fraction(key, (2, pairs), wide)
    # 1 - u is never zero, as u may be.
    radius = ops.sqrt(ops.multiply(ops.log(ops.subtract(1.0, ops.index(unit, 0))), -2.0))
    angle = ops.multiply(ops.index(unit, 1), 2 * pi)
    both = (ops.multiply(radius, ops.cos(angle)), ops.multiply(radius, ops.sin(angle)))
    flat = ops.concatenate(both)
    if 2 * pairs != length:
        flat = ops.index(flat, slice(length))
    return ops.astype(ops.reshape(flat, shape), dtype)


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Sequence[int] | int | None = None,
    dtype: Any = np.float64,
) -> Any:
    """Returns numbers of the standard normal distribution restricted to an interval.

    Args:
        key: a key.
        lower, upper: the bounds; they broadcast to the shape, and derivatives flow to them.
        shape: the result's shape; None stands for that to which the bounds broadcast.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype: the normal distribution's quantile of a uniform number.

    >>> from functensor import random
    >>> x = random.truncated_normal(random.key(0), -2.0, 2.0, (1000,))
    >>> bool((abs(x) <= 2).all())
    True
    """
    dtype = real_dtype(dtype, "truncated_normal")
    if shape is None:
        shape = broadcast_shapes("truncated_normal", shape_of(lower), shape_of(upper))
    shape = as_shape(shape)
    check_fit("truncated_normal", shape, lower, upper)
    low, high = ops.astype(lower, np.float64), ops.astype(upper, np.float64)
    # The distribution function is precise in the lower tail, so that an interval above zero is
    # drawn from as its mirror image.
    mirrored = ops.greater(ops.add(low, high), 0.0)
    below = ops.where(mirrored, ops.negative(high), low)
    above = ops.where(mirrored, ops.negative(low), high)
    start, end = normal_probability(below), normal_probability(above)
    unit = fraction(key, shape, np.dtype(np.float64))
    unit = ops.where(mirrored, ops.subtract(1.0, unit), unit)
    x = normal_quantile(ops.add(start, ops.multiply(unit, ops.subtract(end, start))))
    x = ops.clip(x, below, above)
    return ops.astype(ops.where(mirrored, ops.negative(x), x), dtype)


def exponential(key: Any, shape: Sequence[int] | int = (), dtype: Any = np.float64) -> Any:
    """Returns numbers of the exponential distribution of mean 1.

    >>> from functensor import random
    >>> bool((random.exponential(random.key(0), (100,)) >= 0).all())
    True
    """
    unit = fraction(key, as_shape(shape), real_dtype(dtype, "exponential"))
    return ops.negative(ops.log(ops.subtract(1.0, unit)))


def gumbel(key: Any, shape: Sequence[int] | int = (), dtype: Any = np.float64) -> Any:
    """Returns numbers of the standard Gumbel distribution, -log(-log(u)).

    >>> from functensor import random
    >>> random.gumbel(random.key(0), (3,), "float32").dtype
    dtype('float32')
    """
    return ops.negative(ops.log(ops.negative(ops.log(inner_fraction(key, shape, dtype, "gumbel")))))


def logistic(key: Any, shape: Sequence[int] | int = (), dtype: Any = np.float64) -> Any:
    """Returns numbers of the standard logistic distribution, log(u / (1 - u)).

    >>> from functensor import random
    >>> random.logistic(random.key(0), (2, 3)).shape
    (2, 3)
    """
    unit = inner_fraction(key, shape, dtype, "logistic")
    return ops.subtract(ops.log(unit), ops.log(ops.subtract(1.0, unit)))


def laplace(key: Any, shape: Sequence[int] | int = (), dtype: Any = np.float64) -> Any:
    """Returns numbers of the standard Laplace distribution, whose density is ``exp(-abs(x)) / 2``.

    >>> from functensor import random
    >>> random.laplace(random.key(0), (2, 3)).shape
    (2, 3)
    """
    unit = ops.subtract(ops.multiply(inner_fraction(key, shape, dtype, "laplace"), 2.0), 1.0)
    return ops.negative(ops.multiply(ops.sign(unit), ops.log(ops.subtract(1.0, ops.abs(unit)))))


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Sequence[int] | int | None = None
) -> Any:
    """Returns indices drawn with probabilities softmax(logits).

    Args:
        key: a key.
        logits: logarithms of probabilities, up to a constant.
        axis: the axis of the categories.
        shape: the result's shape, which ends in that of logits without the axis; None stands for
            no more than that.

    Returns:
        An array of ``int64``.

    >>> from functensor import random
    >>> import functensor.numpy as np
    >>> random.categorical(random.key(0), np.log(np.array([0.0, 1.0, 0.0]) + 1e-300), shape=(3,))
    Array([1, 1, 1], dtype=int64, device='cpu')
    """
    if not isinstance(logits, Array):
        logits = np.asarray(logits)
    axis = canonical_axis(axis, len(logits.shape))
    logits = ops.moveaxis(logits, axis, -1)
    rest = logits.shape[:-1]
    shape = rest if shape is None else as_shape(shape)
    check_fit("categorical", shape, np.empty(rest))
    dtype = logits.dtype if logits.dtype.kind == "f" else np.dtype(np.float64)
    return ops.argmax(ops.add(gumbel(key, (*shape, logits.shape[-1]), dtype), logits), axis=-1)


# -- orders and samples


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
        x = np.asarray(x)
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
        a = np.asarray(a)
    length = int(a) if whole else a.shape[axis]
    draws = prod(shape)
    if length < 1 and draws:
        raise ValueError("choice: there is nothing to draw from")
    if not replace and draws > length:
        raise ValueError(f"choice: {draws} parts of {length} cannot be drawn without replacement")
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
        with np.errstate(divide="ignore"):
            logits = ops.log(ops.astype(p, np.float64))
        scores = ops.add(gumbel(key, (length,)), logits)
        order = ops.argsort(ops.negative(scores))
        places = ops.reshape(ops.index(order, slice(draws)), shape)
    return places if whole else ops.take(a, places, axis=axis)
