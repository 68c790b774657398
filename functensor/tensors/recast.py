"""Views whose elements are not those of their base, but what these are made of, or give.

The parts of complex numbers, conjugates, and the same bits read as numbers of another dtype.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ..primitives.core.buffers import to_buffer
from ..primitives.core.errors import failure
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import under
from .grad_mode import mode
from .tape import TAPE
from .views import Recast, taken, within

if TYPE_CHECKING:
    from ..primitives.core.array import Tracer

__all__ = ["as_dtype", "conjugated", "is_conjugated", "part", "recast"]


class Part(Recast):
    """Takes the real or the imaginary parts of complex numbers, and puts others in their place."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: Tracer) -> Any:
        return getattr(ops, self.name)(x)

    def of_array(self, x: Any) -> Any:
        """Returns the parts of a NumPy array."""
        return getattr(x, self.name)

    def put(self, x: Any, value: Any) -> Any:
        """Returns complex numbers with other parts."""
        tensor = isinstance(value, TAPE.tracer)
        given = value._data if tensor else to_buffer(value)
        # NumPy's scalars cannot be written to.
        buffer = x._data
        buffer = np.array(buffer) if isinstance(buffer, np.generic) else buffer.copy()
        setattr(buffer, self.name, given)
        out = TAPE.wrap(buffer[()], None)
        if mode.enabled and (x.node is not None or (tensor and value.node is not None)):
            real, imag = (value, ops.imag(x)) if self.name == "real" else (ops.real(x), value)
            out.node = ops.complex_of_parts(real, imag).node
        return out


def part(name: str, doc: str) -> property:
    """Returns the property of the real or the imaginary part, a view that others are written to."""
    take = Part(name)

    def taken_part(self: Any) -> Any:
        if self.dtype.kind != "c":
            return self if name == "real" else take(self)
        return recast(self, take)

    def put_part(self: Any, value: Any) -> None:
        if name == "imag" and self.dtype.kind != "c":
            raise failure(
                RuntimeError,
                f"x.imag = y of a tensor of {self.dtype}, which has no imaginary parts",
                fix="torch.complex(x, y)",
            )
        taken_part(self).copy_(value)

    return property(taken_part, put_part, doc=doc)


def recast(x: Any, take: Recast) -> Any:
    """Returns a view whose elements are what those of a tensor are made of."""
    if not isinstance(x, TAPE.tracer):
        return take(x)
    seen = x._data
    with under(x.home) if within(x) else nullcontext():
        return taken(x, take(x), seen, take)


class Conjugate(Recast):
    """Takes the conjugates of complex numbers."""

    __slots__ = ()

    def __call__(self, x: Tracer) -> Any:
        return ops.conj(x)

    def of_array(self, x: Any) -> None:
        """Returns None: no memory has the conjugates of what is in memory."""

    def put(self, x: Any, value: Any) -> Any:
        """Returns the numbers that have given conjugates."""
        return ops.conj(value)


CONJUGATE = Conjugate()


def conjugated(x: Any) -> Any:
    """Returns the conjugates of a tensor, a view; a real tensor as it is."""
    return recast(x, CONJUGATE) if x.dtype.kind == "c" else x


def is_conjugated(x: Any) -> bool:
    """Says whether a tensor is a view of conjugates."""
    odd = False
    while (source := getattr(x, "_source", None)) is not None:
        if isinstance(source[1], Conjugate):
            odd = not odd
        elif isinstance(source[1], Recast):
            return odd
        x = source[0]
    return odd


class Bits(Recast):
    """Takes the bits of numbers as numbers of another dtype."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def __call__(self, x: Any) -> Any:
        return TAPE.wrap(self.of_array(x._data), None)

    def of_array(self, x: Any) -> Any:
        """Returns the bits of an array."""
        return x.view(self.dtype)

    def put(self, x: Any, value: Any) -> Any:
        """Returns the numbers that have given bits."""
        given = value._data if isinstance(value, TAPE.tracer) else to_buffer(value)
        if isinstance(given, np.generic):
            given = np.asarray(given)
        if x.dtype.itemsize != self.dtype.itemsize and given.ndim:
            given = given.copy("C")
        return TAPE.wrap(given.view(x.dtype), None)


def as_dtype(x: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a tensor's bits as numbers of another dtype, a view.

    Raises:
        RuntimeError: the sizes of elements differ, and the last axis cannot be cut that way.
        NotImplementedError: within a transformation.
    """
    own, other = x.dtype.itemsize, dtype.itemsize
    if not isinstance(x, TAPE.tracer) or x.home is not None:
        raise failure(
            NotImplementedError,
            f"view({dtype}) of {x.describe()}: a transformation knows numbers, not their bits",
            fix=f"x.to({str(dtype)!r}), which converts the numbers",
            number=None,
        )
    if own != other:
        problem = None
        if not x.ndim:
            problem = "a tensor without axes keeps its size of elements"
        elif x.stride(-1) != 1:
            problem = f"the last axis has distances of {x.stride(-1)} elements, and not of 1"
        elif other > own and x.shape[-1] % (other // own):
            problem = f"the last axis has {x.shape[-1]} elements, no multiple of {other // own}"
        elif other > own and any(step % (other // own) for step in x.stride()[:-1]):
            problem = f"other axes have distances that are no multiples of {other // own}"
        if problem:
            raise failure(
                RuntimeError,
                f"view({dtype}) of {x.name()}, whose elements have another size: {problem}",
                fix="x.contiguous().view(dtype), of a last axis of a suitable length",
                number=None,
            )
    seen = x._data
    take = Bits(dtype)
    return taken(x, take(x), seen, take, recorded=False)
