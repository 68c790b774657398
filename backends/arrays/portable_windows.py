"""Convolution, pooling and attention with functions that every array module has.

They gather all windows at once, which takes much memory. NumPy and CuPy have kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from ..annotations import ArrayModule, Buffer, Shape
from ..restoring import quiet

__all__ = ["WINDOW_KERNELS"]


class WindowGrid:
    """The places of windows over padded axes, known on the host.

    Args:
        xp: the array module that computes with them.
        spatial, kernel: the lengths of the axes, of the whole and of a window.
        geometry: the strides, paddings and dilations of a convolution, or of pooling.

    Attributes:
        padded: the lengths of the axes with their padding.
        inner: the key of all but the padding.
        counts: how many windows there are along each axis.
        places: an array (windows, taps) of places in the padded elements in C order.
    """

    def __init__(self, xp: ArrayModule, spatial: Shape, kernel: Shape, geometry: Any) -> None:
        self.xp = xp
        stride, padding = geometry.stride, geometry.padding
        # Pooling has no dilation.
        dilation = getattr(geometry, "dilation", (1,) * len(spatial))
        self.padded = tuple(n + lo + hi for n, (lo, hi) in zip(spatial, padding, strict=True))
        inner = (slice(lo, lo + n) for n, (lo, _) in zip(spatial, padding, strict=True))
        self.inner: Any = (..., *inner)
        spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
        self.counts = tuple(
            (n - span) // s + 1 for n, span, s in zip(self.padded, spans, stride, strict=True)
        )
        places = np.zeros((1, 1), np.int64)
        for n, count, s, k, d in zip(
            self.padded, self.counts, stride, kernel, dilation, strict=True
        ):
            steps = np.arange(count)[:, None] * s + np.arange(k) * d
            places = places[:, None, :, None] * n + steps[None, :, None, :]
            places = places.reshape(places.shape[0] * count, places.shape[2] * k)
        self.places = places

    def gathered(self, x: Buffer, fill: float = 0.0) -> Buffer:
        """Returns the windows of x (N, C, *spatial) as an array (N, C, windows, taps)."""
        wide = self.xp.full((*x.shape[:2], *self.padded), fill, x.dtype)
        wide[self.inner] = x
        flat = self.xp.reshape(wide, (*x.shape[:2], prod(self.padded)))
        return flat[..., self.xp.asarray(self.places)]

    def spread(self, values: Buffer) -> Buffer:
        """Transposes ``gathered``: values of all windows are added up where they meet."""
        flat = self.xp.zeros((*values.shape[:2], prod(self.padded)), values.dtype)
        add: Any = self.xp.add
        add.at(flat, (..., self.xp.asarray(self.places)), values)
        out: Buffer = self.xp.reshape(flat, (*values.shape[:2], *self.padded))[self.inner]
        return out

    def laid_out(self, out: Buffer) -> Buffer:
        """Returns an array with one number for each window with the windows' axes."""
        return self.xp.reshape(out, (*out.shape[:2], *self.counts))

    def flat(self, g: Buffer) -> Buffer:
        """Returns an array that has the windows' axes with one axis for all windows."""
        return self.xp.reshape(g, (*g.shape[:2], prod(self.counts)))


def _by_groups(xp: ArrayModule, x: Buffer, axis: int, groups: int) -> Buffer:
    """Returns an array with an axis of channels divided into groups and channels of each."""
    shape = x.shape
    parts = (groups, shape[axis] // groups)
    return xp.reshape(x, (*shape[:axis], *parts, *shape[axis + 1 :]))


def _kernel_taps(xp: ArrayModule, w: Buffer, groups: int) -> Buffer:
    """Returns kernels as an array (groups, outputs, channels, taps)."""
    return _by_groups(xp, xp.reshape(w, (*w.shape[:2], prod(w.shape[2:]))), 0, groups)


def _portable_conv(xp: ArrayModule, x: Buffer, w: Buffer, *, geometry: Any) -> Buffer:
    grid = WindowGrid(xp, x.shape[2:], w.shape[2:], geometry)
    windows = _by_groups(xp, grid.gathered(x), 1, geometry.groups)
    out = xp.einsum("ngcpt,goct->ngop", windows, _kernel_taps(xp, w, geometry.groups))
    return xp.reshape(out, (len(x), len(w), *grid.counts))


def _portable_conv_kernel_grad(
    xp: ArrayModule, x: Buffer, g: Buffer, *, kernel: Shape, geometry: Any
) -> Buffer:
    grid = WindowGrid(xp, x.shape[2:], kernel, geometry)
    windows = _by_groups(xp, grid.gathered(x), 1, geometry.groups)
    values = _by_groups(xp, grid.flat(g), 1, geometry.groups)
    out = xp.einsum("ngcpt,ngop->goct", windows, values)
    return xp.reshape(out, (g.shape[1], x.shape[1] // geometry.groups, *kernel))


def _portable_conv_input_grad(
    xp: ArrayModule, g: Buffer, w: Buffer, *, spatial: Shape, geometry: Any
) -> Buffer:
    grid = WindowGrid(xp, spatial, w.shape[2:], geometry)
    values = _by_groups(xp, grid.flat(g), 1, geometry.groups)
    windows = xp.einsum("ngop,goct->ngcpt", values, _kernel_taps(xp, w, geometry.groups))
    channels = w.shape[1] * geometry.groups
    return grid.spread(xp.reshape(windows, (len(g), channels, *windows.shape[3:])))


def _portable_max_pool(xp: ArrayModule, x: Buffer, *, windows: Any) -> Buffer:
    grid = WindowGrid(xp, x.shape[2:], windows.window, windows)
    return grid.laid_out(xp.max(grid.gathered(x, -inf), axis=(3,)))


def _portable_max_pool_argmax(xp: ArrayModule, x: Buffer, *, windows: Any) -> Buffer:
    grid = WindowGrid(xp, x.shape[2:], windows.window, windows)
    return grid.laid_out(xp.argmax(grid.gathered(x, -inf), axis=3)).astype(np.int8)


def _wins(winner: Buffer, grid: WindowGrid) -> Buffer:
    """Returns whether each place in each window wins."""
    taps = grid.xp.asarray(np.arange(grid.places.shape[1]))
    return grid.xp.equal(grid.flat(winner)[..., None], taps)


def _portable_pool_take(xp: ArrayModule, x: Buffer, winner: Buffer, *, windows: Any) -> Buffer:
    grid = WindowGrid(xp, x.shape[2:], windows.window, windows)
    taken = xp.where(_wins(winner, grid), grid.gathered(x), 0)
    return grid.laid_out(xp.sum(taken, axis=(3,)))


def _portable_pool_scatter(
    xp: ArrayModule, g: Buffer, winner: Buffer, *, spatial: Shape, windows: Any
) -> Buffer:
    grid = WindowGrid(xp, spatial, windows.window, windows)
    return grid.spread(xp.where(_wins(winner, grid), grid.flat(g)[..., None], 0))


def _divisors(grid: WindowGrid, dtype: Any, padding: bool) -> Buffer:
    """Returns how many elements of each window its mean is over."""
    if padding:
        return grid.xp.full((prod(grid.counts),), grid.places.shape[1], dtype)
    inside = np.zeros(grid.padded)
    inside[grid.inner] = 1
    return grid.xp.asarray(np.asarray(inside.reshape(-1)[grid.places].sum(1), dtype))


def _portable_avg_pool(
    xp: ArrayModule, x: Buffer, *, windows: Any, count_include_pad: bool
) -> Buffer:
    grid = WindowGrid(xp, x.shape[2:], windows.window, windows)
    divisors = _divisors(grid, x.dtype, count_include_pad)
    return grid.laid_out(xp.sum(grid.gathered(x), axis=(3,)) / divisors)


def _portable_avg_pool_grad(
    xp: ArrayModule, g: Buffer, *, spatial: Shape, windows: Any, count_include_pad: bool
) -> Buffer:
    grid = WindowGrid(xp, spatial, windows.window, windows)
    shares = grid.flat(g) / _divisors(grid, g.dtype, count_include_pad)
    shape = (*shares.shape, grid.places.shape[1])
    return grid.spread(xp.broadcast_to(shares[..., None], shape))


def _attention_weights(
    xp: ArrayModule, q: Buffer, k: Buffer, mask: Sequence[Buffer], *, causal: bool, scale: float
) -> Buffer:
    """Returns the share of every key in every query; 0 where a query sees no key."""
    scores = scale * xp.matmul(q, xp.swapaxes(k, -1, -2))
    for given in mask:
        scores = xp.where(given, scores, -inf) if given.dtype.kind == "b" else scores + given
    if causal:
        scores = xp.where(xp.asarray(np.tri(*scores.shape[-2:], dtype=np.bool_)), scores, -inf)
    if not scores.shape[-1]:
        return scores
    highest = xp.max(scores, axis=(scores.ndim - 1,), keepdims=True)
    with quiet():
        powers = xp.exp(scores - xp.where(xp.isfinite(highest), highest, 0))
    total = xp.sum(powers, axis=(scores.ndim - 1,), keepdims=True)
    return powers / xp.where(total > 0, total, 1)


def _portable_attention(
    xp: ArrayModule, q: Buffer, k: Buffer, v: Buffer, *mask: Buffer, learned: bool, **params: Any
) -> Buffer:
    return xp.matmul(_attention_weights(xp, q, k, mask, **params), v)


def _portable_attention_grad(
    xp: ArrayModule, g: Buffer, out: Buffer, q: Buffer, k: Buffer, v: Buffer, *mask: Buffer,
    causal: bool, scale: float,
) -> Buffer:  # fmt: skip
    weights = _attention_weights(xp, q, k, mask, causal=causal, scale=scale)
    along = xp.sum(g * out, axis=(g.ndim - 1,), keepdims=True)
    by_scores = weights * (xp.matmul(g, xp.swapaxes(v, -1, -2)) - along) * scale
    parts = (
        xp.matmul(by_scores, k),
        xp.matmul(xp.swapaxes(by_scores, -1, -2), q),
        xp.matmul(xp.swapaxes(weights, -1, -2), g),
    )
    rows, columns = (max(part.shape[axis] for part in parts) for axis in (-2, -1))
    stacked = xp.zeros((3, *q.shape[:-2], rows, columns), q.dtype)
    for i, part in enumerate(parts):
        stacked[i, ..., : part.shape[-2], : part.shape[-1]] = part
    return stacked


WINDOW_KERNELS: dict[str, Callable[..., Buffer]] = {
    "attention": _portable_attention,
    "attention_grad": _portable_attention_grad,
    "avg_pool": _portable_avg_pool,
    "avg_pool_grad": _portable_avg_pool_grad,
    "conv": _portable_conv,
    "conv_input_grad": _portable_conv_input_grad,
    "conv_kernel_grad": _portable_conv_kernel_grad,
    "max_pool": _portable_max_pool,
    "max_pool_argmax": _portable_max_pool_argmax,
    "pool_scatter": _portable_pool_scatter,
    "pool_take": _portable_pool_take,
}
