"""Short-time Fourier transforms: spectra of windows over a signal, and signals of such spectra."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...numpy import fft
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from .naming import on_host

__all__ = ["istft", "stft"]

# How axes are padded, by PyTorch's words.
PADDED_BY = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
# What windows that lie over each other add up to is above this.
LEAST_ENVELOPE = 1e-11


def stft(
    input: Array, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Array | None = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
) -> Any:  # fmt: skip
    """Returns the spectra of windows over signals.

    Args:
        input: signals, (time,) or (batch, time).
        n_fft: the length of a transform.
        hop_length: how far windows are apart; by default a quarter of it.
        win_length: the length of a window, which zeros surround; by default that of a transform.
        window: the window; by default ones.
        center: whether the first window is centred at the first element; then ``pad_mode`` says
            what stands before and behind.
        pad_mode: ``"reflect"``, ``"constant"``, ``"replicate"`` or ``"circular"``.
        normalized: whether spectra are divided by the root of ``n_fft``.
        onesided: whether half of the spectra is returned, which is all of real signals.
        return_complex: True for complex numbers, False for pairs on a last axis. It must be given,
            but for complex signals and windows.

    Returns:
        A tensor of shape (..., frequencies, windows).

    Raises:
        RuntimeError: an argument does not fit the others.
    """
    whole_complex = "c" in (input.dtype.kind, window.dtype.kind if window is not None else "f")
    if return_complex is None and not whole_complex:
        raise RuntimeError("stft: give return_complex=True, or False for pairs of real numbers")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: signals have 1 or 2 axes, not {input.ndim}")
    half = not whole_complex if onesided is None else onesided
    if half and whole_complex:
        raise RuntimeError("stft: onesided=True is for real signals and windows")
    hop, shape = checked_lengths("stft", n_fft, hop_length, win_length, window)
    x = input if input.ndim == 2 else ops.expand_dims(input, 0)
    if center:
        if pad_mode == "reflect" and x.shape[1] <= n_fft // 2:
            raise RuntimeError(f"stft: {x.shape[1]} elements are not above half of n_fft={n_fft}")
        around = ((0, 0), (n_fft // 2, n_fft // 2))
        x = ops.pad(x, around, mode=PADDED_BY[pad_mode])
    if not 0 < n_fft <= x.shape[1]:
        raise RuntimeError(f"stft: n_fft is {n_fft}, not from 1 to the {x.shape[1]} elements")
    starts = np.arange(0, x.shape[1] - n_fft + 1, hop)
    windows = ops.take(x, beside(x, starts[:, None] + np.arange(n_fft)), 1)
    if window is not None:
        windows = windows * surrounded(window, n_fft)
    elif shape < n_fft:
        windows = windows * surrounded(beside(x, np.ones(shape, x.dtype)), n_fft)
    found = (fft.rfft if half else fft.fft)(windows, norm="ortho" if normalized else None)
    out = ops.swapaxes(found, 1, 2)
    out = out if input.ndim == 2 else out[0]
    pairs = return_complex is False
    return ops.stack([ops.real(out), ops.imag(out)], -1) if pairs else out


def istft(
    input: Array, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Array | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """Returns the signals of spectra that `stft` gives.

    Args:
        input: complex spectra, (..., frequencies, windows).
        n_fft, hop_length, win_length, window, center, normalized, onesided: as they were there.
        length: that of the signals; by default up to the middle of the last window.
        return_complex: whether signals are complex.

    Returns:
        A tensor of shape (..., time) with the means of windows, by the squares of the window.

    Raises:
        RuntimeError: an argument does not fit the others, or no window covers an element.
    """
    if input.dtype.kind != "c" or input.ndim not in (2, 3):
        raise RuntimeError(
            f"istft: spectra are complex, of 2 or 3 axes, not {input.dtype} of {input.ndim}"
        )
    rows = input.shape[-2]
    half = rows != n_fft if onesided is None else onesided
    if rows != (n_fft // 2 + 1 if half else n_fft):
        raise RuntimeError(f"istft: {rows} frequencies do not fit n_fft={n_fft}")
    if half and return_complex:
        raise RuntimeError("istft: onesided=True gives real signals")
    hop, shape = checked_lengths("istft", n_fft, hop_length, win_length, window)
    x = ops.swapaxes(input if input.ndim == 3 else ops.expand_dims(input, 0), 1, 2)
    norm = "ortho" if normalized else None
    windows = fft.irfft(x, n_fft, norm=norm) if half else fft.ifft(x, norm=norm)
    if not half and not return_complex:
        windows = ops.real(windows)
    given = beside(x, np.ones(shape, windows.real.dtype)) if window is None else window
    weights = surrounded(given, n_fft)
    count = x.shape[1]
    total = n_fft + hop * (count - 1)
    begin = n_fft // 2 if center else 0
    end = total - begin if length is None else begin + length
    places = (hop * np.arange(count)[:, None] + np.arange(n_fft)).reshape(-1)
    size = max(end, total)

    def added(values: Any) -> Any:
        none = beside(values, np.zeros((values.shape[0], size), values.dtype))
        flat = ops.reshape(values, (values.shape[0], -1))
        return ops.index_add(none, (slice(None), beside(none, places)), flat)[:, begin:end]

    envelope = added(ops.broadcast_to(ops.square(weights), (1, count, n_fft)))
    covered = on_host(ops.abs(envelope))[:, : max(min(end, total) - begin, 0)]
    if covered.size and covered.min() <= LEAST_ENVELOPE:
        raise RuntimeError("istft: there is an element that no window covers")
    # Behind the last window there are zeros.
    behind = np.arange(begin, end) >= total
    out = added(windows * weights) / ops.where(beside(x, behind), 1, envelope)
    return out if input.ndim == 3 else out[0]


def checked_lengths(
    name: str, n_fft: int, hop_length: int | None, win_length: int | None, window: Any
) -> tuple[int, int]:
    """Returns how far windows are apart, and how long they are."""
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if hop <= 0:
        raise RuntimeError(f"{name}: hop_length is {hop}, it must be positive")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: win_length is {length}, not from 1 to n_fft={n_fft}")
    if window is not None and window.shape != (length,):
        raise RuntimeError(
            f"{name}: the window has the shape {tuple(window.shape)}, not ({length},)"
        )
    return hop, length


def surrounded(window: Any, length: int) -> Any:
    """Returns a window with zeros on both sides."""
    before = (length - window.shape[0]) // 2
    return ops.pad(window, ((before, length - window.shape[0] - before),))
