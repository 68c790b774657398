"""Dropout, whose mask is drawn again from its key and never kept."""

from __future__ import annotations

from math import prod

import numpy as np

from ...backends.annotations import Buffer, Shape
from ...backends.arrays import philox
from ..core.array import Array
from ..core.errors import misfit
from ..core.families import batch_filled
from ..core.primitive import Primitive
from ..core.shape_dtype import INEXACT, ShapeDtype
from ..core.test_samples import Operand, Sample
from .bits import KEY_NUMBERS, words_of_numpy

__all__ = ["dropout"]


def _infer_dropout(
    primitive: Primitive, x: ShapeDtype, key: ShapeDtype, *, rate: float
) -> ShapeDtype:
    batch = key.shape[:-1]
    if key.shape[-1:] != (2,) or x.shape[: len(batch)] != batch:
        raise misfit(
            f"dropout: an array of shape {x.shape} and keys of shape {key.shape}",
            "keys of shape (*batch, 2) go with an array of shape (*batch, ...)",
        )
    dtype = x.dtype if x.dtype.kind in INEXACT else np.divide(np.ones((), x.dtype), 0.5).dtype
    return ShapeDtype(x.shape, dtype)


def _again(g: Array, key: Array, rate: float) -> Array:
    """Drops the same elements of a cotangent or a tangent: dropout is linear."""
    return dropout.bind((g, key), {"rate": rate})


def _dropout_reference(x: Buffer, key: Buffer, *, rate: float) -> Buffer:
    batch = np.shape(key)[:-1]
    shape = np.shape(x)[len(batch) :]
    rows = [words_of_numpy(k, prod(shape), 32) for k in np.reshape(key, (-1, 2))]
    drawn = np.reshape(np.array(rows, "uint32"), np.shape(x))
    return np.where(drawn < rate * 2.0**32, 0, x / (1 - rate))


def _dropout_sample(batch: Shape, shape: Shape, rate: float) -> Sample:
    keys = Operand((*batch, 2), KEY_NUMBERS)
    return Sample(Operand((*batch, *shape)), keys, rate=rate)


dropout = Primitive(
    "dropout",
    compute=philox.dropout, infer=_infer_dropout, batch=batch_filled,
    vjp=(lambda g, y, *, rate: _again(g, y, rate), lambda g: None),
    jvp=(lambda t, y, *, rate: _again(t, y, rate), lambda t: None),
    movable=slice(1, 2), hosted=True, reference=_dropout_reference, dtypes="fdD",
    samples=[
        _dropout_sample((), (), 0.5), _dropout_sample((), (3, 5), 0.25),
        _dropout_sample((3,), (7,), 0.5), _dropout_sample((2, 2), (3, 0), 0.5),
        _dropout_sample((2,), (), 0.75),
    ],
    doc="""Returns x with elements set to zero at random, for every key its own.

    Args:
        x: an array of shape ``(*batch, *shape)``.
        key: integers of shape ``(*batch, 2)``, the 128 bits of each key.
        rate: the probability of every element to be dropped, at least 0 and less than 1.

    Returns:
        An array of x's shape: ``x / (1 - rate)`` where an element is kept, as the words of 32
        bits from the key's first stream tell. Srivastava et al., "Dropout", 2014.
    """,
)
