"""Samples of statistics: their axes, what is done about NaN, and results with names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

import numpy as np

from ...backends.annotations import Axis, Buffer
from ...numpy.arguments import arrays_together
from ...numpy.known_values import is_at_hand, value_of
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.shape_dtype import INEXACT, canonical_axis, result_type
from .. import special

__all__ = ["Samples", "checked_policy", "checked_word", "normal_pvalue", "student_pvalue"]

POLICIES = ("propagate", "omit", "raise")
ALTERNATIVES = ("two-sided", "less", "greater")


def checked_word(name: str, what: str, given: str, words: tuple[str, ...]) -> str:
    """Returns an argument that is one of several words.

    Raises:
        ValueError: it is none of them.
    """
    if given not in words:
        listed = ", ".join(map(repr, words))
        raise ValueError(f"{name}: {what}={given!r}: it is one of {listed}")
    return given


def checked_policy(name: str, nan_policy: str, *arrays: Array) -> None:
    """Refuses what is not to be done about NaN.

    Raises:
        ValueError: the policy is another word, or it is "raise" and there is a NaN.
        NotImplementedError: NaN is to be left out.
    """
    checked_word(name, "nan_policy", nan_policy, POLICIES)
    if nan_policy == "omit":
        raise NotImplementedError(
            f"{name}: nan_policy='omit' is not there: select the numbers, x[~np.isnan(x)]"
        )
    if nan_policy == "raise":
        for x in arrays:
            fix = f"nan_policy='propagate', and look for NaN in what {name} returns"
            if np.isnan(value_of(name, x, fix)).any():
                raise ValueError(f"{name}: The input contains nan values")


class Samples:
    """Arrays of one floating dtype whose last axis is that of the samples.

    Attributes:
        arrays: them.
        axes: the axes, from the front, of the first one as it was given.

    Args:
        name: the function, for messages.
        arrays: as they were given.
        axis: an axis, a tuple of them, or None for all.
        nan_policy: what to do about NaN.
    """

    def __init__(
        self, name: str, arrays: Iterable[ArrayLike], axis: Axis, nan_policy: str = "propagate"
    ) -> None:
        given = arrays_together(arrays)
        dtype = result_type(*[x.dtype for x in given])
        dtype = dtype if dtype.kind in INEXACT else np.dtype(np.float64)
        given = [x if x.dtype == dtype else ops.astype(x, dtype) for x in given]
        checked_policy(name, nan_policy, *given)
        self.arrays = [_samples_last(x, axis) for x in given]
        ndim = max(len(x.shape) for x in given)
        self.axes = _sample_axes(axis, ndim)

    def restored(self, out: Array, keepdims: bool) -> Array:
        """Returns a result with the axes, of length 1, where they are to stay."""
        return ops.expand_dims(out, self.axes) if keepdims and self.axes else out


def _sample_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    named = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(sorted(canonical_axis(a, ndim) for a in named))


def _samples_last(x: Array, axis: Axis) -> Array:
    """Returns an array whose axes come together as the last one."""
    if not x.shape:
        x = ops.reshape(x, (1,))
    axes = _sample_axes(axis, len(x.shape))
    rest = [a for a in range(len(x.shape)) if a not in axes]
    lengths = [x.shape[a] for a in rest]
    count = prod([x.shape[a] for a in axes])
    if len(axes) == 1:
        return ops.moveaxis(x, axes[0], -1)
    return ops.reshape(ops.transpose(x, (*rest, *axes)), (*lengths, count))


def mean_of_samples(x: Array) -> Array:
    """Returns means along the axis of the samples."""
    return ops.mean(x, axis=-1)


def as_if_known(name: str, x: Array) -> Buffer | None:
    """Returns an array's values where they can be looked at, else None."""
    return value_of(name, x, "") if is_at_hand(x) else None


def _pvalue(name: str, alternative: str, x: Array, below: Callable[[Array], Array]) -> Array:
    """Returns the probability of what is at least as extreme, in a symmetric distribution."""
    checked_word(name, "alternative", alternative, ALTERNATIVES)
    if alternative == "two-sided":
        return 2 * below(-ops.abs(x))
    return below(x if alternative == "less" else -x)


def student_pvalue(name: str, alternative: str, t: Array, df: Array | float) -> Array:
    """Returns the p-value of a statistic that has Student's distribution."""
    return _pvalue(name, alternative, t, lambda x: special.stdtr(df, x))


def normal_pvalue(name: str, alternative: str, z: Array) -> Array:
    """Returns the p-value of a statistic that has the normal distribution."""
    return _pvalue(name, alternative, z, special.ndtr)
