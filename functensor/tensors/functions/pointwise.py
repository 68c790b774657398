"""Functions of PyTorch that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...primitives.core.array import Array
from ...primitives.core.registry import registry as ops
from ...primitives.core.shape_dtype import result_type
from .looked_at import check_divisor
from .naming import (
    as_floats,
    binary,
    copied,
    floating,
    on_numbers,
    scipy_special,
    signs,
    unary,
    with_words,
)

__all__ = [
    "Frexp", "abs", "absolute", "acos", "acosh", "add", "addcdiv", "addcmul", "angle",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh",
    "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clamp", "clamp_max",
    "clamp_min", "clip", "complex", "conj", "copysign", "cos", "cosh", "deg2rad", "digamma",
    "div", "divide", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix",
    "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "frac", "frexp", "gcd",
    "ge", "greater", "greater_equal", "gt", "heaviside", "hypot", "i0", "igamma", "igammac",
    "imag", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "lcm",
    "ldexp", "le", "lerp", "less", "less_equal", "lgamma", "log", "log1p", "log2", "log10",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logit", "lt", "maximum", "minimum", "mul", "multiply", "mvlgamma", "nan_to_num", "ne",
    "neg", "negative", "nextafter", "not_equal", "polar", "polygamma", "positive", "pow",
    "rad2deg", "real", "reciprocal", "relu", "remainder", "round", "rsqrt", "sgn", "sigmoid",
    "sign", "signbit", "sin", "sinc", "sinh", "sqrt", "square", "sub", "subtract", "tan",
    "tanh", "true_divide", "trunc", "xlogy",
]  # fmt: skip

# -- functions of one tensor

abs = absolute = unary("abs", "absolute values")
acos = arccos = floating("acos", "arc cosines")
acosh = arccosh = floating("acosh", "inverse hyperbolic cosines")
asin = arcsin = floating("asin", "arc sines")
asinh = arcsinh = floating("asinh", "inverse hyperbolic sines")
atan = arctan = floating("atan", "arc tangents")
atanh = arctanh = floating("atanh", "inverse hyperbolic tangents")
bitwise_not = unary("bitwise_not", "the other bits")

def conj(input: Array) -> Any:
    """Returns complex conjugates, a view; a real tensor as it is."""
    return input.conj()


cos = floating("cos", "cosines")
cosh = floating("cosh", "hyperbolic cosines")
deg2rad = floating("deg2rad", "degrees as radians")
erf = floating("erf", "the error function")
erfc = floating("erfc", "one minus the error function")
exp = floating("exp", "exponentials")
exp2 = floating("exp2", "powers of two")
expm1 = floating("expm1", "exponentials minus one")


def imag(input: Array) -> Any:
    """Returns the imaginary parts of complex numbers, a view."""
    return input.imag if input.dtype.kind == "c" else ops.imag(input)


isfinite = unary("isfinite", "whether elements are neither infinite nor NaN")
isinf = unary("isinf", "whether elements are infinite")
isnan = unary("isnan", "whether elements are NaN")
isneginf = unary("isneginf", "whether elements are minus infinity")
isposinf = unary("isposinf", "whether elements are infinity")
isreal = unary("isreal", "whether elements have no imaginary part")
log = floating("log", "natural logarithms")
log10 = floating("log10", "logarithms to base ten")
log1p = floating("log1p", "logarithms of one plus the elements")
log2 = floating("log2", "logarithms to base two")
logical_not = unary("logical_not", "whether elements are zero")
neg = negative = unary("neg", "the elements with the other sign", "negative")


def positive(input: Array) -> Any:
    """Returns the tensor."""
    return input


rad2deg = floating("rad2deg", "radians as degrees")


def real(input: Array) -> Any:
    """Returns the real parts of complex numbers, a view; a real tensor as it is."""
    return input.real if input.dtype.kind == "c" else input


relu = unary("relu", "the elements, zero for negative ones")
sgn = signs("sgn", "signs, 0 for NaN; of complex numbers those of absolute value one")


def sigmoid(input: Array) -> Any:
    """Returns the logistic function, element by element."""
    x = as_floats(input)
    if x.dtype.kind != "c":
        return ops.sigmoid(x)
    right = ops.real(x) >= 0
    small = ops.exp(ops.where(right, -x, x))
    return ops.where(right, 1, small) / (1 + small)


sign = signs("sign", "signs: -1, 0 or 1, and 0 for NaN")
signbit = unary("signbit", "whether elements are negative; so is -0.0")
reciprocal = floating("reciprocal", "one divided by the elements")
sin = floating("sin", "sines")
sinc = floating("sinc", "sin(pi x) / (pi x), one at zero")
sinh = floating("sinh", "hyperbolic sines")
sqrt = floating("sqrt", "square roots")
square = on_numbers("square", "squares", counted=True)
tan = floating("tan", "tangents")
tanh = floating("tanh", "hyperbolic tangents")

digamma = scipy_special("digamma", "the logarithmic derivative of the gamma function")
erfinv = scipy_special("erfinv", "the inverse of the error function")
i0 = scipy_special("i0", "the modified Bessel function of order zero")
lgamma = scipy_special(
    "lgamma", "the logarithm of the absolute value of the gamma function", "gammaln"
)


def ceil(input: Array) -> Any:
    """Returns the next integers above; integers as they are."""
    return copied(input) if input.dtype.kind in "iu" else ops.ceil(input)


def floor(input: Array) -> Any:
    """Returns the next integers below; integers as they are."""
    return copied(input) if input.dtype.kind in "iu" else ops.floor(input)


def trunc(input: Array) -> Any:
    """Returns the elements rounded towards zero; integers as they are."""
    return copied(input) if input.dtype.kind in "iu" else ops.trunc(input)


fix = trunc


def round(input: Array, *, decimals: int = 0) -> Any:
    """Returns the elements rounded to decimals; halves go to the even neighbour.

    >>> import functensor.torch as torch
    >>> torch.round(torch.tensor([0.5, 1.5, 2.4])).tolist()
    [0.0, 2.0, 2.0]
    """
    whole = input.dtype.kind in "iu" and decimals >= 0
    return copied(input) if whole else ops.round(input, decimals)


def ldexp(input: Array, other: Any) -> Any:
    """Returns the elements times powers of two, whose exponents may be fractions."""
    if getattr(other, "dtype", np.dtype(np.int64)).kind not in "iu":
        return input * ops.exp2(other)
    x = as_floats(input)
    if x.dtype.kind == "f":
        return ops.ldexp(x, other)
    return ops.astype(x * ops.exp2(other), x.dtype)


def frac(input: Array) -> Any:
    """Returns what elements have behind the point, with their sign."""
    return input - trunc(input)


def rsqrt(input: Array) -> Any:
    """Returns one divided by square roots."""
    return 1 / ops.sqrt(input)


def logit(input: Array, eps: float | None = None) -> Any:
    """Returns ``log(x / (1 - x))``; with ``eps``, of elements limited to (eps, 1 - eps)."""
    from ...scipy import special as functions  # which few programs need

    x = as_floats(input)
    found = functions.logit(x if eps is None else clamp(x, eps, 1 - eps))
    return found if found.dtype == x.dtype else ops.astype(found, x.dtype)


def nan_to_num(
    input: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Returns the elements with numbers in place of NaN (0) and infinities (the largest)."""
    if input.dtype.kind in "biu":
        return copied(input)
    return ops.nan_to_num(input, nan=nan or 0.0, posinf=posinf, neginf=neginf)


def polygamma(n: int, input: Array) -> Any:
    """Returns the n-th derivative of the digamma function, element by element."""
    from ...scipy import special as functions  # which few programs need

    return functions.polygamma(n, input)


def mvlgamma(input: Array, p: int) -> Any:
    """Returns the logarithm of the gamma function of p by p matrices, element by element."""
    from ...scipy import special as functions  # which few programs need

    return in_halves(functions.multigammaln(as_floats(input), p), input)


# -- functions of two


def first_where(name: str, test: str, doc: str) -> Callable[[Any, Any], Any]:
    """Returns the function that gives a first number where a test holds or the second is NaN.

    It gives the second elsewhere. The gradient goes to the one that is given, as in PyTorch: to the
    first of two that are equal.
    """

    def function(input: Array, other: Any) -> Any:
        first = getattr(ops, test)(input, other)
        return ops.where(ops.logical_or(first, ops.isnan(other)), input, other)

    return with_words(function, name, f"Returns {doc}, element by element.")


arctan2 = atan2 = binary("atan2", "angles of points (other, input), in radians", "arctan2")
bitwise_and = binary("bitwise_and", "the bits that both have")
bitwise_left_shift = binary("bitwise_left_shift", "the bits moved up")
bitwise_or = binary("bitwise_or", "the bits that one has")
bitwise_right_shift = binary("bitwise_right_shift", "the bits moved down")
bitwise_xor = binary("bitwise_xor", "the bits that just one has")
copysign = binary("copysign", "the elements with the signs of others")
eq = binary("eq", "whether elements are equal", "equal")
float_power = binary("float_power", "powers, in double precision")
fmax = first_where("fmax", "greater_equal", "the greater elements; of NaN and a number the number")
fmin = first_where("fmin", "less_equal", "the smaller elements; of NaN and a number the number")
gcd = binary("gcd", "greatest common divisors")
ge = greater_equal = binary("ge", "whether elements are greater or equal", "greater_equal")
gt = greater = binary("gt", "whether elements are greater", "greater")
hypot = binary("hypot", "square roots of sums of squares")
lcm = binary("lcm", "least common multiples")
le = less_equal = binary("le", "whether elements are less or equal", "less_equal")


def logaddexp(input: Array, other: Any) -> Any:
    """Returns logarithms of sums of exponentials, element by element."""
    if "c" not in (input.dtype.kind, getattr(other, "dtype", input.dtype).kind):
        return ops.logaddexp(input, other)
    first, second = ops.real(input), ops.real(other)
    larger = (first >= second) | ops.isnan(input)
    most, least = ops.where(larger, input, other), ops.where(larger, other, input)
    # Equal infinities have no difference: the logarithm of both is one of them.
    apart = ops.logical_not(ops.logical_and(ops.isinf(first), first == second))
    gap = ops.where(apart, least - ops.where(apart, most, 0), -np.inf)
    return most + ops.log1p(ops.exp(gap))


logaddexp2 = binary("logaddexp2", "base-two logarithms of sums of powers of two")
logical_and = binary("logical_and", "whether both elements are not zero")
logical_or = binary("logical_or", "whether one of the elements is not zero")
logical_xor = binary("logical_xor", "whether just one of the elements is not zero")
lt = less = binary("lt", "whether elements are less", "less")
maximum = binary("maximum", "the greater elements")
minimum = binary("minimum", "the smaller elements")
mul = multiply = binary("mul", "products", "multiply")
ne = not_equal = binary("ne", "whether elements are different", "not_equal")
nextafter = binary("nextafter", "the next numbers towards others")
true_divide = binary("true_divide", "quotients", "divide")


def whole_quotient(name: str, doc: str) -> Callable[[Any, Any], Any]:
    """Returns the function that a primitive computes, which divides no integers by zero."""

    def function(input: Array, other: Any) -> Any:
        check_divisor(name, input, other)
        return getattr(ops, name)(input, other)

    return with_words(function, name, f"Returns {doc}, element by element.")


floor_divide = whole_quotient("floor_divide", "quotients rounded down")
fmod = whole_quotient("fmod", "remainders with the sign of the dividend")
remainder = whole_quotient("remainder", "remainders with the sign of the divisor")


def heaviside(input: Array, values: Any) -> Any:
    """Returns 0 for negative elements, 1 for positive ones, other values for zero."""
    found = ops.heaviside(input, values)
    wanted = result_type(input.dtype, getattr(values, "dtype", input.dtype))
    return found if found.dtype == wanted else ops.astype(found, wanted)


def add(input: Array, other: Any, *, alpha: float = 1) -> Any:
    """Returns sums with ``alpha`` times other elements."""
    return ops.add(input, other if alpha == 1 else alpha * other)


def sub(input: Array, other: Any, *, alpha: float = 1) -> Any:
    """Returns differences from ``alpha`` times other elements."""
    return ops.subtract(input, other if alpha == 1 else alpha * other)


subtract = sub


def div(input: Array, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Returns quotients.

    Args:
        input, other: tensors, or a tensor and a number.
        rounding_mode: ``"floor"`` to round down, ``"trunc"`` towards zero; None not to round.

    Raises:
        ValueError: there is no such mode.

    >>> import functensor.torch as torch
    >>> torch.div(torch.tensor([-3, 3]), 2, rounding_mode="trunc").tolist()
    [-1, 1]
    """
    if rounding_mode is None:
        return ops.divide(input, other)
    check_divisor("div", input, other)
    if rounding_mode == "floor":
        return ops.floor_divide(input, other)
    if rounding_mode != "trunc":
        raise ValueError(f"div: rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}")
    kinds = {getattr(x, "dtype", np.dtype(type(x))).kind for x in (input, other)}
    if kinds <= set("iub"):
        return ops.floor_divide(input - ops.fmod(input, other), other)
    return ops.trunc(ops.divide(input, other))


divide = div


def pow(input: Array, exponent: Any) -> Any:
    """Returns powers.

    Raises:
        RuntimeError: integers are raised to a negative number.
    """
    kind = getattr(input, "dtype", np.dtype(float)).kind
    if type(exponent) is int and exponent < 0 and kind in "biu":
        raise RuntimeError("pow: integers to negative powers are no integers; cast them to floats")
    return ops.power(input, exponent)


def xlogy(input: Array, other: Any) -> Any:
    """Returns ``input * log(other)``, zero where ``input`` is."""
    from ...scipy import special as functions  # which few programs need

    return in_halves(functions.xlogy(input, other), input, other)


def in_halves(found: Any, *operands: Any) -> Any:
    """Returns a result in half precision where all floats are, or all that have axes."""
    floats = [x for x in operands if hasattr(x, "dtype") and x.dtype.kind in "fV"]
    dtypes = {x.dtype for x in [x for x in floats if x.ndim] or floats}
    half = np.dtype(np.float16)
    return ops.astype(found, half) if dtypes == {half} else found


def igamma(input: Array, other: Any) -> Any:
    """Returns the lower incomplete gamma function of orders and limits, divided by the whole."""
    from ...scipy import special as functions  # which few programs need

    return in_halves(functions.gammainc(input, other), input, other)


def igammac(input: Array, other: Any) -> Any:
    """Returns the upper incomplete gamma function of orders and limits, divided by the whole."""
    from ...scipy import special as functions  # which few programs need

    return in_halves(functions.gammaincc(input, other), input, other)


def isclose(
    input: Array, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Returns whether elements differ by at most ``atol + rtol * abs(other)``."""
    return ops.isclose(input, other, rtol, atol, equal_nan)


class Frexp(NamedTuple):
    """Elements as mantissas between a half and one, times powers of two."""

    mantissa: Any
    exponent: Any


def frexp(input: Array) -> Frexp:
    """Returns the mantissas and exponents of the elements, which are mantissa * 2 ** exponent."""
    return Frexp(*ops.frexp(input))


# -- functions of three


def lerp(input: Array, end: Any, weight: Any) -> Any:
    """Returns ``input + weight * (end - input)``, element by element."""
    return input + weight * (end - input)


def addcmul(input: Array, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """Returns ``input + value * tensor1 * tensor2``, element by element."""
    product = tensor1 * tensor2
    return input + (product if value == 1 else value * product)


def addcdiv(input: Array, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """Returns ``input + value * tensor1 / tensor2``, element by element."""
    quotient = tensor1 / tensor2
    return input + (quotient if value == 1 else value * quotient)


def clamp(input: Array, min: Any = None, max: Any = None) -> Any:
    """Returns the elements limited to an interval.

    Args:
        input: a tensor.
        min, max: the limits, numbers or tensors; one of them may be None.

    Raises:
        ValueError: both are None.

    >>> import functensor.torch as torch
    >>> torch.clamp(torch.tensor([-1.0, 0.5, 2.0]), min=0, max=1).tolist()
    [0.0, 0.5, 1.0]
    """
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both")
    # A limit that is met has no part in the gradient, as in PyTorch.
    out = input if min is None else ops.where(beyond(ops.less, input, min), min, input)
    return out if max is None else ops.where(beyond(ops.greater, out, max), max, out)


clip = clamp


def beyond(compare: Any, x: Any, limit: Any) -> Any:
    """Returns whether elements are beyond a limit; beyond NaN all are."""
    dtype = getattr(limit, "dtype", None)
    if dtype is None:
        return compare(x, limit) if limit == limit else ops.equal(x, x) | True
    outside = compare(x, limit)
    return outside if dtype.kind in "iub" else ops.logical_or(outside, ops.isnan(limit))


def clamp_min(input: Array, min: Any) -> Any:
    """Returns the elements, none below a limit."""
    return clamp(input, min=min)


def clamp_max(input: Array, max: Any) -> Any:
    """Returns the elements, none above a limit."""
    return clamp(input, max=max)


# -- complex numbers


def angle(input: Array) -> Any:
    """Returns the arguments of complex numbers, in radians; of real ones that are negative pi."""
    found = ops.angle(input)
    return found if input.dtype.kind == "c" else ops.where(ops.equal(input, 0), 0, found)


def complex(real: Any, imag: Any) -> Any:
    """Returns complex numbers of real and imaginary parts."""
    return ops.complex_of_parts(real, imag)


def polar(abs: Any, angle: Any) -> Any:
    """Returns complex numbers of absolute values and angles in radians."""
    return complex(abs * ops.cos(angle), abs * ops.sin(angle))


# -- those of layers that are methods of tensors too


def prelu(input: Array, weight: Any) -> Any:
    """Returns x where it is positive, and x times the weight of its channel elsewhere."""
    if weight.ndim and weight.shape[0] != 1:
        weight = ops.reshape(weight, (-1, *(1,) * (input.ndim - 2)))
    return ops.where(input > 0, input, weight * input)


def hardshrink(input: Array, lambd: float = 0.5) -> Any:
    """Returns the elements, zero for those of at most an absolute value."""
    return ops.where(ops.abs(input) <= lambd, 0, input)
