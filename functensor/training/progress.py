"""``progress``: a bar with figures of a training, the rate and the time that is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from importlib.util import find_spec
from time import monotonic
from typing import Any, TextIO

from ..backends.notebook_cells import in_notebook
from ..backends.optional_modules import extra

__all__ = ["Progress", "progress"]


class Progress:
    """A bar over the values of an iterable, or over a number of steps: see `progress`."""

    def __init__(self, values: Iterable[Any], bar: Any, interval: float) -> None:
        self._values, self._bar = values, bar
        self._interval = interval
        self._shown = -interval
        self._figures: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        try:
            for value in self._values:
                yield value
                self._bar.update()
        finally:
            self.close()

    def update(self, steps: int = 1, **figures: Any) -> None:
        """Counts steps that were made, and takes figures as `report` does."""
        self.report(**figures)
        self._bar.update(steps)

    def report(self, **figures: Any) -> None:
        """Takes figures to show: numbers, or arrays and tensors of one.

        They are read when the bar is drawn next, so that a GPU is not waited for in every step.
        """
        self._figures.update(figures)
        now = monotonic()
        if figures and not self._bar.disable and now - self._shown >= self._interval:
            self._shown = now
            self._show()

    def _show(self) -> None:
        self._bar.set_postfix({k: float(v) for k, v in self._figures.items()}, refresh=False)

    def close(self) -> None:
        """Draws the bar for the last time."""
        if self._figures and not self._bar.disable:
            self._show()
        self._bar.close()


def _is_another() -> bool:
    """Says whether this is one of several processes, and not that of rank 0."""
    from ..distributed.launched import launched_processes  # the namespace is imported late

    if launched_processes()[0] == 1:
        return False
    from ..distributed.world import rank

    return rank() > 0


def progress(
    iterable: Iterable[Any] | int,
    *,
    desc: str | None = None,
    total: int | None = None,
    quiet: bool | None = None,
    interval: float = 0.1,
    file: TextIO | None = None,
) -> Progress:
    """Returns a bar that shows how far a loop is, its rate, the time that is left, and figures.

    Args:
        iterable: what the loop goes over; or a number of steps, which
            `Progress.update` counts.
        desc: a text in front.
        total: how many values there are, where the iterable does not tell.
        quiet: whether nothing is shown; by default where there is no terminal and no notebook, and
            on all processes of a program but that of rank 0.
        interval: for how many seconds the figures stay.
        file: where to write; standard error by default.

    Returns:
        A `Progress`: iterate it, and give it figures by ``report(loss=loss)``.

    Raises:
        MissingExtraError: tqdm is not installed.

    >>> import functensor as ft
    >>> bar = ft.training.progress(range(3), desc="fit")
    >>> for step in bar:
    ...     bar.report(loss=1.0 / (1 + step))
    """
    values = range(iterable) if isinstance(iterable, int) else iterable
    if total is None and isinstance(values, Sized):
        total = len(values)
    notebook = in_notebook()
    # Without widgets tqdm.auto warns, and gives bars of text as tqdm does.
    plain = notebook and find_spec("ipywidgets") is None
    bars = extra("tqdm" if plain else "tqdm.auto", "progress")
    if quiet is None and notebook:
        # tqdm would be quiet, as the streams of a notebook are no terminal.
        quiet = False
    # tqdm looks for a terminal where it is told nothing.
    quiet = True if quiet is None and _is_another() else quiet
    bar = bars.tqdm(desc=desc, total=total, disable=quiet, mininterval=interval, file=file)
    return Progress(values, bar, interval)
