"""Curves of losses and other figures, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from ..backends.optional_modules import extra

__all__ = ["draw_curves", "save_curves"]


def draw_curves(
    curves: Mapping[str, Sequence[Any]],
    axes: Any = None,
    *,
    log: bool = False,
    smooth: float = 0.0,
    xlabel: str = "step",
    ylabel: str = "loss",
) -> Any:
    """Draws curves of numbers into one picture, with a legend where there are several.

    Args:
        curves: for each name its values: numbers or arrays of one, or pairs of a step and a value.
        axes: matplotlib's, to draw into; by default a new figure's.
        log: whether the values stand on a logarithmic axis.
        smooth: how much of the mean so far enters each value, from 0 up to 1; the values
            themselves stay as a pale line.
        xlabel, ylabel: the names of the axes.

    Returns:
        matplotlib's figure.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: ``smooth`` is out of its range.
    """
    if not 0 <= smooth < 1:
        raise ValueError(f"draw_curves: smooth is from 0 up to 1, not {smooth}")
    figures = extra("matplotlib.figure", "plot")
    if axes is None:
        axes = figures.Figure(figsize=(6, 4), layout="constrained").subplots()
    for name, values in curves.items():
        steps, heights = points_of(values)
        if smooth and len(heights):
            (pale,) = axes.plot(steps, heights, alpha=0.3, linewidth=1)
            axes.plot(steps, smoothed(heights, smooth), label=name, color=pale.get_color())
        else:
            axes.plot(steps, heights, label=name)
    if log:
        axes.set_yscale("log")
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3)
    if len(curves) > 1:
        axes.legend()
    return axes.figure


def points_of(values: Sequence[Any]) -> tuple[Any, Any]:
    """Returns the steps and the heights of a curve."""
    pairs = len(values) > 0 and isinstance(values[0], tuple)
    steps = [step for step, _ in values] if pairs else list(range(len(values)))
    heights = [value for _, value in values] if pairs else list(values)
    return np.asarray(steps, float), np.asarray([float(value) for value in heights])


def smoothed(heights: Any, kept: float) -> Any:
    """Returns running means, of which the first ones lean on nothing before them."""
    out, mean, weight = [], 0.0, 0.0
    for height in heights:
        mean, weight = kept * mean + (1 - kept) * height, kept * weight + 1 - kept
        out.append(mean / weight)
    return np.asarray(out)


def save_curves(
    path: str | PathLike[str], curves: Mapping[str, Sequence[Any]], **options: Any
) -> None:
    """Writes a picture of curves, in the format that the name's ending says.

    Args:
        path: the file.
        curves, options: as for `draw_curves`.

    >>> import functensor as ft, tempfile, os
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "loss.png")
    >>> ft.training.save_curves(path, {"train": [3.0, 2.0, 1.5], "test": [(0, 3.1), (2, 2.0)]})
    >>> os.path.getsize(path) > 1000
    True
    >>> folder.cleanup()
    """
    draw_curves(curves, **options).savefig(path)
