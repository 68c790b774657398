"""Slow references: the definitions of convolution and pooling, one product or element at a time."""

from itertools import product

import numpy as np


def meetings(spatial, window, stride, padding, dilation=None):
    """Yields where windows and elements meet.

    Args:
        spatial, window, stride, padding, dilation: of each axis.

    Yields:
        The place of the window, the place in the window, counted and as an index, and the element.
    """
    dilation = dilation or (1,) * len(spatial)
    for place in product(*map(range, counts(spatial, window, stride, padding, dilation))):
        for number, tap in enumerate(product(*map(range, window))):
            element = tuple(
                p * s + t * d - lo
                for p, s, t, d, (lo, _) in zip(place, stride, tap, dilation, padding)
            )
            if all(0 <= e < n for e, n in zip(element, spatial)):
                yield place, number, tap, element


def counts(spatial, window, stride, padding, dilation=None):
    """Returns how many windows there are along each axis."""
    dilation = dilation or (1,) * len(spatial)
    return [
        (n + lo + hi - d * (k - 1) - 1) // s + 1
        for n, k, s, (lo, hi), d in zip(spatial, window, stride, padding, dilation)
    ]


# Convolution is trilinear: of x, w and g two are given, the third is what their products add up to


def products(x, w, g, geometry):
    """Yields views of x, w and g for every output, channel, window and place in it."""
    stride, padding, dilation, groups = geometry
    outputs, per_group = w.shape[:2]
    for o, c in product(range(outputs), range(per_group)):
        channel = o // (outputs // groups) * per_group + c
        for place, _, tap, element in meetings(x.shape[2:], w.shape[2:], stride, padding, dilation):
            yield (
                x[(slice(None), channel, *element)],
                w[(o, c, *tap, np.newaxis)],
                g[(slice(None), o, *place)],
            )


def conv(x, w, *, geometry):
    """Returns the correlation of images with kernels."""
    stride, padding, dilation, _ = geometry
    places = counts(x.shape[2:], w.shape[2:], stride, padding, dilation)
    g = np.zeros((x.shape[0], w.shape[0], *places), np.result_type(x, w))
    for of_x, of_w, of_g in products(x, w, g, geometry):
        of_g += of_x * of_w
    return g


def conv_input_grad(g, w, *, spatial, geometry):
    """Returns the transpose of ``conv`` in its images."""
    channels = w.shape[1] * geometry.groups
    x = np.zeros((g.shape[0], channels, *spatial), np.result_type(g, w))
    for of_x, of_w, of_g in products(x, w, g, geometry):
        of_x += of_g * of_w
    return x


def conv_kernel_grad(x, g, *, kernel, geometry):
    """Returns the transpose of ``conv`` in its kernels."""
    per_group = x.shape[1] // geometry.groups
    w = np.zeros((g.shape[1], per_group, *kernel), np.result_type(x, g))
    for of_x, of_w, of_g in products(x, w, g, geometry):
        of_w += (of_x * of_g).sum()
    return w


# Pooling


def best(x, windows):
    """Returns the maximum of every window and the number of the first place that has it.

    NaN is larger than all numbers.
    """
    values = np.full((*x.shape[:2], *counts(x.shape[2:], *windows)), -np.inf, x.dtype)
    winners = np.zeros(values.shape, np.int8)
    for place, number, _, element in meetings(x.shape[2:], *windows):
        for row in product(*map(range, x.shape[:2])):
            value, known = x[(*row, *element)], values[(*row, *place)]
            if value > known or (value != value and known == known):
                values[(*row, *place)] = value
                winners[(*row, *place)] = number
    return values, winners


def max_pool(x, *, windows):
    """Returns the maximum of every window."""
    return best(x, windows)[0]


def max_pool_argmax(x, *, windows):
    """Returns the number of the place of every window's first maximum."""
    return best(x, windows)[1]


def pool_take(x, winner, *, windows):
    """Returns of every window the element at the winning place."""
    out = np.zeros(winner.shape, x.dtype)
    for place, number, _, element in meetings(x.shape[2:], *windows):
        wins = winner[(..., *place)] == number
        out[(..., *place)][wins] = x[(..., *element)][wins]
    return out


def pool_scatter(g, winner, *, spatial, windows):
    """Returns what gives every window's value to the element at the winning place."""
    out = np.zeros((*g.shape[:2], *spatial), g.dtype)
    for place, number, _, element in meetings(spatial, *windows):
        wins = winner[(..., *place)] == number
        out[(..., *element)][wins] += g[(..., *place)][wins]
    return out


def divisors(spatial, windows, count_include_pad):
    """Returns how many elements the mean of every window is divided by."""
    inside = np.zeros(counts(spatial, *windows), int)
    for place, *_ in meetings(spatial, *windows):
        inside[place] += 1
    return np.full_like(inside, np.prod(windows.window)) if count_include_pad else inside


def avg_pool(x, *, windows, count_include_pad):
    """Returns the mean of every window."""
    number = divisors(x.shape[2:], windows, count_include_pad)
    out = np.zeros((*x.shape[:2], *number.shape), x.dtype)
    for place, _, _, element in meetings(x.shape[2:], *windows):
        out[(..., *place)] += x[(..., *element)]
    return (out / number).astype(x.dtype)


def avg_pool_grad(g, *, spatial, windows, count_include_pad):
    """Returns the transpose of ``avg_pool``."""
    number = divisors(spatial, windows, count_include_pad)
    out = np.zeros((*g.shape[:2], *spatial), g.dtype)
    for place, _, _, element in meetings(spatial, *windows):
        out[(..., *element)] += g[(..., *place)] / number[place]
    return out
