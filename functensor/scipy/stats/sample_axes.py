"""Samples of statistics: their axes, what is done about NaN, and results with names."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...numpy.arguments import arrays_together
from ...numpy.known_values import is_at_hand, value_of
from ...primitives.core.registry import registry as ops
from ...primitives.core.shape_dtype import INEXACT, canonical_axis, result_type
from .. import special

__all__ = ["Samples", "checked_policy", "chosen", "normal_pvalue", "student_pvalue"]

POLICIES = ("propagate", "omit", "raise")
ALTERNATIVES = ("two-sided", "less", "greater")


def chosen(name: str, what: str, given: Any, words: tuple[Any, ...]) -> Any:
    """Returns an argument that is one of several words.

    Raises:
        ValueError: it is none of them.
    """
    if given not in words:
        listed = ", ".join(map(repr, words))
        raise ValueError(f"{name}: {what}={given!r}: it is one of {listed}")
    return given


def checked_policy(name: str, nan_policy: str, *arrays: Any) -> None:
    """Refuses what is not to be done about NaN.

    Raises:
        ValueError: the policy is another word, or it is "raise" and there is a NaN.
        NotImplementedError: NaN is to be left out.
    """
    chosen(name, "nan_policy", nan_policy, POLICIES)
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

    def __init__(self, name: str, arrays: Any, axis: Any, nan_policy: str = "propagate") -> None:
        arrays = arrays_together(arrays)
        dtype = result_type(*[x.dtype for x in arrays])
        dtype = dtype if dtype.kind in INEXACT else np.dtype(np.float64)
        arrays = [x if x.dtype == dtype else ops.astype(x, dtype) for x in arrays]
        checked_policy(name, nan_policy, *arrays)
        self.arrays = [_last(x, axis) for x in arrays]
        ndim = max(len(x.shape) for x in arrays)
        self.axes = _axes(axis, ndim)

    def restored(self, out: Any, keepdims: bool) -> Any:
        """Returns a result with the axes, of length 1, where they are to stay."""
        return ops.expand_dims(out, self.axes) if keepdims and self.axes else out


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    named = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(sorted(canonical_axis(a, ndim) for a in named))


def _last(x: Any, axis: Any) -> Any:
    """Returns an array whose axes come together as the last one."""
    if not x.shape:
        x = ops.reshape(x, (1,))
    axes = _axes(axis, len(x.shape))
    rest = [a for a in range(len(x.shape)) if a not in axes]
    lengths = [x.shape[a] for a in rest]
    count = prod([x.shape[a] for a in axes])
    if len(axes) == 1:
        return ops.moveaxis(x, axes[0], -1)
    return ops.reshape(ops.transpose(x, (*rest, *axes)), (*lengths, count))


def as_if_known(name: str, x: Any) -> Any:
    """Returns an array's values where they can be looked at, else None."""
    return value_of(name, x, "") if is_at_hand(x) else None


def _pvalue(name: str, alternative: str, x: Any, below: Callable[[Any], Any]) -> Any:
    """Returns the probability of what is at least as extreme, in a symmetric distribution."""
    chosen(name, "alternative", alternative, ALTERNATIVES)
    if alternative == "two-sided":
        return 2 * below(-ops.abs(x))
    return below(x if alternative == "less" else -x)


def student_pvalue(name: str, alternative: str, t: Any, df: Any) -> Any:
    """Returns the p-value of a statistic that has Student's distribution."""
    return _pvalue(name, alternative, t, lambda x: special.stdtr(df, x))


def normal_pvalue(name: str, alternative: str, z: Any) -> Any:
    """Returns the p-value of a statistic that has the normal distribution."""
    return _pvalue(name, alternative, z, special.ndtr)
