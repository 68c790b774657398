"""The calls of segments, apart from the equations that their machine code was made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....native.entry import ObjectsCall, objects_call
from .shared_calls import SharedCall

if TYPE_CHECKING:
    from ....native.code import Code

__all__ = ["EquationRun", "SegmentRun", "entered"]


class SegmentRun:
    """Calls the function of a segment.

    Attributes:
        arrays, results: how many arrays it reads, and how many it returns.
        is_shared: whether threads share its work.
        keeps_lock: whether other threads of Python wait meanwhile.
        is_checked: whether an index of its loops or a label that it computes may be wrong.
        steps: how many of the arrays that it reads, the last ones, have steps in memory.
        function: the name of its function.
        call: calls the function once it is machine code, by threads where these share its work.
    """

    def __init__(
        self,
        arrays: int,
        results: int,
        is_shared: bool,
        keeps_lock: bool,
        is_checked: bool,
        steps: int = 0,
    ) -> None:
        self.arrays = arrays
        self.results = results
        self.is_shared = is_shared
        self.keeps_lock = keeps_lock
        self.is_checked = is_checked
        self.steps = steps
        self.function = ""
        self.call: Callable[..., Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns what is pickled: neither machine code nor equations."""
        given = self.arrays, self.results, self.is_shared, self.keeps_lock, self.is_checked
        return loaded, (*given, self.steps, self.function)

    def again(self, *arrays: Any) -> bool:
        """Runs it once more, with its arrays in order.

        Args:
            arrays: as its function takes them: what it reads, its results, and its memory.

        Returns:
            Whether such an index is out of bounds.
        """
        count = self.arrays
        given = list(arrays)
        for i in range(count - self.steps):
            given[i] = np.require(given[i], requirements=("C", "A"))
        # A result that takes the memory of an operand may have the operand's strides.
        results = range(count, count + self.results)
        for i in results:
            if not (given[i].flags.c_contiguous and given[i].flags.aligned):
                given[i] = np.empty(given[i].shape, given[i].dtype)
        if self.call(*given):
            if self.is_checked:
                return True
            found = ", ".join(f"{x.dtype}{list(x.shape)}" for x in given[:count])
            raise RuntimeError(
                "machine code was called with an array that is not in C order or not aligned, or "
                f"with a label that is no class: {found}"
            )
        for i in results:
            if given[i] is not arrays[i]:
                arrays[i][...] = given[i]
        return False


class EquationRun:
    """Runs an equation of a segment by NumPy, where machine code has failed: its error is raised.

    Args:
        name: the name of the equation's primitive.
        run: runs the equation, of the arrays of the segment.
    """

    def __init__(self, name: str, run: Callable[[Sequence[Any]], None]) -> None:
        self._name = name
        self._run = run

    def __call__(self, *arrays: Any) -> None:
        self._run(arrays)

    def __repr__(self) -> str:
        return f"{self._name} by NumPy"


def loaded(*given: Any) -> SegmentRun:
    """Returns a segment's call that was pickled."""
    *known, function = given
    run = SegmentRun(*known)
    run.function = function
    return run


def entered(code: Code, segments: Sequence[SegmentRun]) -> dict[str, ObjectsCall]:
    """Gives segments their functions; returns these by the names that plans use."""
    for run in segments:
        count = run.arrays + run.results + 1 + run.is_shared
        enter = objects_call(code, run.function, count, keeps_lock=run.keeps_lock)
        run.call = SharedCall(enter) if run.is_shared else enter
    return {f"segment_{i}": run.call for i, run in enumerate(segments)}
