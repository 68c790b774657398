"""PyTorch's functions that change their first argument: the methods of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..primitives.core.array import Array
from ..tensors.functions.naming import with_words

__all__ = [
    "abs_",
    "acos_",
    "acosh_",
    "addmv_",
    "arccos_",
    "arccosh_",
    "arcsin_",
    "arcsinh_",
    "arctan_",
    "arctanh_",
    "asin_",
    "asinh_",
    "atan_",
    "atanh_",
    "ceil_",
    "clamp_",
    "clamp_max_",
    "clamp_min_",
    "clip_",
    "conj_physical_",
    "cos_",
    "cosh_",
    "deg2rad_",
    "detach_",
    "erf_",
    "erfc_",
    "exp2_",
    "exp_",
    "expm1_",
    "fill_",
    "fix_",
    "floor_",
    "frac_",
    "gcd_",
    "i0_",
    "index_put_",
    "lcm_",
    "ldexp_",
    "log1p_",
    "log2_",
    "log10_",
    "log_",
    "logit_",
    "nan_to_num_",
    "neg_",
    "negative_",
    "rad2deg_",
    "reciprocal_",
    "relu_",
    "round_",
    "rsqrt_",
    "sigmoid_",
    "sin_",
    "sinc_",
    "sinh_",
    "sqrt_",
    "square_",
    "tan_",
    "tanh_",
    "trunc_",
    "xlogy_",
    "zero_",
]  # fmt: skip


def changing(name: str) -> Callable[..., Any]:
    """Returns the function that calls a method of its first argument."""

    def function(input: Array, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    doc = f"Puts the result of `{name[:-1]}` in the place of a tensor, which it returns."
    return with_words(function, name, doc)


abs_ = changing("abs_")
acos_ = changing("acos_")
acosh_ = changing("acosh_")
addmv_ = changing("addmv_")
arccos_ = changing("arccos_")
arccosh_ = changing("arccosh_")
arcsin_ = changing("arcsin_")
arcsinh_ = changing("arcsinh_")
arctan_ = changing("arctan_")
arctanh_ = changing("arctanh_")
asin_ = changing("asin_")
asinh_ = changing("asinh_")
atan_ = changing("atan_")
atanh_ = changing("atanh_")
ceil_ = changing("ceil_")
clamp_ = changing("clamp_")
clamp_max_ = changing("clamp_max_")
clamp_min_ = changing("clamp_min_")
clip_ = changing("clip_")
conj_physical_ = changing("conj_physical_")
cos_ = changing("cos_")
cosh_ = changing("cosh_")
deg2rad_ = changing("deg2rad_")
detach_ = changing("detach_")
erf_ = changing("erf_")
erfc_ = changing("erfc_")
exp_ = changing("exp_")
exp2_ = changing("exp2_")
expm1_ = changing("expm1_")
fill_ = changing("fill_")
fix_ = changing("fix_")
floor_ = changing("floor_")
frac_ = changing("frac_")
gcd_ = changing("gcd_")
i0_ = changing("i0_")
index_put_ = changing("index_put_")
lcm_ = changing("lcm_")
ldexp_ = changing("ldexp_")
log_ = changing("log_")
log10_ = changing("log10_")
log1p_ = changing("log1p_")
log2_ = changing("log2_")
logit_ = changing("logit_")
nan_to_num_ = changing("nan_to_num_")
neg_ = changing("neg_")
negative_ = changing("negative_")
rad2deg_ = changing("rad2deg_")
reciprocal_ = changing("reciprocal_")
relu_ = changing("relu_")
round_ = changing("round_")
rsqrt_ = changing("rsqrt_")
sigmoid_ = changing("sigmoid_")
sin_ = changing("sin_")
sinc_ = changing("sinc_")
sinh_ = changing("sinh_")
sqrt_ = changing("sqrt_")
square_ = changing("square_")
tan_ = changing("tan_")
tanh_ = changing("tanh_")
trunc_ = changing("trunc_")
xlogy_ = changing("xlogy_")
zero_ = changing("zero_")
