"""Keys with index arrays for the tests of indexing on a GPU, and arrays to use them on."""

import ml_dtypes
import numpy as np

from functensor.primitives.core.index_key import ARRAY
from functensor.primitives.core.index_key import IndexKey as Key

FULL = slice(None)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(c) for c in ("e", "f", "d", "F", "D", "i", "l", "b", "B", "?")] + [BFLOAT16]

# The array's shape, the key, and the shapes of its index arrays; an axis may have few places, so
# that they repeat.
KEYS = {
    "rows": ((5, 12), (ARRAY,), [(40,)]),
    "long rows": ((3, 1031), (ARRAY,), [(70,)]),
    "elements": ((7,), (ARRAY,), [(300,)]),
    "one element": ((4, 3), (1, ARRAY), [(1,)]),
    "columns": ((6, 5), (FULL, ARRAY), [(4, 2)]),
    "columns of rows": ((2, 3, 4, 8), (FULL, ARRAY), [(9,)]),
    "pairs": ((4, 5, 3), (ARRAY, ARRAY), [(20,), (20,)]),
    "broadcast pairs": ((3, 4, 5), (FULL, ARRAY, ARRAY), [(3, 1), (4,)]),
    "apart": ((3, 4, 5), (ARRAY, FULL, ARRAY), [(6,), (2, 6)]),
    "apart with more axes": ((3, 4, 5, 2), (ARRAY, FULL, ARRAY), [(6,), (6,)]),
    "four": ((2, 3, 2, 3, 2), (ARRAY, ARRAY, ARRAY, ARRAY), [(2, 1), (4,), (2, 4), ()]),
    "backwards": ((6, 4, 7), (slice(None, None, -2), ARRAY, slice(1, 6, 2)), [(5,)]),
    "beside integers": ((4, 3, 5), (2, FULL, ARRAY), [(3,)]),
    "new axes": ((4, 3), (None, ARRAY, Ellipsis, None), [(3,)]),
    "no places": ((4, 3), (ARRAY,), [(0,)]),
    "no columns": ((4, 0), (ARRAY,), [(3,)]),
    "number": ((4, 6), (ARRAY,), [()]),
}


def case(name, seed=0, dtype="int64"):
    """Returns a key, its index arrays and the shape of the array, by the case's name."""
    shape, native, shapes = KEYS[name]
    generator = np.random.default_rng(seed)
    lengths, axis = [], 0
    taken = sum(item is not None and item is not Ellipsis for item in native)
    for item in native:
        if item is Ellipsis:
            axis += len(shape) - taken
        elif item is not None:
            if item == ARRAY:
                lengths.append(shape[axis])
            axis += 1
    signed = np.dtype(dtype).kind == "i"
    indices = [
        np.asarray(generator.integers(-length * signed, length, size), dtype)
        for length, size in zip(lengths, shapes, strict=True)
    ]
    return Key(native, len(shapes)), indices, shape


def values(shape, dtype, seed=1):
    """Returns numbers of a dtype, small enough for sums of some hundred of them."""
    generator = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        low = 0 if dtype.kind in "bu" else -3
        return generator.integers(low, 2 if dtype.kind == "b" else 4, shape).astype(dtype)
    out = generator.standard_normal(shape)
    if dtype.kind == "c":
        out = out + 1j * generator.standard_normal(shape)
    return out.astype(dtype)


def resolution(dtype):
    """Returns the relative distance of neighbouring numbers of a dtype, zero for integers."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps if dtype == BFLOAT16 else np.finfo(dtype).eps)
