"""The order in which a buffer's elements lie in memory, and views that show all of another buffer.

A residual comes back in the order that it had: products by a BLAS may differ in the last bits
between orders. Views of one buffer are packed once, as that buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backends.devices import backend_of

if TYPE_CHECKING:
    from ..backends.annotations import Buffer

__all__ = ["View", "in_memory_order", "inverse", "memory_order"]


def memory_order(buffer: Buffer) -> tuple[int, ...]:
    """Returns a buffer's axes, that of the longest steps in memory first."""
    axes = tuple(range(buffer.ndim))
    strides = getattr(buffer, "strides", None)
    if strides is None or buffer.flags.c_contiguous:
        return axes
    return tuple(sorted(axes, key=lambda i: -abs(strides[i])))


def in_memory_order(buffer: Buffer, axes: tuple[int, ...]) -> Buffer:
    """Returns a buffer whose elements lie in a certain order, one after the other."""
    if getattr(buffer, "strides", None) is None:
        return buffer
    moved = buffer.transpose(axes)
    if moved.flags.c_contiguous:
        return buffer
    return backend_of(buffer).xp.ascontiguousarray(moved).transpose(inverse(axes))


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the permutation that undoes another one."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


class View:
    """The way from a buffer to a view that shows all of it: other axes, another shape, repeats.

    Args:
        view, owner: buffers, of which the first lies in the memory of the second.

    Attributes:
        whole: whether the view shows all of the other buffer; nothing else holds if it does not.
    """

    __slots__ = ("axes", "key", "owner_axes", "shape", "sizes", "whole")

    def __init__(self, view: Buffer, owner: Buffer) -> None:
        self.shape = view.shape
        pairs = zip(view.strides, view.shape, strict=True)
        repeated = [step == 0 and size > 1 for step, size in pairs]
        core = view[tuple([0 if flag else slice(None) for flag in repeated])]
        self.key = tuple([None if flag else slice(None) for flag in repeated])
        self.axes, self.owner_axes = memory_order(core), memory_order(owner)
        self.sizes = tuple([core.shape[i] for i in self.axes])
        self.whole = (
            core.dtype == owner.dtype
            and core.size == owner.size
            and core.transpose(self.axes).flags.c_contiguous
            and owner.transpose(self.owner_axes).flags.c_contiguous
        )

    def of(self, owner: Buffer) -> Buffer:
        """Returns the view of a buffer of the same shape and memory order."""
        flat = owner.transpose(self.owner_axes).reshape(self.sizes)
        core = flat.transpose(inverse(self.axes))[self.key]
        return backend_of(owner).xp.broadcast_to(core, self.shape)
