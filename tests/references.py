"""Slow references: the definitions of convolution and pooling, one product or element at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil, prod
from typing import Any

import numpy as np


def _tuple(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,) * rank


class _Places:
    """Every pair of a place of the window and an element below it."""

    def __init__(
        self, spatial: Any, window: Any, stride: Any, padding: Any, dilation: Any = 1
    ) -> None:
        rank = len(spatial)
        self.spatial = spatial
        self.window = _tuple(window, rank)
        self.stride = _tuple(self.window if stride is None else stride, rank)
        self.dilation = _tuple(dilation, rank)
        spans = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.window)]
        if padding == "SAME":
            self.count = [ceil(n / s) for n, s in zip(spatial, self.stride)]
            missing = [
                max((c - 1) * s + span - n, 0)
                for c, s, span, n in zip(self.count, self.stride, spans, spatial)
            ]
            self.before = [m // 2 for m in missing]
        else:
            pairs = [p if isinstance(p, tuple) else (p, p) for p in _tuple(padding, rank)]
            self.before = [before for before, _ in pairs]
            self.count = [
                (n + sum(pair) - span) // s + 1
                for n, pair, span, s in zip(spatial, pairs, spans, self.stride)
            ]

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]]:
        """Yields the output's place, the window's as a number and as an index, the element's."""
        for place in product(*map(range, self.count)):
            for number, tap in enumerate(product(*map(range, self.window))):
                element = tuple(
                    p * s + t * d - b
                    for p, s, t, d, b in zip(place, self.stride, tap, self.dilation, self.before)
                )
                if all(0 <= e < n for e, n in zip(element, self.spatial)):
                    yield place, number, tap, element


# -- convolution: the sum over (image, output, channel, place, tap) of x * w * g, by one of them


def conv(
    x: Any, w: Any, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Returns the correlation of images with kernels."""
    places = _Places(x.shape[2:], w.shape[2:], stride, padding, dilation)
    out = np.zeros((x.shape[0], w.shape[0], *places.count), np.result_type(x, w))
    per_group = w.shape[1]
    for o, c in product(range(w.shape[0]), range(per_group)):
        channel = o // (w.shape[0] // groups) * per_group + c
        for place, _, tap, element in places:
            out[(slice(None), o, *place)] += x[(slice(None), channel, *element)] * w[(o, c, *tap)]
    return out


def conv_input_grad(
    g: Any,
    w: Any,
    *,
    spatial: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Returns the transpose of ``conv`` in its images."""
    places = _Places(spatial, w.shape[2:], stride, padding, dilation)
    out = np.zeros((g.shape[0], w.shape[1] * groups, *spatial), np.result_type(g, w))
    per_group = w.shape[1]
    for o, c in product(range(w.shape[0]), range(per_group)):
        channel = o // (w.shape[0] // groups) * per_group + c
        for place, _, tap, element in places:
            out[(slice(None), channel, *element)] += g[(slice(None), o, *place)] * w[(o, c, *tap)]
    return out


def conv_kernel_grad(
    x: Any,
    g: Any,
    *,
    kernel: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Returns the transpose of ``conv`` in its kernels."""
    places = _Places(x.shape[2:], kernel, stride, padding, dilation)
    per_group = x.shape[1] // groups
    out = np.zeros((g.shape[1], per_group, *kernel), np.result_type(x, g))
    for o, c in product(range(g.shape[1]), range(per_group)):
        channel = o // (g.shape[1] // groups) * per_group + c
        for place, _, tap, element in places:
            products = x[(slice(None), channel, *element)] * g[(slice(None), o, *place)]
            out[(o, c, *tap)] += products.sum()
    return out


# -- pooling: rows are the images' channels



def _best(x: Any, window: Any, stride: Any, padding: Any) -> tuple[Any, Any]:
    places = _Places(x.shape[2:], window, stride, padding)
    values = np.full((*x.shape[:2], *places.count), -np.inf, x.dtype)
    winners = np.zeros(values.shape, np.int8)
    for place, number, _, element in places:
        for row in product(*map(range, x.shape[:2])):
            if x[(*row, *element)] > values[(*row, *place)]:
                values[(*row, *place)] = x[(*row, *element)]
                winners[(*row, *place)] = number
    return values, winners


def max_pool(x: Any, *, window: Any, stride: Any = None, padding: Any = 0) -> Any:
    """Returns the maximum of every window."""
    return _best(x, window, stride, padding)[0]


def max_pool_argmax(x: Any, *, window: Any, stride: Any = None, padding: Any = 0) -> Any:
    """Returns the number of the place of every window's first maximum."""
    return _best(x, window, stride, padding)[1]


def pool_take(x: Any, winner: Any, *, window: Any, stride: Any = None, padding: Any = 0) -> Any:
    """Returns of every window the element at the winning place."""
    out = np.zeros(winner.shape, x.dtype)
    for place, number, _, element in _Places(x.shape[2:], window, stride, padding):
        wins = winner[(..., *place)] == number
        out[(..., *place)][wins] = x[(..., *element)][wins]
    return out


def pool_scatter(
    g: Any, winner: Any, *, spatial: Any, window: Any, stride: Any = None, padding: Any = 0
) -> Any:
    """Returns what gives every window's value to the element at the winning place."""
    spatial = _tuple(spatial, g.ndim - 2)
    out = np.zeros((*g.shape[:2], *spatial), g.dtype)
    for place, number, _, element in _Places(spatial, window, stride, padding):
        wins = winner[(..., *place)] == number
        out[(..., *element)][wins] += g[(..., *place)][wins]
    return out


def _divisors(places: _Places, count_include_pad: bool) -> Any:
    if count_include_pad:
        return np.full(places.count, prod(places.window))
    inside = np.zeros(places.count, int)
    for place, *_ in places:
        inside[place] += 1
    return inside


def avg_pool(
    x: Any, *, window: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True
) -> Any:
    """Returns the mean of every window."""
    places = _Places(x.shape[2:], window, stride, padding)
    out = np.zeros((*x.shape[:2], *places.count), x.dtype)
    for place, _, _, element in places:
        out[(..., *place)] += x[(..., *element)]
    return (out / _divisors(places, count_include_pad)).astype(x.dtype)


def avg_pool_grad(
    g: Any,
    *,
    spatial: Any,
    window: Any,
    stride: Any = None,
    padding: Any = 0,
    count_include_pad: bool = True,
) -> Any:
    """Returns the transpose of ``avg_pool``."""
    spatial = _tuple(spatial, g.ndim - 2)
    places = _Places(spatial, window, stride, padding)
    divisors = _divisors(places, count_include_pad)
    out = np.zeros((*g.shape[:2], *spatial), g.dtype)
    for place, _, _, element in places:
        out[(..., *element)] += g[(..., *place)] / divisors[place]
    return out
