"""Casts, real and imaginary parts, and angles of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, DType, DTypeLike
from ..core.annotations import ArrayLike, Prepared
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.families import binary, elementwise, unary
from ..core.shape_dtype import INEXACT, finfo, number_dtype
from ..core.test_samples import POSITIVE

__all__ = [
    "angle", "astype", "cast", "complex_of", "complex_of_parts", "conj", "imag", "is_complex",
    "real", "real_of",
]  # fmt: skip

# fmt: off - a rule stands beside its name, as in a table.


def is_complex(x: Any) -> bool:
    """Says whether an operand is complex, which is known without its values.

    >>> is_complex(1j), is_complex(np.ones(2))
    (True, False)
    """
    if isinstance(x, (int, float, complex)):
        return isinstance(x, complex)
    kind: str = x.dtype.kind
    return kind == "c"


def real_of(dtype: np.dtype[Any]) -> Any:
    """Returns the dtype of a complex one's parts; that of real numbers is their own.

    >>> real_of(np.dtype("complex64"))
    dtype('float32')
    """
    return finfo(dtype).dtype


def complex_of(dtype: np.dtype[Any]) -> Any:
    """Returns the complex dtype of the same precision; half precision becomes single.

    >>> complex_of(np.dtype("float32"))
    dtype('complex64')
    """
    return np.result_type(dtype, np.complex64)


def _compute_astype(xp: ArrayModule, x: Buffer, *, dtype: DType) -> Buffer:
    x = xp.asarray(x)
    return x[()] if x.dtype == dtype else x.astype(dtype)[()]


def _astype_arguments(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = True, device: str | None = None
) -> Prepared:
    if device is not None:
        x = ops.to_device(x, device)
    return (x,), {"dtype": number_dtype(dtype)}


astype = elementwise(
    "astype", lambda g, *, dtype: g if dtype.kind in INEXACT else None,
    prepare=_astype_arguments, compute=_compute_astype,
    params=[{"dtype": np.dtype(name)} for name in ("float64", "complex128", "int64")],
    reference=lambda x, dtype: np.asarray(x).astype(dtype),
    doc="Returns x with its elements cast to a dtype; casts to integers have derivative 0.",
    options={
        "dtype": "anything that ``numpy.dtype`` takes.",
        "copy": "arrays never change.",
        "device": 'None or ``"cpu"``.',
    },
    example="np.astype([1.7, -1.7], int) -> [1, -1]",
)


# A complex cotangent or tangent of a real value loses its imaginary part, so that one line serves
# both modes, and real arguments too.
real = unary(
    "real", lambda g: g,
    compute=lambda xp, x: xp.asarray(x).real[()], dtypes="fdD",
    doc="Returns the real part.", example="np.real([1 + 2j, 3]) -> [1.0, 3.0]",
)
imag = unary(
    "imag", lambda g: g * -1j,
    compute=lambda xp, x: xp.asarray(x).imag[()], dtypes="fdD",
    doc="Returns the imaginary part, 0 for real x.", example="np.imag([1 + 2j, 3]) -> [2.0, 0.0]",
)
conj = unary(
    "conj", lambda g: ops.conj(g),
    compute=lambda xp, x: xp.conjugate(x) if is_complex(x) else xp.asarray(x)[()], dtypes="fdD",
    doc="Returns the complex conjugate.", example="np.conj([1 + 2j, 3]) -> [(1-2j), (3-0j)]",
)


def _compute_complex_of_parts(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    dtype: Any = xp.result_type(x, y)
    if dtype.kind == "c":
        raise TypeError("complex_of_parts takes real parts and imaginary parts, which are real")
    out = xp.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), complex_of(dtype))
    out.real, out.imag = x, y
    return out[()]


def _one_by_one(x: Buffer, y: Buffer) -> Buffer:
    """Returns complex numbers, made by Python."""
    dtype: Any = np.result_type(x, y)
    found: Buffer = np.vectorize(complex, otypes=[complex_of(dtype)])(x, y)
    return found


# A product with 1j makes NaN of infinity, and 0 of -0.
complex_of_parts = binary(
    "complex_of_parts", lambda g: g, lambda g: g * 1j,
    compute=_compute_complex_of_parts,
    reference=_one_by_one,
    doc="Returns the complex numbers of real parts x and imaginary parts y.",
)


def cast(x: ArrayLike, dtype: np.dtype[Any]) -> Array:
    """Returns an operand in a dtype; of complex numbers the real part, where that is a real one."""
    if is_complex(x) and dtype.kind != "c":
        x = ops.real(x)
    return ops.astype(x, dtype)


def _angle_arguments(z: ArrayLike, deg: bool = False) -> Prepared:
    return (z,), {"deg": bool(deg)}


def _angle_vjp(g: Array, x: Array, *, deg: bool) -> Array | None:
    if not is_complex(x):
        return None
    # At 0, which has no angle, the derivative is 0.
    turned = ops.where(x == 0, 0, g / ops.where(x == 0, 1, x))
    return turned * (-180j / np.pi if deg else -1j)


angle = elementwise(
    "angle",
    _angle_vjp,
    prepare=_angle_arguments,
    compute=lambda xp, x, *, deg: xp.angle(x, deg),
    params=({"deg": False}, {"deg": True}),
    # Away from the negative real axis, where the angle jumps.
    domains=POSITIVE, dtypes="fdD",
    doc="Returns the angle of a complex number, counterclockwise from the positive real axis.",
    options={"deg": "whether in degrees rather than radians."},
    arguments={"z": "an array of any shape, or a number."},
    example="np.angle([1j, -1.0], deg=True) -> [90.0, 180.0]",
)
