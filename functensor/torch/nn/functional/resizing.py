"""Images of other sizes: each element is one of the nearest, or a weighted sum of some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....primitives.core.array import Array
from ....primitives.core.buffers import beside
from ....primitives.core.registry import registry as ops
from .windows import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = ["interpolate", "upsample"]

# How many spatial axes a mode is for, where it is not for any number.
SPATIAL_AXES = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}


def interpolate(
    input: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Returns images of another size.

    Args:
        input: of shape (batch, channels, ...).
        size: the spatial lengths.
        scale_factor: by how much they grow, where there is no size.
        mode: ``"nearest"``, ``"nearest-exact"``, ``"linear"``, ``"bilinear"``, ``"trilinear"``,
            ``"bicubic"`` or ``"area"``.
        align_corners: whether the outermost elements of both are at the same places; not for modes
            that weigh no neighbours.
        recompute_scale_factor: whether distances follow from the lengths, not from the factor.
        antialias: whether shrinking by ``"bilinear"`` or ``"bicubic"`` weighs all elements that a
            new one covers.

    Raises:
        ValueError: there is no such mode, it has no ``align_corners`` or no ``antialias``, or not
            just one of ``size`` and ``scale_factor`` is given.
        NotImplementedError: the mode is for another number of axes.
    """
    n = input.ndim - 2
    if not 1 <= n <= 3:
        raise NotImplementedError(f"interpolate: tensors of 3, 4 or 5 axes, not {input.ndim}")
    if n != SPATIAL_AXES.get(mode, n):
        raise NotImplementedError(
            f"interpolate: mode={mode!r} is for {SPATIAL_AXES[mode] + 2} axes, not {input.ndim}"
        )
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"interpolate: mode={mode!r} has no align_corners")
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give size or scale_factor, and one of them")
    if antialias and mode not in SMOOTHED:
        raise ValueError(f"interpolate: antialias=True is for {' and '.join(SMOOTHED)}")
    lengths = input.shape[2:]
    factors: Any = None
    if size is None:
        factors = (scale_factor,) * n if not isinstance(scale_factor, Sequence) else scale_factor
        wanted = [int(np.floor(m * f)) for m, f in zip(lengths, factors)]
    else:
        wanted = [size] * n if isinstance(size, int) else list(size)
    if min(wanted) < 1:
        raise RuntimeError(f"interpolate: lengths are at least 1, not {wanted}")
    if recompute_scale_factor:
        factors = None
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[n - 1](input, wanted)
    if mode not in WEIGHTS:
        raise ValueError(
            f"interpolate: mode is 'area' or one of {', '.join(WEIGHTS)}, not {mode!r}"
        )
    x = input
    for i, (old, new) in enumerate(zip(lengths, wanted)):
        step = old / new if factors is None else 1 / factors[i]
        kind = SMOOTHED[mode] if antialias else WEIGHTS[mode]
        places, weights = kind(old, new, step, bool(align_corners))
        picked = ops.take(x, beside(x, places), 2 + i)
        if weights is None:
            x = picked
            continue
        shape = (*weights.shape, *(1,) * (n - 1 - i))
        x = ops.sum(picked * beside(x, weights.astype(x.dtype).reshape(shape)), 3 + i)
    return x


def source_places(old: int, new: int, step: float, corners: bool) -> np.ndarray[Any, Any]:
    """Returns where the elements of the new axis lie on the old one."""
    if corners:
        return np.arange(new) * ((old - 1) / (new - 1) if new > 1 else 0.0)
    return (np.arange(new) + 0.5) * step - 0.5


def nearest_places(old: int, new: int, step: float, corners: bool) -> tuple[Any, None]:
    """Returns the elements that PyTorch takes for the nearest."""
    return np.minimum(np.floor(np.arange(new) * step).astype(np.int64), old - 1), None


def nearest_exact(old: int, new: int, step: float, corners: bool) -> tuple[Any, None]:
    """Returns the nearest elements."""
    places = np.floor((np.arange(new) + 0.5) * step).astype(np.int64)
    return np.minimum(places, old - 1), None


def straight(old: int, new: int, step: float, corners: bool) -> tuple[Any, Any]:
    """Returns the two neighbours of each place, and their weights."""
    at = np.maximum(source_places(old, new, step, corners), 0)
    low = np.minimum(np.floor(at).astype(np.int64), old - 1)
    high = np.minimum(low + 1, old - 1)
    part = np.clip(at - low, 0, 1)
    return np.stack([low, high], -1), np.stack([1 - part, part], -1)


def cubic(old: int, new: int, step: float, corners: bool) -> tuple[Any, Any]:
    """Returns the four neighbours of each place, and their weights (Keys, 1981; a = -3/4)."""
    at = source_places(old, new, step, corners)
    low = np.floor(at).astype(np.int64)
    away = np.abs((at - low)[:, None] - np.arange(-1, 3))
    places = np.clip(low[:, None] + np.arange(-1, 3), 0, old - 1)
    return places, weights_by_distance(away, -0.75)


def weights_by_distance(away: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    """Returns the weights of neighbours by how far away they are, up to 2."""
    near = ((a + 2) * away - (a + 3)) * away**2 + 1
    far = ((away - 5) * away + 8) * away * a - 4 * a
    return np.where(away <= 1, near, np.where(away < 2, far, 0))


def widened_filter(filter: Callable[[Any], Any], reach: int) -> Callable[..., tuple[Any, Any]]:
    """Returns the kind of weights that widens a filter where elements are left out."""

    def kind(old: int, new: int, step: float, corners: bool) -> tuple[Any, Any]:
        if corners:
            step = (old - 1) / (new - 1) if new > 1 else 0.0
        width = max(step, 1.0)
        center = step * (np.arange(new) + 0.5)
        first = np.maximum((center - reach * width + 0.5).astype(np.int64), 0)
        last = np.minimum((center + reach * width + 0.5).astype(np.int64), old)
        places = first[:, None] + np.arange(int((last - first).max()))
        away = np.abs(places + 0.5 - center[:, None]) / width
        weights = np.where(places < last[:, None], filter(away), 0)
        return np.minimum(places, old - 1), weights / weights.sum(1, keepdims=True)

    return kind


WEIGHTS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "nearest": nearest_places, "nearest-exact": nearest_exact, "linear": straight,
    "bilinear": straight, "trilinear": straight, "bicubic": cubic,
}  # fmt: skip
# With antialias.
SMOOTHED = {
    "bilinear": widened_filter(lambda away: np.maximum(1 - away, 0), 1),
    "bicubic": widened_filter(lambda away: weights_by_distance(away, -0.5), 2),
}


def upsample(
    input: Array, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """Returns images of another size; an older name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)
