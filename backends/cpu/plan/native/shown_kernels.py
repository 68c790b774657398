"""The functions that a plan with machine code calls as text for people: kernels, or LLVM's code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ....kernels.kernel import LoopKernel
from ....kernels.printed import kernel_text
from ....native.printer import Module, Printer
from .step_code import SegmentWithLoops

if TYPE_CHECKING:
    from ..writer import Straight

__all__ = ["shown_kernels"]


def shown_kernels(written: Straight, llvm: bool) -> str:
    """Returns the text of the functions of machine code that a plan calls.

    Args:
        written: the plan, written as one with machine code.
        llvm: whether functions are LLVM's code; otherwise they are kernels in their own language.
    """
    runs = [run.kernel for run in written.regions if run.native and hasattr(run, "kernel")]
    machine = written.machine
    if llvm:
        parts = [] if machine is None else [machine.text]
        for kernel in runs:
            module = Module()
            parts.append(module.text(Printer(kernel, module).text()))
        return "\n".join(parts)
    segments = [] if machine is None else machine.segments
    found = [kernel for segment in segments for kernel in kernels_in(segment.code)]
    # Layers of a kind have equal kernels.
    texts = dict.fromkeys(map(kernel_text, [*found, *runs]))
    return "\n".join([f"{text}\n" for text in texts])


def kernels_in(code: SegmentWithLoops) -> Iterator[LoopKernel]:
    """Yields the kernels that a segment calls, with those of its loops and choices."""
    for kernel in [call.kernel for call in code.calls if call.kernel is not None]:
        if isinstance(kernel, LoopKernel):
            yield kernel
            continue
        for part in vars(kernel).values():
            several: list[Any] = part if isinstance(part, list) else [part]
            for each in several:
                if isinstance(each, SegmentWithLoops):
                    yield from kernels_in(each)
                elif isinstance(each, LoopKernel):
                    yield each
