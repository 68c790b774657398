"""Arrays of every dtype, layout and special value that Hypothesis draws."""

import numpy as np
from hypothesis import strategies as st

__all__ = ["DTYPES", "laid_out", "operands", "values_of"]

DTYPES = ["f4", "f8", "f4", "f8", "f2", "i4", "i8", "i1", "i2", "u1", "u2", "u4", "u8", "?"]
LENGTHS = [1, 2, 3, 0, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 101, 257]
LARGEST_OPERAND = 6000
SPECIALS = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-30, 1e30]
LAYOUTS = [
    *("plain", "plain", "fortran", "reversed", "strided", "swapped", "repeated", "read-only"),
    "unaligned",
]


def values_of(shape, dtype, special, seed):
    """Returns an array of random values, some of them special ones."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.random(shape) > 0.5)
    if kind in "iu":
        found = np.asarray(rng.integers(-5 if kind == "i" else 0, 7, shape)).astype(dtype)
        extremes = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0]
    else:
        with np.errstate(over="ignore"):
            found = np.asarray(rng.normal(size=shape)).astype(dtype)
            extremes = np.asarray(SPECIALS).astype(dtype)
    if special and found.size:
        chosen = np.asarray(rng.choice(np.asarray(extremes, dtype), shape))
        found = np.where(rng.random(shape) < 0.3, chosen, found)
    return found


def laid_out(x, layout):
    """Returns an array of the same values that lies otherwise in memory."""
    if layout == "read-only":
        x = x.copy()
        x.flags.writeable = False
    if not x.ndim or not x.size:
        return x
    match layout:
        case "fortran":
            return np.asfortranarray(x)
        case "reversed":
            return x[..., ::-1].copy()[..., ::-1]
        case "strided":
            return np.repeat(x, 2, axis=-1)[..., ::2]
        case "swapped":
            return np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)
        case "repeated":
            return np.broadcast_to(x[:1].copy(), x.shape)
        case "unaligned":
            room = np.zeros(x.nbytes + 1, np.uint8)
            moved = np.ndarray(x.shape, x.dtype, buffer=room, offset=1)
            moved[...] = x
            return moved
    return x


@st.composite
def shapes(draw):
    """Draws shapes that broadcast against each other."""
    base = draw(st.lists(st.sampled_from(LENGTHS), max_size=4))
    while np.prod(base) > LARGEST_OPERAND:
        base = base[1:]
    found = [tuple(base)]
    for _ in range(draw(st.integers(0, 2))):
        ones = draw(st.integers(0, 255))
        shape = [1 if ones >> (2 * i) & 3 == 3 else n for i, n in enumerate(base)]
        found.append(tuple(shape[draw(st.sampled_from([0, 0, 0, 1, 2])) :]))
    return found


@st.composite
def operands(draw):
    """Draws one to three arrays, and the same ones again with other values and layouts."""
    first, second = [], []
    for number, shape in enumerate(draw(shapes())):
        alias = draw(st.integers(0, 9)) if number else 0
        if alias == 9:
            for found in (first, second):
                found.append(found[0])
            continue
        if alias == 8:
            for found in (first, second):
                found.append(found[0].T)
            continue
        dtype, special = draw(st.sampled_from(DTYPES)), draw(st.booleans())
        seed = draw(st.integers(0, 999))
        for found, more in ((first, 0), (second, 1000)):
            x = values_of(shape, dtype, special, seed + more)
            found.append(laid_out(x, draw(st.sampled_from(LAYOUTS))))
    return first, second
