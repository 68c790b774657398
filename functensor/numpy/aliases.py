"""Second names: NumPy's older ones, and those of the Python array API standard."""

from __future__ import annotations

from ..primitives.registry import registry as ops

__all__ = [
    "absolute",
    "acos",
    "acosh",
    "amax",
    "amin",
    "around",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_right_shift",
    "concat",
    "conjugate",
    "degrees",
    "fix",
    "mod",
    "permute_dims",
    "pow",
    "radians",
    "true_divide",
]

absolute = ops.abs
acos = ops.arccos
acosh = ops.arccosh
amax = ops.max
amin = ops.min
around = ops.round
asin = ops.arcsin
asinh = ops.arcsinh
atan = ops.arctan
atan2 = ops.arctan2
atanh = ops.arctanh
bitwise_invert = ops.invert
bitwise_left_shift = ops.left_shift
bitwise_not = ops.invert
bitwise_right_shift = ops.right_shift
concat = ops.concatenate
conjugate = ops.conj
degrees = ops.rad2deg
fix = ops.trunc
mod = ops.remainder
permute_dims = ops.transpose
pow = ops.power
radians = ops.deg2rad
true_divide = ops.divide

# NumPy's own functions of these names then find them when they are given our arrays.
for _name in __all__:
    setattr(ops, _name, globals()[_name])
