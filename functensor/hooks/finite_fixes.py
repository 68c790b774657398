"""Right code for operations that made NaN or infinity, for the messages of `check_finite`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..backends.devices import to_host
from ..backends.finiteness import has_infinity
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import shape_dtype
from .values import plain_values_of

__all__ = ["fix_for"]

DOMAIN = (
    "keep operands in the domain: np.maximum(x, 1e-12), or np.where(x > 0, x, 1.0) before the "
    "operation"
)
INTERVAL = "keep operands in the domain: np.clip(x, {low}, {high}) before the operation"
ABOVE = "keep operands in the domain: np.maximum(x, {low}) before the operation"
ELEMENTS = "there are too few elements: test x.size before the operation"
SMALL = "keep operands small: np.clip(x, -50.0, 50.0) before the operation"
NONZERO_DIVISOR = "keep the divisor from zero: x / np.where(y == 0, 1.0, y)"
EXPONENT = (
    "subtract the maximum first: np.exp(x - np.max(x)); of a sum or a ratio of exponentials, "
    "ft.scipy.special.logsumexp(x) or ft.nn.softmax(x)"
)
CAST = 'scale it down first: (x / np.max(np.abs(x))).astype("{dtype}"), or keep it in {given}'
OVERFLOW = "scale operands down before the operation: x / np.max(np.abs(x))"
WIDER = '{text}, or use a wider dtype: x.astype("{dtype}")'
INFINITE = "keep infinity out of operands: np.where(np.isfinite(x), x, 0.0) before the operation"
OF_ITS_OWN = "return finite values from the function and from its rule"

EXPONENTIALS = {
    "cosh": SMALL, "exp": EXPONENT, "exp2": EXPONENT, "expm1": SMALL, "sinh": SMALL,
}  # fmt: skip
DIVISIONS = frozenset({"divide", "floor_divide", "fmod", "reciprocal", "remainder"})
# Operations whose results, or derivatives, are infinite at zero or at the edge of a domain.
SINGULAR = frozenset({
    "arccos", "arccosh", "arcsin", "arctanh", "cbrt", "log", "log10", "log1p", "log2", "power",
    "sqrt",
})  # fmt: skip
# Domains that are others than all numbers above zero, without the ends where derivatives are
# infinite.
INSIDE = INTERVAL.format(low=-0.999999, high=0.999999)
OTHER_DOMAINS = {
    "arccos": INSIDE, "arccosh": ABOVE.format(low=1.000001), "arcsin": INSIDE, "arctanh": INSIDE,
    "log1p": ABOVE.format(low=-0.999999),
}  # fmt: skip
AVERAGES = frozenset({"mean", "std", "var"})
WIDER_DTYPES = {
    "bfloat16": "float32", "float16": "float32", "float32": "float64", "complex64": "complex128",
}  # fmt: skip


def fix_for(name: str, found: str, operands: Sequence[Any], dtype: Any = None) -> str:
    """Returns right code for an operation, or the derivative of one.

    Args:
        name: the operation's.
        found: what it made, "NaN" or "infinity".
        operands: what it was given; of a derivative the cotangent too.
        dtype: that of the result, of a conversion.
    """
    buffers = [np.asarray(to_host(x)) for v in operands for x in plain_values_of(v)]
    if name not in registry:
        return OF_ITS_OWN
    domain = OTHER_DOMAINS.get(name, DOMAIN)
    if found == "NaN" and any(map(has_infinity, buffers)):
        return INFINITE
    zero = any((x == 0).any() for x in buffers)
    if name in DIVISIONS and zero:
        return NONZERO_DIVISOR
    if found == "NaN":
        return ELEMENTS if name in AVERAGES else domain
    if name in EXPONENTIALS:
        return EXPONENTIALS[name]
    if name == "astype" and buffers:
        return CAST.format(dtype=dtype, given=buffers[0].dtype)
    if name in SINGULAR and (zero or name != "power"):
        return domain
    narrow = next(wider_dtypes(operands), None)
    return OVERFLOW if narrow is None else WIDER.format(text=OVERFLOW, dtype=narrow)


def wider_dtypes(operands: Sequence[Any]) -> Iterator[str]:
    """Yields the dtypes in which operands would have a wider range."""
    for x in operands:
        wider = WIDER_DTYPES.get(str(shape_dtype(x).dtype)) if x is not None else None
        if wider is not None:
            yield wider
