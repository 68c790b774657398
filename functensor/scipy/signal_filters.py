"""Recursive filters of `functensor.scipy.signal`, in one direction and in both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..backends.annotations import Buffer
from ..numpy.arguments import array_beside, as_inexact
from ..numpy.known_values import is_at_hand, value_of
from ..primitives.contract.linear_filter import linear_filter
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.errors import misfit
from ..primitives.core.shape_dtype import canonical_axis, result_type
from .axis_slices import cut_last, padded_last

__all__ = ["filtfilt", "lfilter", "lfilter_zi", "sosfilt", "sosfilt_zi", "sosfiltfilt"]

EXTENSIONS_AT_ENDS = ("odd", "even", "constant", None)


def _polynomials(
    name: str, b: ArrayLike, a: ArrayLike, x: Array | None = None
) -> tuple[Array, Array]:
    """Returns a filter's polynomials as arrays with elements along one axis, lists beside x."""
    if x is not None:
        b, a = array_beside(x, b), array_beside(x, a)
    b, a = as_inexact(b), as_inexact(a)
    b, a = (ops.reshape(z, (1,)) if not z.shape else z for z in (b, a))
    for z, letter in ((b, "b"), (a, "a")):
        if len(z.shape) != 1 or not z.shape[0]:
            raise misfit(
                f"{name}: the polynomial {letter} has shape {z.shape}",
                "give the coefficients along one axis, e.g. b=[0.5, 0.5]; ft.vmap filters "
                "by several",
            )
    if is_at_hand(a) and not value_of(name, a, "")[0]:
        raise ValueError(f"{name}: the first coefficient a[0] is 0; it divides all others")
    return b, a


def _signal_along(name: str, x: ArrayLike, axis: int) -> tuple[Array, int]:
    x = as_inexact(x)
    if not x.shape:
        raise ValueError(f"{name}: x is a number; give a sequence along an axis")
    return x, canonical_axis(axis, len(x.shape))


def _state(name: str, zi: Array, shape: tuple[int, ...]) -> Array:
    """Returns an initial state, its axis last, in its whole shape."""
    fitting = len(zi.shape) == len(shape) and zi.shape[-1] == shape[-1]
    if not fitting or any(m not in (1, n) for m, n in zip(zi.shape, shape)):
        raise misfit(
            f"{name}: an initial state of shape {zi.shape}, its axis last",
            f"zi of shape {shape}, or with 1 in front: numbers along the axis of filtering",
        )
    return ops.broadcast_to(zi, shape)


def _products(c: Array, x: Array, start: int, stop: int) -> Array:
    """Returns some elements of the full convolution of a polynomial and sequences."""
    rows, length = x.shape[:-1], x.shape[-1]
    if not length or start == stop:
        return ops.zeros_like(ops.broadcast_to(ops.sum(x) + ops.sum(c), (*rows, stop - start)))
    whole = ops.convolve_full(ops.broadcast_to(c, (*rows, *c.shape)), x)
    whole = padded_last(whole, 0, max(stop - whole.shape[-1], 0))
    return cut_last(whole, start, stop)


def _filtered_with_state(b: Array, a: Array, x: Array, zi: Array) -> tuple[Array, Array]:
    """Filters along the last axis from an initial state; returns the final state too.

    A state holds the contributions of the samples so far to the samples to come.
    """
    count = max(b.shape[0], a.shape[0]) - 1
    length = x.shape[-1]
    lead = ops.index(a, 0)
    b, a = b / lead, a / lead
    one = ops.ones_like(ops.index(a, slice(0, 1)))
    out = linear_filter.bind((b, a, x), {})
    first = cut_last(zi, 0, length)
    out = out + linear_filter.bind((one, a, padded_last(first, 0, length - first.shape[-1])), {})
    used = min(count, length)
    tails = [cut_last(z, length - used) for z in (x, out)]
    state = _products(b, tails[0], used, used + count) - _products(a, tails[1], used, used + count)
    rest = cut_last(zi, used)
    return out, state + padded_last(rest, 0, count - rest.shape[-1])


def lfilter(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Array | tuple[Array, Array]:
    """Returns sequences filtered by a rational transfer function.

    Args:
        b, a: the numerator's and the denominator's coefficients, one axis each, ``a[0]`` not 0.
        x: an array.
        axis: along which axis.
        zi: the initial state: of x's shape, or 1 beside the axis, with ``max(len(a), len(b)) - 1``
            along the axis; None to be at rest.

    Returns:
        An array of x's shape: y of ``a[0] y[n] = sum(b[k] x[n - k]) - sum(a[k] y[n - k])``, k from
        1 on in the second sum. With ``zi`` a pair of that and the final state.

    Raises:
        ValueError: ``a[0]`` is 0, or x is a number.
        ShapeError: a polynomial has not one axis with elements, or the state does not fit.
        MissingExtraError: SciPy is not installed.

    Source: A. V. Oppenheim and R. W. Schafer, "Discrete-Time Signal Processing", chapter 6: the
    transposed direct form II.

    >>> import functensor as ft
    >>> ft.scipy.signal.lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0]).tolist()
    [1.0, 0.5, 0.25]
    """
    x, axis = _signal_along("lfilter", x, axis)
    b, a = _polynomials("lfilter", b, a, x)
    moved = ops.moveaxis(x, axis, -1)
    if zi is None:
        return ops.moveaxis(linear_filter.bind((b, a, moved), {}), -1, axis)
    zi = as_inexact(zi)
    if len(zi.shape) == len(x.shape):
        zi = ops.moveaxis(zi, axis, -1)
    zi = _state("lfilter", zi, (*moved.shape[:-1], max(b.shape[0], a.shape[0]) - 1))
    out, last = _filtered_with_state(b, a, moved, zi)
    return ops.moveaxis(out, -1, axis), ops.moveaxis(last, -1, axis)


def lfilter_zi(b: ArrayLike, a: ArrayLike) -> Array:
    """Returns the state of a filter after a long sequence of ones.

    Args:
        b, a: as for `lfilter`.

    Returns:
        An array of shape ``(max(len(a), len(b)) - 1,)``.

    Raises:
        ValueError: ``a[0]`` is 0.
        ShapeError: a polynomial has not one axis with elements.
        LinAlgError: a sums up to 0, so that there is no such state.

    Source: of the state z, which a sample of 1 leaves as it is: ``z[i] = z[i + 1] + b[i + 1] -
    a[i + 1] y``, y being ``sum(b) / sum(a)``.

    >>> import functensor as ft
    >>> ft.scipy.signal.lfilter_zi([1.0], [1.0, -0.5]).tolist()
    [1.0]
    """
    b, a = _polynomials("lfilter_zi", b, a)
    count = max(b.shape[0], a.shape[0])
    lead = ops.index(a, 0)
    b, a = (padded_last(z / lead, 0, count - z.shape[0]) for z in (b, a))
    total = ops.sum(a)
    if is_at_hand(total) and not value_of("lfilter_zi", total, ""):
        raise np.linalg.LinAlgError("lfilter_zi: the denominator a sums up to 0: no steady state")
    level = ops.sum(b) / total
    return ops.cumsum(ops.index(b - a * level, slice(1, None)), 0, reverse=True)


def _extended_at_ends(
    name: str, x: Array, padtype: str | None, padlen: int | None, taps: int
) -> tuple[Array, int]:
    """Returns sequences continued at both ends of their last axis, and by how many samples."""
    if padtype not in EXTENSIONS_AT_ENDS:
        raise ValueError(f"{name}: padtype={padtype!r}: it is 'odd', 'even', 'constant' or None")
    edge = 0 if padtype is None else 3 * taps if padlen is None else int(padlen)
    if x.shape[-1] <= edge or edge < 0:
        raise ValueError(
            f"{name}: x has {x.shape[-1]} samples, which must be more than padlen, {edge}: give "
            "padlen=, or padtype=None"
        )
    if not edge:
        return x, 0
    if padtype == "constant":
        return padded_last(x, edge, edge, mode="edge"), edge
    inner = padded_last(x, edge, edge, mode="reflect")
    if padtype == "even":
        return inner, edge
    # The odd continuation is turned about the first and the last sample.
    before = 2 * cut_last(x, 0, 1) - cut_last(inner, 0, edge)
    after = 2 * cut_last(x, -1) - cut_last(inner, -edge)
    return ops.concatenate([before, x, after], axis=-1), edge


def _back_and_forth(x: Array, edge: int, run: Callable[[Array, Array], Array]) -> Array:
    """Runs a filter over extended sequences, then from their end, and cuts the extension off."""
    for _ in range(2):
        x = ops.flip(run(x, cut_last(x, 0, 1)), -1)
    return cut_last(x, edge, x.shape[-1] - edge)


def filtfilt(
    b: ArrayLike,
    a: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Array:
    """Returns sequences filtered forwards and then backwards, which shifts no phase.

    Args:
        b, a, x, axis: as for `lfilter`.
        padtype: how the sequences go on at both ends: "odd" turned about the last sample, "even"
            mirrored, "constant" the last sample, None not at all.
        padlen: by how many samples; None for ``3 * max(len(a), len(b))``.
        method: "pad"; Gustafsson's is not implemented.
        irlen: of Gustafsson's method: None.

    Returns:
        An array of x's shape.

    Raises:
        ValueError: x is not longer than ``padlen``, or an argument is none of its words.
        NotImplementedError: Gustafsson's method is asked for.

    >>> import functensor as ft
    >>> ft.scipy.signal.filtfilt([0.5, 0.5], [1.0], [0.0, 2.0, 0.0, 2.0], padlen=1).tolist()
    [0.0, 1.0, 1.0, 2.0]
    """
    if method not in ("pad", "gust"):
        raise ValueError(f"filtfilt: method={method!r}: it is 'pad' or 'gust'")
    if method == "gust" or irlen is not None:
        raise NotImplementedError("filtfilt: method='gust' is not there: method='pad' has padlen=")
    x, axis = _signal_along("filtfilt", x, axis)
    b, a = _polynomials("filtfilt", b, a, x)
    taps = max(b.shape[0], a.shape[0])
    ext, edge = _extended_at_ends("filtfilt", ops.moveaxis(x, axis, -1), padtype, padlen, taps)
    zi = lfilter_zi(b, a)

    def run(z: Array, first: Array) -> Array:
        return _filtered_with_state(b, a, z, zi * first)[0]

    return ops.moveaxis(_back_and_forth(ext, edge, run), -1, axis)


def _sections(name: str, sos: ArrayLike, x: Array | None = None) -> Array:
    sos = as_inexact(sos if x is None else array_beside(x, sos))
    if len(sos.shape) != 2 or sos.shape[1] != 6:
        raise ValueError(f"{name}: sos array must be shape (n_sections, 6), not {sos.shape}")
    if is_at_hand(sos) and not np.all(value_of(name, sos, "")[:, 3] == 1):
        raise ValueError(f"{name}: sos[:, 3] should be all ones")
    return sos


def _cascade(sos: Array, x: Array, zi: Array | None) -> tuple[Array, list[Array]]:
    """Runs second-order sections one after the other, from states of shape (section, ..., 2)."""
    states = []
    for i in range(sos.shape[0]):
        b, a = (ops.index(sos, (i, slice(j, j + 3))) for j in (0, 3))
        if zi is None:
            x = linear_filter.bind((b, a, x), {})
        else:
            x, state = _filtered_with_state(b, a, x, ops.index(zi, i))
            states.append(state)
    return x, states


def sosfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Array | tuple[Array, Array]:
    """Returns sequences filtered by second-order sections, one after the other.

    Args:
        sos: an array of shape (n, 6): of each section b and a, with ``a[0]`` of 1.
        x: an array.
        axis: along which axis.
        zi: the sections' initial states: of shape ``(n, *x.shape)`` with 2 along the axis; None to
            be at rest.

    Returns:
        An array of x's shape; with ``zi`` a pair of that and the final states.

    Raises:
        ValueError: the sections have another shape, an ``a[0]`` is not 1, or the states do not fit.
        MissingExtraError: SciPy is not installed.

    >>> import functensor as ft
    >>> ft.scipy.signal.sosfilt([[1.0, 0, 0, 1.0, -0.5, 0]], [1.0, 0.0, 0.0]).tolist()
    [1.0, 0.5, 0.25]
    """
    x, axis = _signal_along("sosfilt", x, axis)
    sos = _sections("sosfilt", sos, x)
    moved = ops.moveaxis(x, axis, -1)
    if zi is None:
        dtype = result_type(sos.dtype, x.dtype)
        out, _ = _cascade(sos, ops.astype(moved, dtype), None)
        return ops.moveaxis(out, -1, axis)
    zi = as_inexact(zi)
    wanted = [sos.shape[0], *x.shape]
    wanted[axis + 1] = 2
    if zi.shape != tuple(wanted):
        raise ValueError(
            f"sosfilt: Invalid zi shape: with axis={axis}, an input with shape {x.shape}, and an "
            f"sos array with {sos.shape[0]} sections, zi must have shape {tuple(wanted)}, got "
            f"{zi.shape}"
        )
    out, states = _cascade(sos, moved, ops.moveaxis(zi, axis + 1, -1))
    last = ops.stack(states, axis=0) if states else zi
    return ops.moveaxis(out, -1, axis), ops.moveaxis(last, -1, axis + 1)


def sosfilt_zi(sos: ArrayLike) -> Array:
    """Returns the states of second-order sections after a long sequence of ones.

    Args:
        sos: as for `sosfilt`.

    Returns:
        An array of shape (n, 2).

    Raises:
        ValueError: the sections have another shape, or an ``a[0]`` is not 1.
        LinAlgError: a section's denominator sums up to 0.

    >>> import functensor as ft
    >>> ft.scipy.signal.sosfilt_zi([[1.0, 0, 0, 1.0, -0.5, 0]]).tolist()
    [[1.0, 0.0]]
    """
    sos = _sections("sosfilt_zi", sos)
    level: Array | Buffer = beside(sos, np.ones((), sos.dtype))
    rows = []
    for i in range(sos.shape[0]):
        b, a = (ops.index(sos, (i, slice(j, j + 3))) for j in (0, 3))
        rows.append(level * lfilter_zi(b, a))
        level = level * ops.sum(b) / ops.sum(a)
    return ops.stack(rows, axis=0) if rows else ops.reshape(sos, (0, 2))


def sosfiltfilt(
    sos: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
) -> Array:
    """Returns sequences filtered by second-order sections forwards and then backwards.

    Args:
        sos, x, axis: as for `sosfilt`.
        padtype: as for `filtfilt`.
        padlen: as for `filtfilt`; None for SciPy's choice: 3 times the number of coefficients of
            the product of all sections, zeros at its end left out.

    Returns:
        An array of x's shape.

    Raises:
        ValueError: as for `sosfilt` and `filtfilt`.
        ConcretizationError: ``padlen`` is None, and the sections are not known, as under jit.

    >>> import functensor as ft
    >>> half = [[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]]
    >>> ft.scipy.signal.sosfiltfilt(half, [0.0, 2.0, 0.0, 2.0], padlen=1).tolist()
    [0.0, 1.0, 1.0, 2.0]
    """
    x, axis = _signal_along("sosfiltfilt", x, axis)
    sos = _sections("sosfiltfilt", sos, x)
    taps = 2 * sos.shape[0] + 1
    if padlen is None and padtype is not None:
        fix = f"sosfiltfilt(sos, x, padlen={3 * taps}) continues x at its ends by that many samples"
        host = value_of("sosfiltfilt", sos, fix)
        taps -= min(int((host[:, 2] == 0).sum()), int((host[:, 5] == 0).sum()))
    ext, edge = _extended_at_ends("sosfiltfilt", ops.moveaxis(x, axis, -1), padtype, padlen, taps)
    zi = sosfilt_zi(sos)
    shape = (sos.shape[0], *(1,) * (len(x.shape) - 1), 2)

    def run(z: Array, first: Array) -> Array:
        states = ops.reshape(zi, shape) * first
        return _cascade(sos, z, ops.broadcast_to(states, (shape[0], *z.shape[:-1], 2)))[0]

    return ops.moveaxis(_back_and_forth(ext, edge, run), -1, axis)
