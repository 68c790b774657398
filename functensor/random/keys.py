"""Keys, and the random words that they stand for.

The package says how key and counter are laid out. A key's streams never meet: a child's numbers
are independent of its parent's and of its siblings', and `split(key, 2)` begins as `split(key, 3)`
does. Bits are the same on every backend; numbers made of them are too, up to the last digits of
the backend's logarithm and cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TypeAlias, overload

import numpy as np

from ..backends.annotations import Buffer, DType, DTypeLike, Shape, ShapeLike
from ..backends.devices import placement
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike, Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside, device_of, wrap
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import ConcretizationError, DeviceError, describe, failure, misfit
from ..primitives.core.shape_dtype import REAL, broadcast_shapes, finfo, number_dtype
from ..primitives.random.bits import DRAWN, FOLDED, SPLIT, random_bits, random_keys
from .key_reuse import ledger

__all__ = [
    "PRNGKey", "RandomKey", "beside_draws", "bits", "check_fit", "checked_key", "fold_in",
    "fraction", "inner_fraction", "key", "real_dtype", "real_parameters", "shape_for",
    "shape_of_draws", "split", "words",
]  # fmt: skip

# Functions take these for a key; functions that make a key return an Array.
RandomKey: TypeAlias = Array | Buffer

KEY_BITS = 128
KEY_WORD_VALUES = 2**64


def key(seed: Array | Buffer | np.generic | int) -> Array:
    """Returns the key that belongs to a seed.

    Args:
        seed: an integer from 0 to 2**128 - 1, or an integer array without axes.

    Returns:
        An array of ``uint64`` of shape ``(2,)``: the seed's low and high word.

    >>> from functensor import random
    >>> random.key(42)
    Array([42,  0], dtype=uint64, device='cpu')
    """
    if isinstance(seed, Array | np.generic | np.ndarray):
        if seed.dtype.kind not in "iu" or seed.shape != ():
            raise TypeError(f"a seed is an integer without axes, not {describe(seed)}")
        low = ops.reshape(ops.astype(seed, np.uint64), (1,))
        return ops.concatenate((low, beside(low, np.zeros(1, np.uint64))))
    if not isinstance(seed, int):
        raise TypeError(f"a seed is an integer, not {type(seed).__name__}")
    if not 0 <= seed < 2**KEY_BITS:
        raise ValueError(f"a seed lies between 0 and 2**{KEY_BITS} - 1; {seed} does not")
    made = np.array([seed % KEY_WORD_VALUES, seed // KEY_WORD_VALUES], np.uint64)
    if ledger.active:
        ledger.forget(made)
    return wrap(made)


# JAX's older name of it.
PRNGKey = key


def split(key: RandomKey, num: ShapeLike = 2) -> Array:
    """Returns new keys, independent of each other and of the key.

    Args:
        key: a key.
        num: how many, or the shape of an array of keys.

    Returns:
        An array of ``uint64`` of shape ``(num, 2)``, or ``(*num, 2)``: it can be unpacked,
        indexed, and mapped over by ``vmap``.

    >>> from functensor import random
    >>> weights, bias = random.split(random.key(0))
    >>> random.split(random.key(0), 3).shape
    (3, 2)
    """
    return words(key, (*shape_of_draws(num), 2), 64, SPLIT)


def fold_in(key: RandomKey, data: ArrayLike) -> Array:
    """Returns a new key made of a key and a number, such as the number of a step.

    Args:
        key: a key.
        data: an integer without axes; it may be traced.

    Returns:
        A key, an array of ``uint64`` of shape ``(2,)``.

    >>> from functensor import random
    >>> step_key = random.fold_in(random.key(0), 1000)
    """
    if not isinstance(data, Array):
        data = np.asarray(data)
    if data.dtype.kind not in "iu" or data.shape != ():
        raise TypeError(f"fold_in takes an integer without axes, not {describe(data)}")
    start = ops.astype(data, np.uint64)
    return words(key, (2,), 64, FOLDED, start=start, use=False)


def bits(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.uint64) -> Array:
    """Returns uniformly distributed random bits.

    Args:
        key: a key.
        shape: the result's shape.
        dtype: ``uint8``, ``uint16``, ``uint32`` or ``uint64``.

    Returns:
        An array of that shape and dtype: the stream of ``numpy.random.Philox(key=key)``.

    >>> from functensor import random
    >>> random.bits(random.key(0), (2,), "uint8").dtype
    dtype('uint8')
    """
    dtype = np.dtype(dtype)
    if dtype.kind != "u":
        raise TypeError(f"bits come as unsigned integers, not {dtype}")
    return words(key, shape_of_draws(shape), dtype.itemsize * 8, DRAWN)


# -- parts that distributions share


def checked_key(key: RandomKey, use: bool = True) -> RandomKey:
    """Returns a key of which numbers or keys are to be drawn.

    Args:
        key: what should be a key.
        use: whether this counts as the one use that a key has.

    Raises:
        TypeError: it is no key.
    """
    if not isinstance(key, Array | np.ndarray) or key.dtype != np.uint64 or key.shape != (2,):
        got = describe(key)
        fix = "random.key(seed) makes one, random.split(key) more of one"
        if got.startswith("uint64"):
            fix = "take one of the keys, keys[i], or map over them with ft.vmap"
        raise TypeError(f"expected a key, uint64[2], got {got}; {fix}")
    if use and ledger.active:
        ledger.consume(key)
    return key


def words(
    key: RandomKey, shape: Shape, width: int, stream: int, start: ArrayLike = 0, use: bool = True
) -> Array:
    """Returns words of a number of bits from one of a key's streams, from block ``start`` on.

    Raises:
        TypeError: it is no key.
    """
    params = {"shape": shape, "bits": width, "stream": stream}
    draw = random_bits if stream == DRAWN else random_keys
    drawn: Array = draw.bind((checked_key(key, use), start), params)
    return drawn


def shape_of_draws(shape: ShapeLike) -> Shape:
    """Returns a shape that may be given as one integer."""
    lengths = shape if isinstance(shape, Sequence) else (shape,)
    try:
        wanted = tuple(map(index, lengths))
    except ConcretizationError:
        raise
    except TypeError:
        raise TypeError(
            f"a shape is an integer or a tuple of integers, not {shape!r:.60}; parameters that "
            "come after it go by keyword"
        ) from None
    if wanted and min(wanted) < 0:
        raise ValueError(f"a shape has lengths from 0 up, not {shape!r}")
    return wanted


def real_dtype(dtype: DTypeLike, name: str) -> DType:
    """Returns a dtype in which numbers can be drawn.

    Raises:
        TypeError: it is not real.
    """
    real = number_dtype(dtype)
    if real.kind not in REAL or real.itemsize > 8:
        raise TypeError(f"{name} draws float16, bfloat16, float32 or float64, not {real}")
    return real


def check_fit(name: str, shape: Shape, *parameters: ArrayLike) -> None:
    """Checks that parameters broadcast to the shape that was asked for.

    Raises:
        ShapeError: they do not.
    """
    if broadcast_shapes(name, shape, *map(shape_of, parameters)) != shape:
        raise misfit(
            f"{name}: parameters of shape {' and '.join(str(shape_of(p)) for p in parameters)} "
            f"do not broadcast to the shape {shape}",
            "pass shape=, the shape of the result, parameters' axes included",
        )


def shape_for(name: str, shape: ShapeLike | None, *parameters: ArrayLike) -> Shape:
    """Returns the shape that was asked for, or with None that to which the parameters broadcast.

    Raises:
        ShapeError: parameters do not broadcast to it.
    """
    if shape is None:
        return broadcast_shapes(name, *map(shape_of, parameters))
    shape = shape_of_draws(shape)
    check_fit(name, shape, *parameters)
    return shape


def real_parameters(
    name: str, shape: ShapeLike | None, dtype: DTypeLike, *parameters: ArrayLike
) -> tuple[Shape, list[Array]]:
    """Returns the result's shape and the parameters in its real dtype.

    Raises:
        TypeError: the dtype is not real.
        ShapeError: parameters do not broadcast to the shape that was asked for.
    """
    dtype = real_dtype(dtype, name)
    arrays = beside_draws(name, *parameters)
    return shape_for(name, shape, *arrays), [ops.astype(x, dtype) for x in arrays]


@overload
def beside_draws(name: str, *parameters: Array) -> Sequence[Array]: ...
@overload
def beside_draws(name: str, *parameters: ArrayLike) -> Sequence[Value | np.generic]: ...
def beside_draws(name: str, *parameters: ArrayLike) -> Sequence[Value | np.generic]:
    """Returns parameters where numbers are drawn, on the default device.

    Python's numbers stay unchanged on the CPU, which computes with them directly.

    Raises:
        DeviceError: one is an array with axes on another device.
    """
    device = placement.device
    return [_beside_draws(name, x, device) for x in parameters]


def _beside_draws(name: str, x: ArrayLike, device: str) -> Value | np.generic:
    if isinstance(x, Sequence):
        return asarray(x)
    place = device_of(x)
    if place == device:
        return x
    if shape_of(x) == ():
        return ops.to_device(x, device)
    raise failure(
        DeviceError,
        f"{name}: a parameter {describe(x)} is on {place}, but numbers are drawn on {device}",
        fix=f'with ft.default_device("{place}"): ..., or ft.to_device(x, "{device}")',
        number=14,
    )


def fraction(key: RandomKey, shape: Shape, dtype: DType, spare: int = 0) -> Array:
    """Returns floats uniform on [0, 1) of as many binary digits as the dtype holds, or fewer."""
    width = dtype.itemsize * 8
    digits = finfo(dtype).nmant + 1 - spare
    drawn = words(key, shape, width, DRAWN)
    top = ops.astype(ops.right_shift(drawn, width - digits), dtype)
    return ops.multiply(top, 0.5**digits)


def inner_fraction(key: RandomKey, shape: ShapeLike, dtype: DTypeLike, name: str) -> Array:
    """Returns floats uniform on the open interval (0, 1): the centres of equal parts of it."""
    dtype = real_dtype(dtype, name)
    # One digit is left for the half.
    return ops.add(fraction(key, shape_of_draws(shape), dtype, 1), 0.5 ** (finfo(dtype).nmant + 1))
