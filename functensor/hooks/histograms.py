"""A hook that counts values and gradients in bins, step by step of a training."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from ..primitives.core.array import Array
from ..primitives.core.errors import function_name
from ..programs.labels import label
from .bins import Histogram, bins_of, edges_of
from .hook import Hook
from .operation import Operation
from .values import magnitudes, output_cotangents, plain_value

if TYPE_CHECKING:
    from .histogram_pictures import Figure

__all__ = ["HistogramHook"]

# The name of an operation's histogram, by the choice of names.
NAMES: dict[str, Callable[[Operation], str | None]] = {
    "primitive": lambda op: label(op.name, op.params),
    "scope": lambda op: op.scope or None,
    "tag": lambda op: op.tag,
}
# The values of operations, or the cotangents of these values.
Side: TypeAlias = Literal["forward", "backward"]
KNOWN_SIDES = get_args(Side)


class Tally:
    """The values of one name at one step."""

    __slots__ = ("bins", "nan", "negative_inf", "positive_inf")

    def __init__(self) -> None:
        self.bins: Counter[int] = Counter()
        self.nan = self.positive_inf = self.negative_inf = 0

    def add(self, numbers: np.ndarray) -> None:
        """Counts numbers, of float64 in one row."""
        finite = numbers[np.isfinite(numbers)]
        if finite.size < numbers.size:
            self.nan += int(np.isnan(numbers).sum())
            self.positive_inf += int((numbers == np.inf).sum())
            self.negative_inf += int((numbers == -np.inf).sum())
        if finite.size:
            codes = bins_of(finite)
            least = codes.min()
            # Quicker than sorting: there are some thousand codes at most.
            counts = np.bincount(codes - least)
            used = np.flatnonzero(counts)
            pairs = zip((used + least).tolist(), counts[used].tolist(), strict=True)
            self.bins.update(dict(pairs))


class HistogramHook(Hook):
    """Counts the values of operations, and their cotangents, in histograms of every step.

    Each power of two has four bins, of either sign, and zero has one of its own: so the range
    needs no choice, and a step takes some kilobytes, whatever the size of the arrays. NaN and
    infinity are counted apart. Of complex numbers the magnitude is counted. Values of `vmap` count
    for all examples, but once if all share them; where a program is staged there are none.

    Args:
        by: what has a histogram: "primitive"; "scope" or "tag", of operations that have one; or a
            function that names an `Operation`, or leaves it out by None.
        automatic: whether a step ends where an operation runs forward after a backward pass.
            Otherwise `step` ends it.

    Raises:
        ValueError: ``by`` is none of them.

    >>> import functensor as ft, functensor.numpy as np
    >>> hook = ft.hooks.HistogramHook(by="tag")
    >>> def loss(w):
    ...     return np.sum(ft.tag(np.exp(w), "hidden") ** 2)
    >>> w = np.array([0.0, 0.5, 1.0])
    >>> with ft.hooks.use(hook):
    ...     for _ in range(2):
    ...         w = w - 0.1 * ft.grad(loss)(w)
    ...         hook.step()
    >>> found = hook.histogram("hidden")
    >>> print(found.edges)
    [0.5   0.625 0.75  0.875 1.    1.25  1.5   1.75  2.    2.5   3.   ]
    >>> print(found.counts)
    [[0 0 0 0 1 0 1 0 0 1]
     [1 0 1 1 0 0 0 0 0 0]]
    """

    def __init__(
        self,
        by: Literal["primitive", "scope", "tag"] | Callable[[Operation], str | None] = "primitive",
        automatic: bool = False,
    ) -> None:
        if by not in NAMES and not callable(by):
            raise ValueError(
                f"HistogramHook has a histogram by {by!r}; by= is one of "
                f"{', '.join(map(repr, NAMES))}, or a function of an Operation"
            )
        self.by = by
        self.automatic = automatic
        self._name = NAMES[by] if isinstance(by, str) else by
        self._lock = threading.Lock()
        self._tallies: dict[tuple[str, Side, int], Tally] = {}
        self._step = 0
        self._went_back = False

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        self._add(op, "forward", [output])

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        self._add(op, "backward", output_cotangents(grad_output))

    def _add(self, op: Operation, side: Side, values: Sequence[Any]) -> None:
        """Counts values of an operation."""
        name = self._name(op)
        buffers = [buffer for buffer in map(plain_value, values) if buffer is not None]
        numbers = [magnitudes(buffer) for buffer in buffers] if name is not None else []
        with self._lock:
            if buffers and self.automatic:
                # A checkpoint that runs again belongs to the backward pass.
                if self._went_back and side == "forward" and op.phase != "replay":
                    self._step += 1
                    self._went_back = False
                self._went_back = self._went_back or side == "backward"
            for some in numbers:
                assert name is not None
                self._tallies.setdefault((name, side, self._step), Tally()).add(some)

    def step(self) -> None:
        """Ends a step; what comes next belongs to the next one."""
        with self._lock:
            self._step += 1
            self._went_back = False

    @property
    def names(self) -> list[str]:
        """The names that have a histogram, in the order in which they were met."""
        with self._lock:
            return list(dict.fromkeys(name for name, _, _ in self._tallies))

    def histogram(self, name: str, side: Side = "forward") -> Histogram:
        """Returns the histogram of values, or of their cotangents.

        Args:
            name: a primitive, a scope or a tag, one of `names`.
            side: "forward" for values, "backward" for cotangents.

        Returns:
            The `Histogram`, of the steps until the last one that had any values of any name.

        Raises:
            KeyError: nothing of that name was met.
            ValueError: there is no such side.
        """
        if side not in KNOWN_SIDES:
            raise ValueError(f"a histogram has the side 'forward' or 'backward', not {side!r}")
        with self._lock:
            known = {key[0] for key in self._tallies}
            if name not in known:
                met = ", ".join(map(repr, sorted(known))) or "none"
                raise KeyError(f"there is no histogram of {name!r}; there are: {met}")
            steps = max(step for _, _, step in self._tallies) + 1
            tallies = [self._tallies.get((name, side, step), Tally()) for step in range(steps)]
            edges, places = edges_of(code for tally in tallies for code in tally.bins)
            counts = np.zeros((steps, len(edges) - 1), np.int64)
            for row, tally in zip(counts, tallies, strict=True):
                for code, count in tally.bins.items():
                    row[places[code]] += count
            rest = ("nan", "positive_inf", "negative_inf")
            special = [np.array([getattr(t, kind) for t in tallies], np.int64) for kind in rest]
        return Histogram(edges, counts, *special)

    def draw(self, axes: Any = None) -> Figure:
        """Draws values and gradients of each step as heat maps, through matplotlib.

        Every name has a row: its values to the left, its gradients to the right.

        Args:
            axes: an array of matplotlib's axes, ``[len(names), 2]``; None for a new figure.

        Returns:
            The figure.

        Raises:
            MissingExtraError: matplotlib is not installed.
            ValueError: nothing was counted yet, or the array has another shape.
        """
        from .histogram_pictures import draw_histograms  # which needs matplotlib

        pairs = {n: (self.histogram(n), self.histogram(n, "backward")) for n in self.names}
        return draw_histograms(pairs, axes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture of `draw` to a file.

        Args:
            path: the file; its ending says of which kind, such as ``.png`` or ``.svg``.

        Raises:
            MissingExtraError: matplotlib is not installed.
            ValueError: nothing was counted yet.
        """
        self.draw().savefig(path)

    def __repr__(self) -> str:
        with self._lock:
            names = {name for name, _, _ in self._tallies}
        what = self.by if isinstance(self.by, str) else function_name(self.by)
        return f"<HistogramHook: {len(names):,} by {what}, step {self._step:,}>"
