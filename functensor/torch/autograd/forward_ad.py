"""Tensors that carry a tangent: ``torch.autograd.forward_ad``.

Within `dual_level` a forward mode stands as a transformation does. What depends on a dual tensor is
a traced tensor there; everything else is a tensor as it is outside.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...backends.restoring import setting
from ...faces.publish import publish
from ...primitives.core.errors import failure
from ...primitives.core.shape_dtype import INEXACT
from ...primitives.core.trace import slot
from ...tensors import Tensor
from ...tensors.face import FaceTrace, TracedTensor
from ...tensors.level import LEVEL, outside
from ...traces.forward import ForwardTrace, ForwardTracer
from ...transforms.tensor_entrance import entrance

__all__ = ["UnpackedDualTensor", "dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A dual tensor's value, and its tangent, or None where it has none."""

    primal: Any
    tangent: Any


class DualFace(FaceTrace):
    """Gives what depends on a dual tensor as traced tensors, and all else as tensors."""

    __slots__ = ()

    def wrap(self, value: Any) -> Any:
        if is_dual(value, self.parent):
            return super().wrap(value)
        return outside(value)

    def new_tensor(self) -> Any:
        return object.__new__(Tensor)


def is_dual(value: Any, trace: Any) -> bool:
    """Says whether a value carries a tangent of a trace."""
    return isinstance(value, ForwardTracer) and value.owner is trace


def dual_level() -> setting:
    """Lets tensors carry tangents, for the length of a ``with`` block.

    Returns:
        The block. Within it nothing else may begin one.

    Raises:
        RuntimeError: a transformation runs, or a block has begun before.

    >>> import functensor.torch as torch
    >>> import functensor.torch.autograd.forward_ad as fwAD
    >>> x, direction = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])
    >>> with fwAD.dual_level():
    ...     y = fwAD.make_dual(x, direction) ** 3
    ...     print(fwAD.unpack_dual(y).tangent.tolist())
    [3.0, 0.0]
    """
    if slot.trace is not None:
        raise failure(
            RuntimeError,
            "dual_level within another one, or within a transformation",
            fix="torch.func.jvp(f, primals, tangents), which goes within others",
            number=None,
        )
    forward = ForwardTrace(LEVEL, "dual_level", None)
    return setting(slot, trace=DualFace(forward), face=entrance.faced)


def current_face(what: str) -> DualFace:
    """Returns the face of the block that runs.

    Raises:
        RuntimeError: there is none.
    """
    trace = slot.trace
    while trace is not None and not isinstance(trace, DualFace):
        trace = trace.parent
    if trace is None:
        raise failure(
            RuntimeError, f"{what} outside of a dual level", fix="with fwAD.dual_level():",
            number=None,
        )  # fmt: skip
    return trace


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Returns a tensor that carries a tangent.

    Args:
        tensor: a tensor of floats.
        tangent: another one of its shape and dtype.
        level: no effect.

    Raises:
        RuntimeError: there is no dual level.
        ValueError: the tensor is of integers, or the tangent does not fit it.
    """
    face = current_face("make_dual")
    if tensor.dtype.kind not in INEXACT:
        raise ValueError(f"make_dual: {tensor.dtype} has no tangent")
    if tensor.shape != tangent.shape or tensor.dtype != tangent.dtype:
        raise ValueError(
            f"make_dual: the tangent is {tangent.dtype}{tangent.shape}, but the tensor "
            f"{tensor.dtype}{tensor.shape}"
        )
    forward: Any = face.parent
    return face.wrap(forward.wrap(LEVEL.entered(tensor), LEVEL.entered(tangent)))


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Returns a tensor's value and its tangent, as tensors without one.

    Args:
        tensor: a tensor, dual or not.
        level: no effect.

    Returns:
        A named tuple; its tangent is None where the tensor carries none.
    """
    value: Any = tensor._data if isinstance(tensor, TracedTensor) else None
    if not isinstance(value, ForwardTracer):
        return UnpackedDualTensor(tensor, None)
    tangent = None if value.tangent is None else outside(value.tangent)
    return UnpackedDualTensor(outside(value.value), tangent)


publish(globals())
