"""Pictures of histograms over the steps of a training: heat maps of step against value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ..backends.optional_modules import extra
from .bins import Histogram

__all__ = ["Figure", "draw_histograms"]

# Smaller parts of the greatest number are drawn as zero.
SMALLEST_PART = 2.0**-16
SIDES = ("values", "gradients")


class Figure(Protocol):
    """A figure of matplotlib."""

    def savefig(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure to a file."""


def draw_histograms(pairs: Mapping[str, tuple[Histogram, Histogram]], axes: Any = None) -> Figure:
    """Draws histograms of values and of gradients side by side, in a row for each name.

    Args:
        pairs: by name the histogram of values and that of gradients.
        axes: an array of matplotlib's axes, ``[names, 2]``; None for a new figure.

    Returns:
        The figure.
    """
    figures = extra("matplotlib.figure", "plot")
    if not pairs:
        raise ValueError("there is no histogram to draw: run operations under the hook first")
    if axes is None:
        figure = figures.Figure(figsize=(9, 0.8 + 2.2 * len(pairs)), layout="constrained")
        axes = figure.subplots(len(pairs), 2, squeeze=False)
    axes = np.asarray(axes, dtype=object)
    if axes.shape != (len(pairs), 2):
        raise ValueError(
            f"axes have the shape {axes.shape}, but {len(pairs)} names need ({len(pairs)}, 2): "
            f"plt.subplots({len(pairs)}, 2, squeeze=False)[1]"
        )
    for row, (name, pair) in zip(axes, pairs.items(), strict=True):
        for place, side, found in zip(row, SIDES, pair, strict=True):
            draw_heat_map(place, found)
            place.set_title(f"{side} of {name}", fontsize=10)
    for place in axes[-1]:
        place.set_xlabel("step")
    drawn: Figure = axes[0, 0].figure
    return drawn


def draw_heat_map(place: Any, found: Histogram) -> None:
    """Draws one histogram over its steps; crosses at the rim mark steps with NaN or infinity."""
    colors = extra("matplotlib.colors", "plot")
    edges, counts = shown_part(found)
    steps, bins = counts.shape
    bad = np.flatnonzero(found.nan + found.positive_inf + found.negative_inf)
    if not (counts.any() or bad.size):
        place.text(0.5, 0.5, "none", ha="center", transform=place.transAxes)
        place.set_yticks([])
        return
    seen = np.ma.masked_equal(counts.T, 0)
    most = max(int(counts.max()), 2)
    picture = place.imshow(
        seen,
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        extent=(-0.5, steps - 0.5, 0, bins),
        norm=colors.LogNorm(1, most),
    )
    place.figure.colorbar(picture, ax=place)
    # About eight edges, so that no two labels meet.
    ticks = np.arange(0, bins + 1, max(1, -(-bins // 8)))
    place.set_yticks(ticks, [f"{edges[tick]:.2g}" for tick in ticks])
    if bad.size:
        place.plot(bad, np.full(bad.size, bins), "rx", clip_on=False, label="NaN or infinite")
        place.legend(loc="lower left", fontsize=8)


def shown_part(found: Histogram) -> tuple[np.ndarray, np.ndarray]:
    """Returns edges and counts with the bins next to zero made one."""
    edges, counts = found.edges, found.counts
    finite = np.abs(edges[np.isfinite(edges)])
    small = np.abs(edges) < finite.max() * SMALLEST_PART
    if small.sum() < 3:
        return edges, counts
    first, last = np.flatnonzero(small)[[0, -1]]
    middle = counts[:, first:last].sum(1, keepdims=True)
    kept = np.concatenate([edges[: first + 1], edges[last:]])
    return kept, np.concatenate([counts[:, :first], middle, counts[:, last:]], 1)
