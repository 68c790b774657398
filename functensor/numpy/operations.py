"""NumPy's functions that are primitives, or made in the modules that declare those."""

from __future__ import annotations

from ..primitives.arithmetic import (
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
from ..primitives.axes import (
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
from ..primitives.contraction import (
    dot,
    inner,
    kron,
    matmul,
    outer,
    tensordot,
    vdot,
    vecdot,
)
from ..primitives.cumulative import (
    cumprod,
    cumsum,
)
from ..primitives.einsum import (
    einsum,
)
from ..primitives.exponential import (
    cbrt,
    erf,
    erfc,
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
from ..primitives.indexing import (
    put_along_axis,
    take,
    take_along_axis,
)
from ..primitives.joining import (
    array_split,
    concatenate,
    hstack,
    repeat,
    split,
    stack,
    tile,
    vstack,
)
from ..primitives.logic import (
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
from ..primitives.manipulation import (
    broadcast_to,
    flip,
    reshape,
    roll,
    transpose,
    tril,
    triu,
)
from ..primitives.numbers import (
    angle,
    astype,
    conj,
    imag,
    real,
)
from ..primitives.padding import (
    pad,
)
from ..primitives.reductions import (
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
from ..primitives.selection import (
    clip,
    fmax,
    fmin,
    heaviside,
    maximum,
    minimum,
    where,
)
from ..primitives.sorting import (
    argsort,
    sort,
)
from ..primitives.trigonometric import (
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
from ..primitives.variance import (
    std,
    var,
)

__all__ = [
    "abs", "add", "all", "angle", "any", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "argmax", "argmin", "argsort", "array_split", "astype", "atleast_1d",
    "atleast_2d", "atleast_3d", "bitwise_and", "bitwise_or", "bitwise_xor", "broadcast_arrays",
    "broadcast_to", "cbrt", "ceil", "clip", "concatenate", "conj", "copysign", "cos", "cosh",
    "count_nonzero", "cumprod", "cumsum", "deg2rad", "diag", "diagonal", "divide", "dot", "einsum",
    "equal", "erf", "erfc", "exp", "exp2", "expand_dims", "expm1", "flip", "floor", "floor_divide",
    "fmax", "fmin", "fmod", "greater", "greater_equal", "heaviside", "hstack", "hypot", "imag",
    "inner", "invert", "isfinite", "isinf", "isnan", "kron", "left_shift", "less", "less_equal",
    "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "logsumexp", "matmul", "max", "maximum", "mean", "min", "minimum",
    "moveaxis", "multiply", "negative", "nextafter", "not_equal", "outer", "pad", "positive",
    "power", "prod", "put_along_axis", "rad2deg", "ravel", "real", "reciprocal", "remainder",
    "repeat", "reshape", "right_shift", "rint", "roll", "round", "sign", "signbit", "sin", "sinh",
    "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes",
    "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace", "transpose", "tril",
    "triu", "trunc", "var", "vdot", "vecdot", "vstack", "where",
]
