"""PyTorch's ``out=``: the functions that take it, and how results get into the tensors given by it.

One wrapper stands around every public function; that of a function of these names puts its results
into ``out``. The functions themselves know nothing of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..backends.dtypes import named
from ..backends.errors.words import WRAPPER_CODES
from ..primitives.core.errors import failure
from ..tensors import Tensor, is_grad_enabled

__all__ = ["TAKE_OUT", "write_results"]

# The functions that take ``out`` in PyTorch, by their namespaces.
NAMES_WITH_OUT = {
    "torch": (
        "abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all amax amin "
        "aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax "
        "argmin asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and bitwise_left_shift "
        "bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm bucketize cat ceil "
        "chain_matmul cholesky cholesky_inverse cholesky_solve clamp clamp_max clamp_min clip "
        "column_stack complex concat concatenate conj_physical copysign cos cosh cross cummax "
        "cummin cumprod cumsum deg2rad diag diff digamma div divide dot dstack empty eq erf erfc "
        "erfinv exp exp2 expm1 eye fix float_power floor floor_divide fmax fmin fmod frac frexp "
        "frobenius_norm full gather gcd ge ger greater greater_equal gt hardshrink heaviside "
        "histc histogram hstack hypot i0 igamma igammac index_add index_copy index_reduce "
        "index_select inner inverse isin isneginf isposinf kron kthvalue lcm ldexp le lerp less "
        "less_equal lgamma linspace log log10 log1p log2 log_softmax logaddexp logaddexp2 "
        "logcumsumexp logical_and logical_not logical_or logical_xor logit logspace logsumexp lt "
        "lu lu_solve lu_unpack masked_select matmul matrix_power max maximum mean median min "
        "minimum mm mode msort mul multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian "
        "nanquantile nansum narrow_copy ne neg negative nextafter nonzero nonzero_static norm "
        "normal not_equal nuclear_norm ones outer polar polygamma pow prod qr quantile rad2deg "
        "rand randint randn randperm reciprocal remainder renorm round row_stack rsqrt scatter "
        "scatter_add scatter_reduce searchsorted sgn sigmoid sign signbit sin sinc sinh "
        "slice_scatter slogdet softmax sort spmm sqrt square stack std sub subtract sum svd take "
        "take_along_dim tan tanh tensordot threshold topk triangular_solve tril triu true_divide "
        "trunc var vdot vstack where xlogy zeros"
    ),
    "torch.fft": (
        "fft fft2 fftfreq fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 "
        "irfftn rfft rfft2 rfftfreq rfftn"
    ),
    "torch.linalg": (
        "cholesky cholesky_ex cond cross det eig eigh eigvals eigvalsh inv inv_ex lstsq lu "
        "lu_factor lu_factor_ex lu_solve matmul matrix_norm matrix_power matrix_rank multi_dot "
        "norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve "
        "vecdot vector_norm"
    ),
    "torch.special": (
        "bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u "
        "chebyshev_polynomial_v chebyshev_polynomial_w digamma entr erf erfc erfcx erfinv exp2 "
        "expit expm1 gammainc gammaincc gammaln hermite_polynomial_h hermite_polynomial_he i0 i0e "
        "i1 i1e laguerre_polynomial_l legendre_polynomial_p log1p log_ndtr logit logsumexp "
        "modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 multigammaln "
        "ndtr ndtri polygamma psi round scaled_modified_bessel_k0 scaled_modified_bessel_k1 "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
        "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sinc spherical_bessel_j0 "
        "xlog1py xlogy zeta"
    ),
}  # fmt: skip
TAKE_OUT = {space: frozenset(names.split()) for space, names in NAMES_WITH_OUT.items()}
# Functions that compute in the dtype of ``out``, and on its device.
MAKERS = {
    "arange", "empty", "eye", "fftfreq", "full", "linspace", "logspace", "ones", "rand", "randint",
    "randn", "randperm", "rfftfreq", "zeros",
}  # fmt: skip


def write_results(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Returns ``out`` once it has the results of a function.

    Args:
        function: a function that takes no ``out``.
        name: its public name, for messages.
        args, kwargs: its arguments; ``out`` is taken from the latter.

    Returns:
        ``out``; for several results a tuple of the function's class, of the tensors in ``out``.

    Raises:
        RuntimeError: an argument requires grad, a result cannot be cast to the dtype of its tensor,
            or that shares memory, where it cannot grow.
        TypeError: ``out`` is no tensor, or not as many as there are results.
    """
    out = kwargs.pop("out")
    if out is None:
        return function(*args, **kwargs)
    call = f"{name}(out=...)"
    several = isinstance(out, tuple | list)
    outs: list[Any] = list(out) if several else [out]
    for i, x in enumerate(outs):
        if not isinstance(x, Tensor):
            place = f"out[{i}]" if several else "out"
            raise failure(
                TypeError,
                f"{call}: {place} is a tensor that the result is written to, "
                f"not {type(x).__name__}",
                fix="out=torch.empty(0)",
                number=None,
            )
    if is_grad_enabled() and any(x.requires_grad for x in tensors_in([outs, args, kwargs])):
        raise failure(
            RuntimeError,
            f"{call}: functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad",
            fix="with torch.no_grad():, or y = f(x) without out",
            number=None,
        )
    wants_grad = False
    if name.rpartition(".")[2] in MAKERS:
        wants_grad = kwargs.pop("requires_grad", False)
        make_alike(call, outs[0], kwargs)
    found = function(*args, **kwargs)
    results = list(found) if isinstance(found, tuple | list) else [found]
    if several != isinstance(found, tuple | list) or len(results) != len(outs):
        wanted = ", ".join(["torch.empty(0)"] * len(results))
        wanted = f"({wanted})" if isinstance(found, tuple | list) else wanted
        raise failure(
            TypeError,
            f"{call}: out is of {len(outs)} tensors, and the results are {len(results)}",
            fix=f"out={wanted}",
            number=None,
        )
    for x, result in zip(outs, results, strict=True):
        check_can_hold(call, x, result)
    for x, result in zip(outs, results, strict=True):
        put(call, x, result)
    if wants_grad:
        outs[0].requires_grad_()
    if not several:
        return out
    return found._make(outs) if hasattr(found, "_make") else tuple(outs)


WRAPPER_CODES.add(write_results.__code__)


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """Yields the tensors in lists, tuples and dicts."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from tensors_in(part)
    elif isinstance(tree, dict):
        yield from tensors_in(list(tree.values()))


def make_alike(call: str, out: Tensor, kwargs: dict[str, Any]) -> None:
    """Has a tensor made in the dtype and on the device of ``out``."""
    wanted = kwargs.get("dtype")
    if wanted is not None and named(wanted) != out.dtype:
        raise failure(
            RuntimeError,
            f"{call}: dtype {named(wanted)} does not match dtype of out parameter ({out.dtype})",
            fix="out alone, which has a dtype",
            number=None,
        )
    kwargs["dtype"] = out.dtype
    kwargs.setdefault("device", str(out.device))


def check_can_hold(call: str, out: Tensor, result: Any) -> None:
    """Checks that a result can be cast to the dtype of the tensor that it is written to."""
    there, here = np.dtype(result.dtype), out.dtype
    order = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
    if order[there.kind] > order[here.kind]:
        raise failure(
            RuntimeError,
            f"{call}: result type {there} can't be cast to the desired output type {here}",
            fix=f"out=torch.empty(0, dtype=torch.{there})",
            number=None,
        )


def put(call: str, out: Tensor, result: Any) -> None:
    """Writes a result into a tensor, which gets the result's shape."""
    shape = tuple(result.shape)
    if out.shape != shape:
        before = list(out.shape)
        out.take_shape(shape, call)
        if 0 not in before:
            warnings.warn(
                f"{call}: an output with one or more elements was resized since it had shape "
                f"{before}, which does not match the required output shape {list(shape)}; "
                "out.resize_(0) before, or an out of that shape",
                UserWarning,
                stacklevel=4,
            )
    out.copy_(result)
