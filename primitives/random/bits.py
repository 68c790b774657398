"""Random bits: a function of a key, without any state."""

from __future__ import annotations

from math import prod

import numpy as np

from ...backends.annotations import Buffer, Shape
from ...backends.arrays import philox
from ..core.errors import misfit
from ..core.families import batch_filled
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype
from ..core.test_samples import Domain, Operand, Sample

__all__ = ["DRAWN", "FOLDED", "SPLIT", "STREAMED", "random_bits", "random_keys"]

# The streams of a key: of numbers, of keys that it is split into, of keys made of it and a number,
# and of those that a `KeyStream` gives.
DRAWN, SPLIT, FOLDED, STREAMED = 0, 1, 2, 3

KEY_NUMBERS = Domain(0, 1000, kind="i")


def _infer_bits(
    primitive: Primitive,
    key: ShapeDtype,
    start: ShapeDtype,
    *,
    shape: Shape,
    bits: int,
    stream: int,
) -> ShapeDtype:
    if key.shape[-1:] != (2,) or key.shape[:-1] != start.shape:
        raise misfit(
            f"random_bits: keys of shape {key.shape} and starts of shape {start.shape}",
            "keys of shape (*batch, 2) go with starts of shape batch",
        )
    return ShapeDtype((*start.shape, *shape), f"uint{bits}")


def words_of_numpy(key: Buffer, count: int, bits: int, start: int = 0, stream: int = 0) -> Buffer:
    """Returns words of random bits as NumPy's generator gives them, with which tests compare."""
    counter = np.array([np.asarray(start).astype("uint64"), 0, 0, stream], "uint64")
    words = np.random.Philox(key=np.asarray(key).astype("uint64"), counter=counter)
    return words.random_raw(count).view(f"uint{bits}")[:count]


def _bits_reference(key: Buffer, start: Buffer, *, shape: Shape, bits: int, stream: int) -> Buffer:
    rows = [
        words_of_numpy(k, prod(shape), bits, s, stream).reshape(shape)
        for k, s in zip(np.reshape(key, (-1, 2)), np.reshape(start, -1), strict=True)
    ]
    return np.reshape(np.array(rows, f"uint{bits}"), (*np.shape(start), *shape))


def _bits_sample(batch: Shape, shape: Shape, bits: int) -> Sample:
    operands = Operand((*batch, 2), KEY_NUMBERS), Operand(batch, KEY_NUMBERS)
    return Sample(*operands, shape=shape, bits=bits, stream=3)


def _drawing(name: str, creates: bool, where: str) -> Primitive:
    """Declares a primitive that draws words, on the default device or beside the keys."""
    return Primitive(
        name,
        compute=philox.random_bits, infer=_infer_bits, batch=batch_filled, constant=True,
        movable=slice(0, None), creates=creates, hosted=True, reference=_bits_reference,
        samples=[
            _bits_sample((), (), 64), _bits_sample((), (2, 3), 32), _bits_sample((3,), (5,), 16),
            _bits_sample((2, 2), (3, 0), 64), _bits_sample((20,), (7,), 8),
        ],
        doc=f"""Returns words of random bits by Philox4x64-10, {where}, for every key its own.
{BITS_ARGUMENTS}""",
    )


BITS_ARGUMENTS = """
    Args:
        key: integers of shape ``(*batch, 2)``, the 128 bits of each key.
        start: integers of shape ``batch``: after which block of four 64-bit words to start.
        shape: how many words for every key.
        bits: the width of a word: 8, 16, 32 or 64.
        stream: which of the streams of a key, from 0 up.

    Returns:
        Unsigned integers of that width, of shape ``(*batch, *shape)``.
    """

random_bits = _drawing("random_bits", True, "on the default device")
# New keys stay where the keys are, usually on the host: kernels get them by value.
random_keys = _drawing("random_keys", False, "where the key is")
