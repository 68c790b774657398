"""PyTorch's functions of windows and of places in images: pools, and padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ....primitives.core.array import Array
from ....primitives.core.buffers import beside
from ....primitives.core.registry import registry as ops
from ....tensors.functions.naming import copied, with_words
from .layers import Sizes, spatial, with_batch

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "fold",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d", "pad", "unfold",
]  # fmt: skip


# -- pools


def paddings(
    lengths: Sequence[int], kernel: Sequence[int], stride: Sequence[int], around: Sequence[int],
    ceil_mode: bool,
) -> list[tuple[int, int]]:  # fmt: skip
    """Returns the padding before and behind each axis; more behind where windows stand over."""
    found = []
    for n, k, s, p in zip(lengths, kernel, stride, around):
        after = p
        if ceil_mode:
            count = -(-(n + 2 * p - k) // s) + 1
            if (count - 1) * s >= n + p:
                count -= 1
            after = max(p, (count - 1) * s + k - n - p)
        found.append((p, after))
    return found


def max_pooling(n: int) -> Callable[..., Any]:
    """Returns the maximum pool over n axes."""
    name = f"max_pool{n}d"

    def function(
        input: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        x, single = with_batch(name, input, n)
        kernel = spatial(kernel_size, n)
        steps = kernel if stride is None else spatial(stride, n)
        around, apart = spatial(padding, n), spatial(dilation, n)
        if any(2 * p > k for p, k in zip(around, kernel)):
            raise RuntimeError(f"{name}: padding {around} is more than half of the kernel {kernel}")
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, apart)]
        pads = paddings(x.shape[2:], reach, steps, around, ceil_mode)
        if return_indices or set(apart) != {1}:
            out = chosen_in_windows(x, kernel, steps, pads, apart)
        else:
            out = ops.max_pool(x, kernel, steps, pads), None
        values, places = [y[0] if single and y is not None else y for y in out]
        return (values, places) if return_indices else values

    return with_words(function, name, pool_doc("the maxima", n) + RETURNS_INDICES)


def chosen_in_windows(
    x: Any, kernel: Sequence[int], stride: Sequence[int], pads: Any, dilation: Sequence[int]
) -> tuple[Any, Any]:
    """Returns the maxima of windows, and where each stands among all elements of its image."""
    filled = ops.pad(x, ((0, 0), (0, 0), *pads), constant_values=-np.inf)
    lengths = x.shape[2:]
    numbers = np.pad(np.arange(prod(lengths)).reshape(lengths), pads)
    windows, places = windows_over(filled, 2, kernel, stride, dilation), numbers
    places = np.asarray(windows_over(numbers, 0, kernel, stride, dilation))
    n = len(kernel)
    windows = ops.reshape(windows, (*windows.shape[: 2 + n], -1))
    places = places.reshape(*places.shape[:n], -1)
    best = ops.argmax(windows, -1, keepdims=True)
    values = ops.squeeze(ops.take_along_axis(windows, best, -1), -1)
    wide = ops.broadcast_to(beside(x, places), windows.shape)
    return values, ops.squeeze(ops.take_along_axis(wide, best, -1), -1)


def windows_over(
    x: Any, first: int, kernel: Sequence[int], stride: Sequence[int], dilation: Any
) -> Any:
    """Returns windows over axes: their places on these, their elements on axes at the end."""
    n = len(kernel)
    for i, (k, s, d) in enumerate(zip(kernel, stride, dilation)):
        axis = first + i
        count = (x.shape[axis] - (k - 1) * d - 1) // s + 1
        index = np.arange(count)[:, None] * s + np.arange(k) * d
        x = ops.moveaxis(ops.take(x, index, axis), axis + 1, first + n + i)
    return x


RETURNS_INDICES = """    dilation: how far elements of a window lie apart.
    return_indices: whether to return where the maxima stand too.
"""


def pool_doc(what: str, n: int) -> str:
    """Returns the docstring of a pool over n axes."""
    return (
        f"Returns {what} of windows over {n} spatial {'axis' if n == 1 else 'axes'}.\n\n"
        "Args:\n"
        "    input: of shape (batch, channels, ...), or without batch.\n"
        "    kernel_size: the windows' lengths, an integer or one for each axis.\n"
        "    stride: how far they lie apart; by default as far as they are long.\n"
        "    padding: elements around the input.\n"
        "    ceil_mode: whether a window may stand over the end.\n"
    )


max_pool1d, max_pool2d, max_pool3d = map(max_pooling, (1, 2, 3))


def mean_pooling(n: int) -> Callable[..., Any]:
    """Returns the average pool over n axes."""
    name = f"avg_pool{n}d"

    def function(
        input: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        x, single = with_batch(name, input, n)
        kernel = spatial(kernel_size, n)
        steps = kernel if stride is None else spatial(stride, n)
        around = spatial(padding, n)
        pads = paddings(x.shape[2:], kernel, steps, around, ceil_mode)
        if divisor_override is not None:
            out = ops.avg_pool(x, kernel, steps, pads) * (prod(kernel) / divisor_override)
        elif ceil_mode and any(b > a for a, b in pads):
            # What stands over the end does not count, what is padded may.
            ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
            if count_include_pad:
                ones = np.pad(ones, ((0, 0), (0, 0), *[(p, p) for p in around]), constant_values=1)
                rest = [(0, b - p) for p, (_, b) in zip(around, pads)]
            else:
                rest = list(pads)
            counted = ops.avg_pool(np.pad(ones, ((0, 0), (0, 0), *rest)), kernel, steps, 0)
            out = ops.avg_pool(x, kernel, steps, pads) / beside(x, np.asarray(counted))
        else:
            out = ops.avg_pool(x, kernel, steps, pads, count_include_pad=count_include_pad)
        return out[0] if single else out

    return with_words(
        function,
        name,
        pool_doc("the means", n)
        + "    count_include_pad: whether padding counts in the number that is divided by.\n"
        "    divisor_override: another number to divide by.\n",
    )


avg_pool1d, avg_pool2d, avg_pool3d = map(mean_pooling, (1, 2, 3))


def lp_pool(
    input: Array, p: float, kernel_size: Sizes, stride: Any, ceil_mode: bool, n: int
) -> Any:
    """Returns the p-th roots of sums of p-th powers of windows over n axes."""
    average = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]
    powers = average(input**p, kernel_size, stride, 0, ceil_mode)
    powers = powers * prod(spatial(kernel_size, n))
    if p <= 1:
        return powers ** (1 / p)
    # A root has no slope at zero, and none is taken there, as in PyTorch.
    zero = ops.equal(powers, 0)
    return ops.where(zero, 0, ops.where(zero, 1, powers) ** (1 / p))


def lp_pool1d(
    input: Array, norm_type: float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Returns p-th roots of sums of p-th powers over one spatial axis; of negative sums NaN."""
    return lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Array, norm_type: float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Returns p-th roots of sums of p-th powers over two spatial axes; of negative sums NaN."""
    return lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Array, norm_type: float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Returns p-th roots of sums of p-th powers over three spatial axes; of negative sums NaN."""
    return lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)


def parts(length: int, count: int) -> list[tuple[int, int]]:
    """Returns where each of some parts of an axis begins and ends; they may overlap."""
    return [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]


def adaptive_means(n: int) -> Callable[..., Any]:
    """Returns the average pool over n axes to a given size."""

    def function(input: Array, output_size: Any) -> Any:
        x, given = input, one_for_each(output_size, n)
        for axis, wanted in zip(range(-n, 0), given):
            length = x.shape[axis]
            count = length if wanted is None else wanted
            if length % count == 0:
                at = x.ndim + axis
                shape = (*x.shape[:at], count, length // count, *x.shape[at + 1 :])
                x = ops.mean(ops.reshape(x, shape), at + 1)
                continue
            here = (*(slice(None),) * (x.ndim + axis),)
            pieces = [x[(*here, slice(a, b))] for a, b in parts(length, count)]
            x = ops.concatenate([ops.mean(piece, axis, keepdims=True) for piece in pieces], axis)
        return x

    return with_words(function, f"adaptive_avg_pool{n}d", adaptive_doc("mean", n))


def adaptive_doc(reduced: str, n: int) -> str:
    """Returns the docstring of a pool to a given size."""
    return f"Returns the {reduced} of so many parts of each of {n} spatial axes."


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(adaptive_means, (1, 2, 3))


def adaptive_maxima(n: int) -> Callable[..., Any]:
    """Returns the maximum pool over n axes to a given size."""
    pool = (max_pool1d, max_pool2d, max_pool3d)[n - 1]

    def function(input: Array, output_size: Any, return_indices: bool = False) -> Any:
        sizes, lengths = one_for_each(output_size, n), input.shape[-n:]
        counts = [b if a is None else a for a, b in zip(sizes, lengths)]
        if return_indices or any(b % a for a, b in zip(counts, lengths)):
            found = chosen_in_parts(input, sizes)
            return found if return_indices else found[0]
        return pool(input, [b // a for a, b in zip(counts, lengths)])

    return with_words(function, f"adaptive_max_pool{n}d", adaptive_doc("max", n))


def one_for_each(sizes: Any, n: int) -> Sequence[Any]:
    """Returns a size for each of n axes, None for one that stays."""
    return sizes if isinstance(sizes, Sequence) else (sizes,) * n


def chosen_in_parts(x: Any, sizes: Sequence[Any]) -> tuple[Any, Any]:
    """Returns the maxima of parts of images, and where each stands in its image."""
    n = len(sizes)
    first = x.ndim - n
    lengths = x.shape[first:]
    windows, places = x, np.arange(prod(lengths)).reshape(lengths)
    for i, (length, size) in enumerate(zip(lengths, sizes)):
        ends = np.array(parts(length, length if size is None else size))
        # Parts of fewer elements have their last one several times.
        longest = (ends[:, 1] - ends[:, 0]).max()
        index = np.minimum(ends[:, :1] + np.arange(longest), ends[:, 1:] - 1)
        axis = first + i
        windows = ops.moveaxis(ops.take(windows, index, axis), axis + 1, axis + n)
        places = np.moveaxis(np.take(places, index, i), i + 1, i + n)
    counts = windows.shape[first : first + n]
    windows = ops.reshape(windows, (*windows.shape[: first + n], -1))
    best = ops.argmax(windows, -1, keepdims=True)
    wide = ops.broadcast_to(beside(x, places.reshape(*counts, -1)), windows.shape)
    found = [ops.take_along_axis(each, best, -1) for each in (windows, wide)]
    return ops.squeeze(found[0], -1), ops.squeeze(found[1], -1)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(adaptive_maxima, (1, 2, 3))


def unpooling(n: int) -> Callable[..., Any]:
    """Returns what puts maxima back to where they stood, over n axes."""

    def function(
        input: Array,
        indices: Any,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Any:
        kernel, around = spatial(kernel_size, n), spatial(padding, n)
        steps = kernel if stride is None else spatial(stride, n)
        lengths = [
            (m - 1) * s - 2 * p + k for m, s, p, k in zip(input.shape[-n:], steps, around, kernel)
        ]
        lengths = lengths if output_size is None else list(output_size)[-n:]
        front = input.shape[:-n]
        rows = prod(front)
        empty = beside(input, np.zeros((rows, prod(lengths)), input.dtype))
        key = (np.arange(rows)[:, None], ops.reshape(indices, (rows, -1)))
        out = ops.index_set(empty, key, ops.reshape(input, (rows, -1)))
        return ops.reshape(out, (*front, *lengths))

    return with_words(
        function, f"max_unpool{n}d", f"Returns maxima over {n} axes at their places, and zeros."
    )


max_unpool1d, max_unpool2d, max_unpool3d = map(unpooling, (1, 2, 3))


# -- windows as rows


def unfold(
    input: Array, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Any:
    """Returns the windows of images, each as a column: of shape (batch, elements, windows)."""
    x, single = with_batch("unfold", input, 2)
    around = [(p, p) for p in spatial(padding, 2)]
    filled = ops.pad(x, ((0, 0), (0, 0), *around))
    kernel = spatial(kernel_size, 2)
    windows = windows_over(filled, 2, kernel, spatial(stride, 2), spatial(dilation, 2))
    rows = ops.transpose(windows, (0, 1, 4, 5, 2, 3))
    out = ops.reshape(rows, (x.shape[0], x.shape[1] * prod(kernel), -1))
    return out[0] if single else out


def fold(
    input: Array,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Any:
    """Returns images as sums of windows that are given as columns: the transpose of `unfold`."""
    single = input.ndim == 2
    x = ops.expand_dims(input, 0) if single else input
    kernel, size = spatial(kernel_size, 2), spatial(output_size, 2)
    around = spatial(padding, 2)
    padded = [n + 2 * p for n, p in zip(size, around)]
    channels = x.shape[1] // prod(kernel)
    numbers = np.arange(prod(padded)).reshape(padded)
    places = np.asarray(windows_over(numbers, 0, kernel, spatial(stride, 2), spatial(dilation, 2)))
    order = places.transpose(2, 3, 0, 1).reshape(-1)
    empty = beside(x, np.zeros((x.shape[0], channels, prod(padded)), x.dtype))
    rows = ops.reshape(x, (x.shape[0], channels, -1))
    out = ops.index_add(empty, (slice(None), slice(None), order), rows)
    out = ops.reshape(out, (x.shape[0], channels, *padded))
    out = out[:, :, around[0] : around[0] + size[0], around[1] : around[1] + size[1]]
    return out[0] if single else out


# -- padding

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(
    input: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Any:
    """Returns a tensor with more places around its last axes, or fewer.

    Args:
        input: a tensor.
        pad: before and behind the last axis, then before and behind the one in front of it, and
            so on; a negative number cuts off.
        mode: ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        value: the constant, 0 by default.

    >>> import functensor.torch as torch
    >>> torch.nn.functional.pad(torch.ones(2), (1, 2)).tolist()
    [0.0, 1.0, 1.0, 0.0, 0.0]
    """
    if mode not in MODES:
        raise ValueError(f"pad: mode is one of {', '.join(MODES)}, not {mode!r}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ValueError(f"pad: {len(pad)} numbers for {input.ndim} axes, two for each of the last")
    if mode != "constant" and value:
        raise ValueError(f"pad: mode={mode!r} takes no value")
    pairs = [(0, 0)] * input.ndim
    for i in range(len(pad) // 2):
        pairs[-1 - i] = (int(pad[2 * i]), int(pad[2 * i + 1]))
    cuts = tuple([slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(input.shape, pairs)])
    x = input if all(c == slice(0, n) for c, n in zip(cuts, input.shape)) else input[cuts]
    more = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if not any(a or b for a, b in more):
        return copied(x)
    most = {"reflect": 1, "circular": 0}.get(mode)
    for n, pair in zip(input.shape, pairs if most is not None else ()):
        if max(pair) > n - (most or 0):
            raise RuntimeError(f"pad: {pair} places by {mode} around an axis of length {n}")
    given = {"constant_values": value or 0} if mode == "constant" else {}
    return ops.pad(x, more, mode=MODES[mode], **given)
