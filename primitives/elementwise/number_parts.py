"""Parts of numbers: common divisors, bits, mantissas, exponents and fractions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, DType
from ..core.annotations import Value
from ..core.annotations import operations as ops
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import binary, unary
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype, finfo, result_type, shape_dtype
from ..core.test_samples import INTEGER, NONZERO, REAL, Domain, Operand, Sample

__all__ = [
    "bitwise_count", "bytes_as", "bytes_swapped", "exponent_of", "fraction_of", "gcd", "lcm",
    "ldexp", "spacing",
]  # fmt: skip

# fmt: off - a rule stands beside its name, as in a table.

gcd = binary(
    "gcd", domains=INTEGER,
    doc="Returns the greatest common divisor of integers.", example="np.gcd([12, 7], 18) -> [6, 1]",
)
lcm = binary(
    "lcm", domains=INTEGER,
    doc="Returns the least common multiple of integers.", example="np.lcm([4, 7], 6) -> [12, 42]",
)
bitwise_count = unary(
    "bitwise_count", domains=INTEGER,
    doc="Returns how many bits are set in the absolute value of integers.",
    example="np.bitwise_count([5, -8]) -> [2, 1]",
)
ldexp = binary(
    "ldexp",
    lambda g, y: ops.ldexp(g, y),
    lambda g: None,
    domains=(REAL, INTEGER),
    doc="Returns x times 2 to the power y, of an integer y, without rounding.",
    example="np.ldexp([1.0, 3.0], [3, -1]) -> [8.0, 1.5]",
)


def _compute_spacing(xp: ArrayModule, x: Buffer) -> Buffer:
    """Returns NumPy's, or by the exponent where a module has no such function."""
    if xp is np:
        return np.spacing(x)
    dtype = x.dtype if x.dtype.kind in "fV" else result_type(x.dtype, np.float16)
    limits = finfo(dtype)
    # No array module chooses among values of bfloat16.
    size = xp.abs(x.astype(np.float32 if dtype.kind == "V" else dtype, copy=False))
    least = limits.minexp - limits.nmant
    exponent = xp.maximum(xp.frexp(size)[1] - (limits.nmant + 1), least)
    step = xp.ldexp(xp.ones_like(size), xp.where(size == 0, least, exponent))
    step = xp.where(xp.isfinite(size), step, xp.nan)
    return xp.where(x < 0, -step, step).astype(dtype, copy=False)


spacing = unary(
    "spacing", compute=_compute_spacing, domains=NONZERO,
    doc="Returns the distance to the next number away from zero that the dtype has.",
    example="np.spacing(1.0) -> 2.220446049250313e-16",
)


exponent_of = unary(
    "exponent_of", compute=lambda xp, x: xp.frexp(x)[1],
    reference=lambda x: np.frexp(x)[1], domains=NONZERO,
    doc="Returns the integer e for which x = m * 2**e with abs(m) from 0.5 up to, not with, 1.",
)
# Between its jumps it is x minus a constant.
fraction_of = unary(
    "fraction_of", lambda g: g,
    compute=lambda xp, x: xp.modf(x)[0],
    reference=lambda x: np.modf(x)[0], domains=Domain(1.1, 1.9),
    doc="Returns the part of x behind the point, with x's sign.",
)


# -- bytes


def _viewed_shape(shape: tuple[int, ...], old: DType, new: DType) -> tuple[int, ...]:
    """Returns the shape of an array whose bytes are taken for elements of another dtype."""
    if old.itemsize == new.itemsize:
        return shape
    bytes_of_row = shape[-1] * old.itemsize if shape else 0
    if not shape or bytes_of_row % new.itemsize:
        raise misfit(
            f"x.view({new}): the last axis of {old}{list(shape)} is no whole number of elements",
            "x.reshape(-1).view(dtype), with as many elements as it takes",
        )
    return (*shape[:-1], bytes_of_row // new.itemsize)


def _batch_view(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    (x,) = values
    _viewed_shape(shape_of(x)[1:], shape_dtype(x).dtype, params["dtype"])
    return primitive.bind(values, params)


# There is no rule: the bytes of numbers have no derivative.
bytes_as = Primitive(
    "bytes_as",
    compute=lambda xp, x, *, dtype: xp.ascontiguousarray(x).reshape(x.shape).view(dtype),
    infer=lambda primitive, x, *, dtype: ShapeDtype(_viewed_shape(x.shape, x.dtype, dtype), dtype),
    batch=_batch_view,
    reference=lambda x, *, dtype: np.ascontiguousarray(x).reshape(np.shape(x)).view(dtype),
    samples=[
        Sample(Operand((2, 3), INTEGER), dtype=np.dtype("uint8")),
        Sample(Operand((2, 4), INTEGER), dtype=np.dtype("uint64")),
        Sample(Operand((0, 2), INTEGER), dtype=np.dtype("int32")),
    ],
    dtypes="d",
)


def _compute_bytes_swapped(xp: ArrayModule, x: Buffer) -> Buffer:
    x = xp.ascontiguousarray(x).reshape(np.shape(x))
    size = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1)
    turned = xp.ascontiguousarray(x.reshape(-1).view("uint8").reshape(-1, size)[:, ::-1])
    return turned.reshape(-1).view(x.dtype).reshape(x.shape)


bytes_swapped = Primitive(
    "bytes_swapped",
    compute=_compute_bytes_swapped,
    infer=lambda primitive, x: ShapeDtype(x.shape, x.dtype),
    batch=lambda primitive, values, flags, params: primitive.bind(values, params),
    reference=lambda x: np.asarray(x).byteswap(),
    samples=[Sample(Operand((2, 3), INTEGER)), Sample(Operand((0, 2), INTEGER))], dtypes="d",
)
