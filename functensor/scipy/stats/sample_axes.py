"""The arguments that statistics share: axes of samples, policies for NaN, alternatives of tests."""

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

__all__ = [
    "as_if_known", "checked_policy", "checked_word", "mean_of_samples", "normal_pvalue",
    "sample_axes", "samples_along", "student_pvalue", "symmetric_pvalue",
]  # fmt: skip

POLICIES = ("propagate", "omit", "raise")
ALTERNATIVES = ("two-sided", "less", "greater")


def checked_word(name: str, argument: str, given: str, words: tuple[str, ...]) -> str:
    """Returns an argument that is one of several words; refuses another one."""
    if given not in words:
        listed = ", ".join(map(repr, words))
        raise ValueError(f"{name}: {argument}={given!r}: it is one of {listed}")
    return given


def checked_policy(name: str, nan_policy: str, *arrays: Array) -> None:
    """Refuses a policy for NaN that is unknown or not there, and NaN if the policy is "raise"."""
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


def samples_along(
    name: str,
    arrays: Iterable[ArrayLike],
    axis: Axis,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> tuple[list[Array], Callable[[Array], Array]]:
    """Returns arrays of one floating dtype whose last axis is that of the samples.

    The second result is a function that puts the axes, of length 1, back into a statistic if
    ``keepdims`` says so. The name is for messages.
    """
    given = arrays_together(arrays)
    dtype = result_type(*[x.dtype for x in given])
    dtype = dtype if dtype.kind in INEXACT else np.dtype(np.float64)
    given = [x if x.dtype == dtype else ops.astype(x, dtype) for x in given]
    checked_policy(name, nan_policy, *given)
    axes = sample_axes(axis, max(len(x.shape) for x in given))

    def restored(out: Array) -> Array:
        return ops.expand_dims(out, axes) if keepdims and axes else out

    return [_samples_last(x, axis) for x in given], restored


def sample_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Returns the axes of the samples, counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    named = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(sorted(canonical_axis(a, ndim) for a in named))


def _samples_last(x: Array, axis: Axis) -> Array:
    """Returns an array whose axes come together as the last one."""
    if not x.shape:
        x = ops.reshape(x, (1,))
    axes = sample_axes(axis, len(x.shape))
    if len(axes) == 1:
        return ops.moveaxis(x, axes[0], -1)
    rest = [a for a in range(len(x.shape)) if a not in axes]
    shape = *[x.shape[a] for a in rest], prod([x.shape[a] for a in axes])
    return ops.reshape(ops.transpose(x, (*rest, *axes)), shape)


def mean_of_samples(x: Array) -> Array:
    """Returns means along the axis of the samples."""
    return ops.mean(x, axis=-1)


def as_if_known(name: str, x: Array) -> Buffer | None:
    """Returns an array's values if they are known, else None."""
    return value_of(name, x, "") if is_at_hand(x) else None


def symmetric_pvalue(
    name: str, alternative: str, x: Array, below: Callable[[Array], Array]
) -> Array:
    """Returns the p-value of a statistic with a symmetric distribution function, ``below``."""
    checked_word(name, "alternative", alternative, ALTERNATIVES)
    if alternative == "two-sided":
        return 2 * below(-ops.abs(x))
    return below(x if alternative == "less" else -x)


def student_pvalue(name: str, alternative: str, t: Array, df: Array | float) -> Array:
    """Returns the p-value of a statistic that has Student's distribution."""
    return symmetric_pvalue(name, alternative, t, lambda x: special.stdtr(df, x))


def normal_pvalue(name: str, alternative: str, z: Array) -> Array:
    """Returns the p-value of a statistic that has the normal distribution."""
    return symmetric_pvalue(name, alternative, z, special.ndtr)
