"""Comparisons, logic and bits: nothing here has a derivative."""

from __future__ import annotations

from ..core.families import binary, unary
from ..core.test_samples import INTEGER, LOGICAL, REAL, Domain

__all__ = [
    "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "greater", "greater_equal", "invert",
    "isfinite", "isinf", "isnan", "left_shift", "less", "less_equal", "logical_and", "logical_not",
    "logical_or", "logical_xor", "not_equal", "right_shift", "signbit",
]  # fmt: skip

# fmt: off - a rule stands beside its name, as in a table.

# The distances by which tests shift bits.
SHIFT = Domain(0, 5, kind="i")

equal = binary(
    "equal", dtypes="fdD",
    doc="Returns whether x equals y.", example="np.equal([1, 2], 2) -> [False, True]",
)
not_equal = binary(
    "not_equal", dtypes="fdD",
    doc="Returns whether x differs from y.", example="np.not_equal([1, 2], 2) -> [True, False]",
)
less = binary(
    "less",
    doc="Returns whether x is less than y.", example="np.less([1, 2], 2) -> [True, False]",
)
less_equal = binary(
    "less_equal",
    doc="Returns whether x is at most y.",
    example="np.less_equal([1, 2, 3], 2) -> [True, True, False]",
)
greater = binary(
    "greater",
    doc="Returns whether x is greater than y.", example="np.greater([2, 3], 2) -> [False, True]",
)
greater_equal = binary(
    "greater_equal",
    doc="Returns whether x is at least y.",
    example="np.greater_equal([1, 2, 3], 2) -> [False, True, True]",
)

logical_and = binary(
    "logical_and", domains=LOGICAL,
    doc="Returns whether both x and y hold; numbers hold if they are not zero.",
    example="np.logical_and([True, False], True) -> [True, False]",
)
logical_or = binary(
    "logical_or", domains=LOGICAL,
    doc="Returns whether x or y holds; numbers hold if they are not zero.",
    example="np.logical_or([True, False], False) -> [True, False]",
)
logical_xor = binary(
    "logical_xor", domains=LOGICAL,
    doc="Returns whether exactly one of x and y holds; numbers hold if they are not zero.",
    example="np.logical_xor([True, False], True) -> [False, True]",
)
logical_not = unary(
    "logical_not", domains=LOGICAL,
    doc="Returns whether x does not hold; numbers hold if they are not zero.",
    example="np.logical_not([True, False]) -> [False, True]",
)

bitwise_and = binary(
    "bitwise_and", domains=INTEGER,
    doc="Returns the bits that are set in both x and y.",
    example="np.bitwise_and([5, 6], 3) -> [1, 2]",
)
bitwise_or = binary(
    "bitwise_or", domains=INTEGER,
    doc="Returns the bits that are set in x or y.", example="np.bitwise_or([5, 6], 3) -> [7, 7]",
)
bitwise_xor = binary(
    "bitwise_xor", domains=INTEGER,
    doc="Returns the bits that are set in one of x and y.",
    example="np.bitwise_xor([5, 6], 3) -> [6, 5]",
)
invert = unary(
    "invert", domains=INTEGER,
    doc="Returns the bits that are not set; for booleans, ``logical_not``.",
    example="np.invert([0, 5]) -> [-1, -6]",
)
left_shift = binary(
    "left_shift", domains=(INTEGER, SHIFT),
    doc="Returns x with its bits shifted up by y: ``x * 2**y``.",
    example="np.left_shift([1, 5], 2) -> [4, 20]",
)
right_shift = binary(
    "right_shift", domains=(INTEGER, SHIFT),
    doc="Returns x with its bits shifted down by y: the floor of ``x / 2**y``.",
    example="np.right_shift([4, 21], 2) -> [1, 5]",
)

isnan = unary(
    "isnan", dtypes="fdD",
    doc="Returns whether x is NaN.", example="np.isnan([1.0, np.nan]) -> [False, True]",
)
isinf = unary(
    "isinf", dtypes="fdD",
    doc="Returns whether x is infinite.", example="np.isinf([1.0, -np.inf]) -> [False, True]",
)
isfinite = unary(
    "isfinite", dtypes="fdD",
    doc="Returns whether x is neither infinite nor NaN.",
    example="np.isfinite([1.0, np.inf, np.nan]) -> [True, False, False]",
)
signbit = unary(
    "signbit", domains=REAL,
    doc="Returns whether x is negative, negative zero included.",
    example="np.signbit([1.0, -0.0]) -> [False, True]",
)
