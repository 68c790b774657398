"""Smoothing, resampling and analytic signals of `functensor.scipy.signal`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import factorial

import numpy as np

from ..backends.annotations import Buffer
from ..backends.optional_modules import extra
from ..numpy import fft
from ..numpy.arguments import as_inexact
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.errors import misfit
from ..primitives.core.shape_dtype import as_list, canonical_axis, finfo
from .axis_slices import cut_last, padded_last

__all__ = ["hilbert", "hilbert2", "resample", "savgol_coeffs", "savgol_filter"]

# SciPy's ways to continue a sequence, and the modes of padding that do it.
SAVGOL_MODES = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap", "constant": "constant"}


# -- the filter of Savitzky and Golay


def _solutions(polyorder: int, places: Buffer) -> Buffer:
    """Returns the matrix that takes samples to coefficients of the polynomial fitted to them."""
    powers = np.asarray(places, float)[:, None] ** np.arange(polyorder + 1)
    return np.linalg.pinv(powers, rcond=1e-15)


def _checked_window(name: str, window_length: int, polyorder: int) -> tuple[int, int]:
    window_length, polyorder = operator.index(window_length), operator.index(polyorder)
    if polyorder >= window_length:
        raise ValueError(f"{name}: polyorder must be less than window_length.")
    return window_length, polyorder


def savgol_coeffs(
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: Array | float = 1.0,
    pos: int | None = None,
    use: str = "conv",
    *,
    xp: None = None,
    device: str | None = None,
) -> Array:
    """Returns the coefficients of the filter of Savitzky and Golay.

    Args:
        window_length: the number of samples to which a polynomial is fitted.
        polyorder: its degree, less than that.
        deriv: the order of its derivative, 0 for its value.
        delta: the distance of two samples.
        pos: at which sample of the window; None for the middle.
        use: "conv" for an order that fits `convolve`, "dot" for that of the samples.
        xp: of no effect.
        device: the device of the coefficients; None for the default device.

    Returns:
        An array of shape (window_length,), of delta's dtype if that is an array.

    Raises:
        ValueError: the degree is not less than the length, ``pos`` is outside of the window, or
            ``use`` is another word.

    Source: A. Savitzky and M. J. E. Golay, "Smoothing and differentiation of data by simplified
    least squares procedures", Analytical Chemistry 36 (1964).

    >>> import functensor as ft
    >>> ft.scipy.signal.savgol_coeffs(3, 1).round(6).tolist()
    [0.333333, 0.333333, 0.333333]
    """
    name = "savgol_coeffs"
    window_length, polyorder = _checked_window(name, window_length, polyorder)
    half, odd = divmod(window_length, 2)
    place = (half if odd else half - 0.5) if pos is None else pos
    if not 0 <= place < window_length:
        raise ValueError(f"{name}: pos must be nonnegative and less than window_length.")
    if use not in ("conv", "dot"):
        raise ValueError(f"{name}: `use` must be 'conv' or 'dot', not {use!r}")
    if deriv > polyorder:
        row = np.zeros(window_length)
    else:
        places = np.arange(window_length) - place
        row = _solutions(polyorder, places)[deriv] * factorial(deriv)
    if use == "conv":
        row = row[::-1].copy()
    delta = asarray(delta, device=device)
    kind = finfo(delta.dtype if delta.dtype.kind == "f" else np.float64).dtype
    return ops.divide(beside(delta, row.astype(kind)), ops.power(ops.astype(delta, kind), deriv))


def _fitted_ends(
    x: Array, length: int, order: int, deriv: int, delta: Array
) -> tuple[Array, Array]:
    """Returns the derivatives at both ends of polynomials fitted to the first and last samples."""
    half = length // 2
    kind = finfo(x.dtype).dtype
    ends = []
    # Places are counted from the middle of the window, so that powers are small.
    solutions = _solutions(order, np.arange(length) - half)
    for places in (np.arange(half) - half, np.arange(length - half, length) - half):
        rows = np.zeros((half, length))
        for k in range(deriv, order + 1):
            scale = factorial(k) / factorial(k - deriv)
            rows += scale * (places[:, None] ** float(k - deriv)) * solutions[k]
        ends.append(beside(x, rows.T.astype(kind)))
    unit = ops.power(ops.astype(delta, kind), deriv)
    first = ops.matmul(cut_last(x, 0, length), ends[0])
    last = ops.matmul(cut_last(x, -length), ends[1])
    return first / unit, last / unit


def savgol_filter(
    x: ArrayLike,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: Array | float = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: ArrayLike = 0.0,
) -> Array:
    """Returns sequences smoothed by polynomials that are fitted to the samples around each.

    Args:
        x: an array.
        window_length, polyorder, deriv, delta: as for `savgol_coeffs`.
        axis: along which axis.
        mode: the values beyond the ends: "mirror", "nearest", "wrap", "constant" a number; with
            "interp" the results at the ends are those of polynomials fitted to the samples there.
        cval: the number.

    Returns:
        An array of x's shape; integers become float64.

    Raises:
        ValueError: the degree is not less than the length, the mode is another word, or in mode
            "interp" the window is longer than x.

    Source: as for `savgol_coeffs`.

    >>> import functensor as ft
    >>> ft.scipy.signal.savgol_filter([1.0, 2.0, 3.0, 10.0], 3, 1, mode="nearest").round(6).tolist()
    [1.333333, 2.0, 5.0, 7.666667]
    """
    name = "savgol_filter"
    if mode not in (*SAVGOL_MODES, "interp"):
        raise ValueError(
            f"{name}: mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp', not {mode!r}"
        )
    x = as_inexact(x)
    axis = canonical_axis(axis, len(x.shape))
    window_length, polyorder = _checked_window(name, window_length, polyorder)
    x = ops.moveaxis(x, axis, -1)
    length = x.shape[-1]
    if mode == "interp" and window_length > length:
        raise ValueError(
            f"{name}: If mode is 'interp', window_length must be less than or equal to the size of "
            f"x; they are {window_length} and {length}"
        )
    kind = finfo(x.dtype).dtype
    delta = asarray(delta)
    row = ops.astype(savgol_coeffs(window_length, polyorder, deriv, delta, use="dot"), kind)
    # In an even window, the sample before the middle gets the polynomial's value in the middle.
    before, after = (window_length - 1) // 2, window_length // 2
    fill = {"constant_values": cval} if mode == "constant" else {}
    wide = padded_last(x, before, after, mode=SAVGOL_MODES.get(mode, "constant"), **fill)
    out = ops.correlate_valid(wide, ops.broadcast_to(row, (*x.shape[:-1], window_length)))
    half = window_length // 2
    if mode == "interp" and half:
        first, last = _fitted_ends(x, window_length, polyorder, deriv, delta)
        middle = cut_last(out, half, length - half)
        out = ops.concatenate([first, middle, last], axis=-1)
        out = cut_last(out, 0, length)
    return ops.moveaxis(out, -1, axis)


# -- analytic signals


def _one_sided(n: int, unpaired: float, x: Array, axis: int) -> Buffer:
    """Returns weights of n frequencies along an axis: 1 for 0, 2 for positive, 0 for negative ones.

    Of an even number of frequencies, one has no opposite; ``unpaired`` is its weight.
    """
    weights = np.zeros(n, x.dtype)
    weights[0] = 1
    weights[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        weights[n // 2] = unpaired
    return beside(x, weights.reshape(-1, *(1,) * (len(x.shape) - axis - 1)))


def _real_signal(name: str, x: ArrayLike, least: int) -> Array:
    x = as_inexact(x)
    if x.dtype.kind == "c":
        raise ValueError(f"{name}: x must be real.")
    if len(x.shape) < least:
        raise ValueError(f"{name}: x of shape {x.shape} must have at least {least} axes")
    return x


def hilbert(x: ArrayLike, N: int | None = None, axis: int = -1) -> Array:
    """Returns the analytic signal: a real one, and as imaginary part its Hilbert transform.

    Args:
        x: a real array.
        N: how many samples to transform, to which x is cut or filled up with zeros; None for all.
        axis: along which axis.

    Returns:
        A complex array of x's shape, with N along the axis.

    Raises:
        ValueError: x is complex, or N is not positive.

    Source: S. L. Marple, "Computing the discrete-time analytic signal via FFT", 1999.

    >>> import functensor as ft
    >>> ft.scipy.signal.hilbert([1.0, 0.0, -1.0, 0.0]).imag.tolist()
    [0.0, 1.0, 0.0, -1.0]
    """
    x = _real_signal("hilbert", x, 1)
    axis = canonical_axis(axis, len(x.shape))
    n = x.shape[axis] if N is None else operator.index(N)
    if n <= 0:
        raise ValueError("hilbert: N must be positive.")
    return fft.ifft(fft.fft(x, n, axis) * _one_sided(n, 1, x, axis), axis=axis)


def hilbert2(
    x: ArrayLike, N: int | Sequence[int] | None = None, axes: Sequence[int] = (-2, -1)
) -> Array:
    """Returns the analytic signal of an image: a quarter of its frequencies, four times.

    Args:
        x: a real array with two axes or more.
        N: how many samples to transform along each of both axes, one number or two; None for all.
        axes: along which two axes.

    Returns:
        A complex array of x's shape, with N along the axes.

    Raises:
        ValueError: x is complex or has fewer axes, N is not positive, or the axes are not two.

    Source: as for `hilbert`, along both axes; a last frequency without an opposite is left out.

    >>> import functensor as ft
    >>> ft.scipy.signal.hilbert2([[1.0, 1.0, 4.0]]).real.tolist()
    [[1.0, 1.0, 4.0]]
    """
    x = _real_signal("hilbert2", x, 2)
    axes = [canonical_axis(axis, len(x.shape)) for axis in axes]
    if len(set(axes)) != 2:
        raise ValueError("hilbert2: axes must contain 2 distinct axes")
    if N is None:
        lengths = [x.shape[axis] for axis in axes]
    else:
        lengths = list(map(operator.index, as_list(N))) * (2 if np.ndim(N) == 0 else 1)
    if len(lengths) != 2 or min(lengths) <= 0:
        raise ValueError("hilbert2: N must be a positive integer, or two of them")
    spectrum = fft.fftn(x, lengths, axes)
    for n, axis in zip(lengths, axes):
        spectrum = spectrum * _one_sided(n, 0, x, axis)
    return fft.ifftn(spectrum, axes=axes)


# -- resampling


def _window(window: ArrayLike | Callable[..., ArrayLike], n: int, x: Array) -> Array | Buffer:
    """Returns the weights of all frequencies, that of 0 first."""
    if callable(window):
        return asarray(window(np.fft.fftfreq(n)))
    if isinstance(window, str | tuple | float):
        shape = extra("scipy.signal", "scipy").get_window(window, n)
        return beside(x, np.fft.fftshift(shape).astype(finfo(x.dtype).dtype))
    weights = asarray(window)
    if weights.shape != (n,):
        raise misfit(
            f"resample: a window of shape {weights.shape} for {n} frequencies",
            "give one weight for each, that of frequency 0 first",
        )
    return weights


def _halved(x: Array, place: int, factor: float) -> Array:
    """Returns a spectrum whose element at a place is multiplied by a factor."""
    weights = np.ones(x.shape[-1], finfo(x.dtype).dtype)
    weights[place] = factor
    return x * beside(x, weights)


def _two_sided(spectrum: Array, num: int) -> Array:
    """Returns a whole spectrum for another number of samples."""
    n = spectrum.shape[-1]
    m = min(n, num)
    low, high = cut_last(spectrum, 0, m // 2 + 1), cut_last(spectrum, n - (m - m // 2 - 1))
    if m % 2 == 0 and n != num:
        if num < n:
            pair = cut_last(spectrum, n - m // 2, n - m // 2 + 1)
            low = ops.concatenate([cut_last(low, 0, -1), cut_last(low, -1) + pair], axis=-1)
        else:
            low = _halved(low, -1, 0.5)
            high = ops.concatenate([cut_last(low, -1), high], axis=-1)
    gap = num - low.shape[-1] - high.shape[-1]
    return ops.concatenate([padded_last(low, 0, gap), high], axis=-1)


def resample(
    x: ArrayLike,
    num: int,
    t: ArrayLike | None = None,
    axis: int = 0,
    window: ArrayLike | Callable[..., ArrayLike] | None = None,
    domain: str = "time",
) -> Array | tuple[Array, Array]:
    """Returns periodic sequences at another number of samples, by their spectra.

    Args:
        x: an array.
        num: the number of samples.
        t: the places of the samples, the same distance apart; None to return no places.
        axis: along which axis.
        window: weights of the frequencies: an array, that of frequency 0 first, a function of
            frequencies, or a name for SciPy's ``get_window``; None for no weights.
        domain: "freq" where x is a spectrum already.

    Returns:
        An array of x's shape with ``num`` along the axis, complex where x is or in domain "freq";
        with ``t`` a pair of that and the new places.

    Raises:
        ValueError: the domain is another word, or ``num`` is not positive.
        ShapeError: the window has not one weight for each frequency.

    Source: A. V. Oppenheim and R. W. Schafer, "Discrete-Time Signal Processing", chapter 4.

    >>> import functensor as ft
    >>> ft.scipy.signal.resample([1.0, 0.0, -1.0, 0.0], 8)[::2].round(12).tolist()
    [1.0, 0.0, -1.0, 0.0]
    """
    if domain not in ("time", "freq"):
        raise ValueError(f"resample: domain={domain!r} is not 'time' or 'freq'")
    num = operator.index(num)
    if num < 1:
        raise ValueError(f"resample: num={num} samples: it is a positive integer")
    x = as_inexact(x)
    axis = canonical_axis(axis, len(x.shape))
    x = ops.moveaxis(x, axis, -1)
    n = x.shape[-1]
    weights = None if window is None else _window(window, n, x)
    m = min(num, n)
    if domain == "time" and x.dtype.kind != "c":
        spectrum = fft.rfft(x)
        if weights is not None:
            # A frequency and its opposite get the mean of their weights.
            mirrored = ops.concatenate([cut_last(weights, 0, 1), ops.flip(cut_last(weights, 1))])
            spectrum = spectrum * cut_last((weights + mirrored) / 2, 0, n // 2 + 1)
        spectrum = cut_last(spectrum, 0, m // 2 + 1)
        if m % 2 == 0 and num != n:
            spectrum = _halved(spectrum, m // 2, 2.0 if num < n else 0.5)
        out = fft.irfft(spectrum * (num / n), num)
    else:
        spectrum = fft.fft(x) if domain == "time" else x
        if weights is not None:
            spectrum = spectrum * weights
        out = fft.ifft(_two_sided(spectrum, num) * (num / n))
    out = ops.moveaxis(out, -1, axis)
    if t is None:
        return out
    t = as_inexact(t)
    first, second = ops.index(t, 0), ops.index(t, 1)
    places = beside(t, np.arange(num).astype(finfo(t.dtype).dtype))
    return out, first + (second - first) * (n / num) * places
