"""Runs of regions by machine code: they bring arrays to the grid, and share blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....native.aligned_memory import aligned_empty
from ....native.entry import NativeCall, kernel_call
from ..regions.region_run import RegionRun, block_memory
from ..threads.sharing import MeasuredSharing

if TYPE_CHECKING:
    from ....native.code import Code

__all__ = ["NativeRun", "enter_kernels", "far_apart", "without"]


class NativeRun(RegionRun):
    """Computes the outputs of a region: ``run(*operands)``."""

    native = True
    made = staticmethod(aligned_empty)

    def __init__(self, name: str, code: Any) -> None:
        super().__init__(name, code)
        self.kernel = code.kernel
        self.most = len(code.blocks)
        self._dtypes = code.dtypes
        self.labels = code.labels
        self._order = far_apart([*code.blocks])
        # The name of its kernel, and how many arrays that takes.
        self.entry: tuple[str, int]
        self.enter: NativeCall

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is pickled, without the kernel and what is needed to write a plan."""
        return {
            **without(vars(self), "kernel", "can_take", "labels", "share", "enter"),
            "outputs": [output._replace(value=None) for output in self.outputs],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, share=MeasuredSharing())

    def __call__(self, *operands: Any, into: tuple[Any, ...] = ()) -> list[Any]:
        if self.most > 1:
            return super().__call__(*operands, into=into)
        outs, work = self.begun(operands, into)
        work()
        return self.finished(outs)

    def begun(
        self, operands: Sequence[Any], into: Sequence[Any]
    ) -> tuple[list[Any], Callable[[], None]]:
        arrays = [
            np.asarray(x, dtype) if how is None else lying_in_order(x, how[0])
            for x, how, dtype in zip(operands, self.inputs, self._dtypes)
        ]
        outs, parts = self._rooms(into)
        return outs, partial(self._work, iter(self._order), [*arrays, *parts])

    def _work(self, blocks: Iterable[tuple[int, int, int]], arrays: list[Any]) -> None:
        memory = block_memory.bytes(self.memory) if self.memory else None
        for number, low, high in blocks:
            self.enter(number, low, high, memory, *arrays)


def far_apart(blocks: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Returns blocks in an order in which neighbours seldom follow each other.

    Parts of neighbours may share a line of the cache, in which two threads would add up by turns.
    """
    bits = max(len(blocks) - 1, 0).bit_length()
    return sorted(blocks, key=lambda block: f"{block[0]:0{bits}b}"[::-1])


def lying_in_order(x: Any, axes: Any) -> Any:
    """Returns an array whose axes are in an order in memory, without a copy if it is so already."""
    if axes is not None:
        x = x.transpose(axes)
    return np.ascontiguousarray(x)


def without(known: dict[str, Any], *names: str) -> dict[str, Any]:
    """Returns attributes, apart from some."""
    return {name: value for name, value in known.items() if name not in names}


def enter_kernels(code: Code, runs: Sequence[Any]) -> dict[str, Any]:
    """Gives runs the functions of their kernels; plans call none of these by itself."""
    for run in runs:
        run.enter = kernel_call(code, *run.entry)
    return {}
