"""Bins of histograms: four for each power of two, of either sign, and one for zero.

A bin is known by a code, a whole number that rises with the values; its edges have exact values in
binary, so that no rounding moves a value to a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

__all__ = ["ZERO", "Histogram", "bins_of", "edges_of", "lower_edge"]

ZERO = 0
# Numbers below the least normal one of float64, 2**-1022, have one bin, the first.
FIRST_CODE = 1
LEAST = 5e-324
# The bits of a float64 without its sign. Its exponent and two bits of its mantissa tell a bin: they
# are what is left of it after a shift, 4 for the least normal number, whose bin is the second.
SIZE = (1 << 63) - 1
CODE_SHIFT = 50
OFFSET = 2


class Histogram(NamedTuple):
    """The numbers of values between edges, at every step.

    Attributes:
        edges: the edges of the bins, in rising order, ``[bins + 1]``. A bin has its lower edge, of
            negative numbers the upper one; that around zero has zero alone.
        counts: how many values each bin had, ``[steps, bins]``.
        nan: how many were NaN, ``[steps]``.
        positive_inf, negative_inf: how many were infinite, ``[steps]``.
    """

    edges: np.ndarray
    counts: np.ndarray
    nan: np.ndarray
    positive_inf: np.ndarray
    negative_inf: np.ndarray


def bins_of(numbers: np.ndarray) -> np.ndarray:
    """Returns the codes of the bins in which finite numbers lie.

    Args:
        numbers: an array of float64.

    >>> codes = bins_of(np.array([-1.0, 0.0, 1.0, 1.2, 1.3, 2.0]))
    >>> codes - codes[2]
    array([-8180, -4090,     0,     0,     1,     4])
    """
    bits = np.ascontiguousarray(numbers).view(np.int64)
    codes = np.maximum(((bits & SIZE) >> CODE_SHIFT) - OFFSET, FIRST_CODE)
    return np.where(numbers == 0, ZERO, np.where(bits < 0, -codes, codes))


def lower_edge(code: int) -> float:
    """Returns the least number that lies in a bin of positive numbers."""
    if code == FIRST_CODE:
        return LEAST
    return float(np.int64((code + OFFSET) << CODE_SHIFT).view(np.float64))


def edges_of(codes: Iterable[int]) -> tuple[np.ndarray, dict[int, int]]:
    """Returns the edges of bins without gaps which have some among them, and the place of each.

    Args:
        codes: the codes of bins that have values.

    Returns:
        The edges in rising order, ``[bins + 1]``; and by code the place of a bin.
    """
    used = set(codes) or {ZERO}
    least = min((abs(code) for code in used if code != ZERO), default=FIRST_CODE)
    negative = [-code for code in range(-min(used), least - 1, -1)] if min(used) < ZERO else []
    positive = list(range(least, max(used) + 1)) if max(used) > ZERO else []
    middle = [ZERO] if ZERO in used or (negative and positive) else []
    edges = [-lower_edge(1 - code) for code in negative]
    # The bin of zero reaches to its neighbours.
    edges += [-lower_edge(least)] if negative or middle else []
    edges += [lower_edge(least)] if positive or middle else []
    edges += [lower_edge(code + 1) for code in positive]
    places = {code: place for place, code in enumerate([*negative, *middle, *positive])}
    return np.array(edges), places
