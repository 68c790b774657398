"""The primitives that machine code computes outside of plans, of which operands, and what makes it.

`eager_code` has it made where it pays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plan_makers import LEFT_OUT_BY_PLANS, PLAN_MAKERS
from .blocks import flat_in_memory, order_in_memory

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, Shape

__all__ = [
    "CHOICES_OF_WAYS", "CHOSEN", "CONVOLUTIONS", "EAGER_WAYS", "FEWEST_CHANNELS",
    "MOST_WINDOW_ELEMENTS", "PLANNED", "PLANS", "POOLS", "Way",
]  # fmt: skip

# The primitives whose kernels go over their operands many times. A plan of the one primitive is
# made for each of them.
PLANNED = frozenset(
    {
        "affine_normalize", "affine_normalize_grad", "attention", "attention_grad",
        "cross_entropy", "cross_entropy_grad", "gelu", "gelu_grad", "gelu_unit_grad",
        "log_softmax", "logistic", "logistic_density", "logistic_loss", "normalize",
        "normalize_grad", "sigmoid_biased", "sigmoid_grad", "silu", "silu_grad", "softmax",
        "softmax_grad", "softplus", "softplus_biased", "softplus_grad", "tanh_biased",
        "tanh_grad", "var",
    }
)  # fmt: skip
# Those whose kernels return memory in C order, however their operands lie.
IN_C_ORDER = frozenset(
    {
        "affine_normalize", "affine_normalize_grad", "attention", "attention_grad",
        "cross_entropy", "cross_entropy_grad", "gelu", "gelu_grad", "gelu_unit_grad", "logistic",
        "normalize", "normalize_grad", "silu", "softplus",
    }
)  # fmt: skip
COUNTING_KINDS = "iub"
CONVOLUTIONS = ("conv", "conv_input_grad", "conv_kernel_grad")
POOLS = ("max_pool", "max_pool_argmax", "pool_scatter")
# Those that choose between elements, one by one, in more than one pass or through many branches.
CHOICES_OF_WAYS = ("relu", "relu_grad")
# Convolutions of fewer multiplications, and pools of fewer elements, stay with NumPy.
SMALLEST_WORK = 1 << 18
FEWEST_POOLED = 1 << 16
FEWEST_CHOSEN = 1 << 17
# Products with fewer rows, columns or terms stay with BLAS.
FEWEST_OF_A_PRODUCT = 4
# Of fewer channels, where these lie last, too few elements are computed at a time.
FEWEST_CHANNELS = 8
# The kernel of a larger window would have a long text.
MOST_WINDOW_ELEMENTS = 16


class Way:
    """Says what machine code takes of some primitives, and what makes it.

    Attributes:
        fewest: how many elements the first operand has at least; it is an array of float32 or
            float64.
        key_of: a function of a primitive's name, its operands and its parameters. It returns what
            tells kinds apart; None for operands that machine code does not take.
        maker: loads the maker: a function of a primitive's name, the shapes and dtypes of its
            operands and of its result, and its parameters. It returns a function of operands, or
            None where there is none. That one returns the result, or None where NumPy is to
            compute it.
        exact: whether results have the bits of NumPy's.
        tried: whether they may have these, which a trial tells.
    """

    def __init__(
        self,
        fewest: int,
        key_of: Callable[[str, Sequence[Any], Mapping[str, Any]], Any],
        maker: Callable[[], Callable[..., Any]],
        exact: bool = False,
        tried: bool = False,
    ) -> None:
        self.fewest, self.key_of, self.maker = fewest, key_of, maker
        self.exact, self.tried = exact, tried


@cache
def pool_threads() -> Any:
    """Returns what has the number of threads, which is loaded for large work only."""
    from .plan.threads.pool import threads

    return threads


def key_of_plan(name: str, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Returns the key of a primitive that a plan of its own may compute."""
    # NumPy raises within ``np.errstate(all="raise")``, plans do not.
    if not LEFT_OUT_BY_PLANS.issuperset(np.geterr().values()):
        return None
    first = operands[0].dtype
    # Equal numbers may have different types, and zeros different signs.
    key: list[Any] = [name, repr(params) if params else ""]
    for x in operands:
        if type(x) is not np.ndarray:
            return None
        dtype, flags = x.dtype, x.flags
        if dtype is not first and dtype != first and dtype.kind not in COUNTING_KINDS:
            return None
        if not (flags.aligned and dtype.isnative):
            return None
        if not flags.c_contiguous and name not in IN_C_ORDER:
            return None
        key += x.shape, dtype.char
    return tuple(key)


def key_of_convolution(name: str, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Returns the key of a convolution, or of a derivative of one."""
    x, y = operands
    if name == "conv_kernel_grad":
        work = y.size * x.shape[1] * prod(params["kernel"])
    else:
        work = x.size // x.shape[1] * y.size
    if work < SMALLEST_WORK or x.dtype != y.dtype or not y.flags.aligned:
        return None
    return key_of_shared(name, operands, params)


def key_of_product(name: str, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Returns the key of a product of two matrices in C order, to which a row may be added."""
    x, y, *biases = operands
    if x.dtype != y.dtype or not y.flags.aligned or min(x.shape) < FEWEST_OF_A_PRODUCT:
        return None
    for bias in biases:
        if bias.dtype != x.dtype or not (bias.flags.c_contiguous and bias.flags.aligned):
            return None
    if min(y.shape) < FEWEST_OF_A_PRODUCT:
        return None
    return key_of_shared(name, operands, params)


def key_of_pool(name: str, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Returns the key of a primitive of pooling."""
    x, *winner = operands
    windows = params["windows"]
    if (x.size * prod(windows.window) if winner else x.size) < FEWEST_POOLED:
        return None
    if any(map(any, windows.padding)) or not 1 < prod(windows.window) <= MOST_WINDOW_ELEMENTS:
        return None
    last = x
    if winner:
        (last,) = winner
        if last.dtype.char != "b" or any(s < k for k, s in zip(windows.window, windows.stride)):
            return None
    if not last.flags.aligned or last.shape[1] < FEWEST_CHANNELS or not has_channels_last(last):
        return None
    return key_of_shared(name, operands, params)


def has_channels_last(x: Buffer) -> bool:
    """Says whether an array (N, C, *spatial) lies in memory as (N, *spatial, C) in C order."""
    return bool(x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous)


def key_of_choice(name: str, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Returns the key of a primitive of elements that lie in the same order, without gaps."""
    first = operands[0]
    for x in operands:
        if type(x) is not np.ndarray or x.dtype != first.dtype:
            return None
        if not (x.flags.aligned and x.dtype.isnative):
            return None
    if flat_in_memory(*operands) is None:
        return None
    return name, pool_threads().number, first.dtype.char, first.size


def plan_of_elements(
    name: str, types: Sequence[tuple[Shape, DType]], params: Mapping[str, Any]
) -> Callable[[Sequence[Buffer]], Any] | None:
    """Returns what computes a primitive of elements by a plan of arrays with one axis.

    Args:
        name, types, params: those of a maker of `Way`.
    """
    plan = PLAN_MAKERS[0]()(name, [((prod(shape),), dtype) for shape, dtype in types], params)
    if plan is None:
        return None

    def run(operands: Sequence[Buffer]) -> Any:
        flat = flat_in_memory(*operands)
        out = None if flat is None else plan(flat)
        if out is None:
            return None
        order = order_in_memory(operands[0])
        lying = out.reshape([operands[0].shape[axis] for axis in order])
        return lying.transpose(np.argsort(order))

    return run


def key_of_shared(name: str, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Returns the key of a primitive whose work threads share; None where memory lies oddly."""
    x = operands[0]
    if not (x.flags.aligned and x.dtype.isnative):
        return None
    shapes = [y.shape for y in operands]
    return name, pool_threads().number, x.dtype.char, *shapes, *params.values()


def maker_in(module: str, function: str) -> Callable[[], Callable[..., Any]]:
    """Returns what loads a maker of the plans' modules."""
    return lambda: getattr(import_module(module, __package__), function)


# Smaller operands take less time than it takes to find their plan and to wake a thread.
PLANS = Way(1 << 15, key_of_plan, lambda: PLAN_MAKERS[0]())
CONVOLVED = Way(
    1,
    key_of_convolution,
    maker_in(".plan.native.eager_convolutions", "telling_convolution"),
    tried=True,
)
POOLED = Way(1, key_of_pool, maker_in(".plan.native.channel_pools", "pool_run"), exact=True)
CHOSEN = Way(FEWEST_CHOSEN, key_of_choice, lambda: plan_of_elements, exact=True)
OWN_PRODUCTS = Way(
    1, key_of_product, maker_in(".plan.native.eager_matrices", "own_product"), tried=True
)
EAGER_WAYS = {
    **dict.fromkeys(("matrix_product", "biased_product"), OWN_PRODUCTS),
    **dict.fromkeys(CHOICES_OF_WAYS, CHOSEN),
    **dict.fromkeys(PLANNED, PLANS),
    **dict.fromkeys(CONVOLUTIONS, CONVOLVED),
    **dict.fromkeys(POOLS, POOLED),
}
