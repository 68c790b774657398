"""NumPy's functions that are primitives, or made in the modules that declare those."""

from __future__ import annotations

from operator import itemgetter

from ..primitives.contract.einsum import einsum
from ..primitives.contract.matmul import dot, inner, kron, matmul, outer, tensordot, vdot, vecdot
from ..primitives.core.registry import registry as ops
from ..primitives.elementwise.arithmetic import (
    abs,
    add,
    ceil,
    copysign,
    divide,
    floor,
    floor_divide,
    fmod,
    multiply,
    negative,
    nextafter,
    positive,
    power,
    remainder,
    rint,
    round,
    sign,
    square,
    subtract,
    trunc,
)
from ..primitives.elementwise.cast_and_complex import angle, astype, conj, imag, real
from ..primitives.elementwise.comparison import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    invert,
    isfinite,
    isinf,
    isnan,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    right_shift,
    signbit,
)
from ..primitives.elementwise.exponential import (
    cbrt,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    reciprocal,
    sqrt,
)
from ..primitives.elementwise.trigonometric import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cos,
    cosh,
    deg2rad,
    hypot,
    rad2deg,
    sin,
    sinh,
    tan,
    tanh,
)
from ..primitives.elementwise.where_and_extrema import (
    clip,
    fmax,
    fmin,
    heaviside,
    maximum,
    minimum,
    where,
)
from ..primitives.reduce.cumulative import cumprod, cumsum
from ..primitives.reduce.reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    logsumexp,
    max,
    mean,
    min,
    prod,
    sum,
)
from ..primitives.reduce.sort import argsort, sort
from ..primitives.reduce.variance import std, var
from ..primitives.shape.axis_functions import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    diag,
    diagonal,
    expand_dims,
    moveaxis,
    ravel,
    squeeze,
    swapaxes,
    trace,
)
from ..primitives.shape.index import put_along_axis, take, take_along_axis
from ..primitives.shape.join_split import (
    array_split,
    concatenate,
    hstack,
    repeat,
    split,
    stack,
    tile,
    vstack,
)
from ..primitives.shape.pad import pad
from ..primitives.shape.reshape_transpose import (
    broadcast_to,
    flip,
    reshape,
    roll,
    transpose,
    tril,
    triu,
)
from ..primitives.special.error_function import erf, erfc

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "all", "amax", "amin", "angle", "any", "arccos",
    "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort",
    "around", "array_split", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d",
    "atleast_2d", "atleast_3d", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_arrays",
    "broadcast_to", "cbrt", "ceil", "clip", "concat", "concatenate", "conj", "conjugate",
    "copysign", "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "deg2rad", "degrees", "diag",
    "diagonal", "divide", "dot", "einsum", "equal", "erf", "erfc", "exp", "exp2", "expand_dims",
    "expm1", "fix", "flip", "floor", "floor_divide", "fmax", "fmin", "fmod", "greater",
    "greater_equal", "heaviside", "hstack", "hypot", "imag", "inner", "invert", "isfinite", "isinf",
    "isnan", "kron", "left_shift", "less", "less_equal", "log", "log1p", "log2", "log10",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logsumexp", "matmul", "max", "maximum", "mean", "min", "minimum", "mod", "moveaxis",
    "multiply", "negative", "nextafter", "not_equal", "outer", "pad", "permute_dims", "positive",
    "pow", "power", "prod", "put_along_axis", "rad2deg", "radians", "ravel", "real", "reciprocal",
    "remainder", "repeat", "reshape", "right_shift", "rint", "roll", "round", "sign", "signbit",
    "sin", "sinh", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum",
    "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace", "transpose",
    "tril", "triu", "true_divide", "trunc", "var", "vdot", "vecdot", "vstack", "where",
]  # fmt: skip

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
vars(ops).update(zip(__all__, itemgetter(*__all__)(globals()), strict=True))
