"""Methods of tensors that give the same tensor another shape, or other memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from math import prod
from typing import Any, Self

import numpy as np

from ..backends.devices import device_of, on_device, to_host
from ..primitives.core.errors import BackwardError, failure
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import under
from .grad_mode import GradMode, mode
from .in_place import InPlace
from .rebinding import held_in_place, is_shared, moved_leaf, rebind
from .tape import TAPE, LeafNode
from .torch_functions import TorchFunctions
from .views import taken, within

__all__ = ["ShapesInPlace"]


def swapping(name: str) -> Callable[[Any, int, int], Any]:
    """Returns the method of a name that swaps two axes."""

    def swap(self: Any, dim0: int, dim1: int) -> Any:
        if not self.ndim and {dim0, dim1} <= {0, -1}:
            return self
        return self._rearrange(
            lambda x: ops.swapaxes(x, dim0, dim1), f"x.{name}()",
            f"x = x.{name[:-1]}(dim0, dim1)",
        )  # fmt: skip

    swap.__name__ = swap.__qualname__ = name
    swap.__doc__ = "Swaps two axes of the tensor; others that share its memory keep theirs."
    return swap


class ShapesInPlace(InPlace):
    """The methods of `Tensor` that arrange its axes in place, and that move it in memory.

    Others that share memory with the tensor keep their shapes.
    """

    __slots__ = ()

    def _check_may_move(self, what: str, instead: str) -> None:
        """Checks that the tensor may get another shape.

        Raises:
            BackwardError: it is a leaf that requires grad, or an argument within a transformation.
        """
        leaf = isinstance(self.node, LeafNode) and mode.enabled
        if leaf or getattr(self, "given", False):
            why = "a leaf that requires grad" if leaf else "an argument of a transformed function"
            raise failure(
                BackwardError, f"{what}: {self.name()} is {why}, and keeps its shape", fix=instead
            )

    def _rearrange(self, compute: Callable[[Any], Any], what: str, instead: str) -> Self:
        """Gives the tensor the elements of what ``compute`` returns for it, in its shape.

        Raises:
            BackwardError: it is a leaf that requires grad, or an argument within a transformation.
        """
        self._check_may_move(what, instead)
        node = self.node
        leaf = isinstance(node, LeafNode)
        with under(self.home) if within(self) else nullcontext(), GradMode(not leaf):
            seen = self._data
            result = compute(self)
            base = held_in_place(self) if is_shared(self) else None
            self._data = result._data
            self.node = result.node
            if base is not None:
                taken(base, self, seen, compute)
        if leaf:
            self.node = moved_leaf(node, self._data, what)
        self._changes = getattr(self, "_changes", 0) + 1
        return self

    def unsqueeze_(self, dim: int) -> Self:
        """Gives the tensor a new axis of length 1."""
        return self._rearrange(
            lambda x: ops.expand_dims(x, dim), "x.unsqueeze_()", "x = x.unsqueeze(dim)"
        )

    def squeeze_(self, dim: Any = None) -> Self:
        """Takes axes of length 1 from the tensor; a longer ``dim`` stays."""
        squeeze = TorchFunctions.squeeze
        return self._rearrange(lambda x: squeeze(x, dim), "x.squeeze_()", "x = x.squeeze(dim)")

    transpose_ = swapping("transpose_")
    swapaxes_ = swapping("swapaxes_")
    swapdims_ = swapping("swapdims_")

    def t_(self) -> Self:
        """Transposes a matrix; a vector stays as it is."""
        transpose = TorchFunctions.t
        return self._rearrange(lambda x: transpose(x), "x.t_()", "x = x.t()")

    # -- other memory

    def set_(self, source: Any = None) -> Self:
        """Lets the tensor lie in the memory of another of its dtype; without one, it is empty.

        Raises:
            BackwardError: it is a leaf that requires grad, or an argument within a transformation.
            TypeError: ``source`` is no tensor.
            RuntimeError: ``source`` has another dtype.
        """
        self._check_may_move("x.set_()", "with no_grad():, or x.data = y")
        if source is None:
            source = TAPE.wrap(on_device(np.zeros(0, self.dtype), device_of(self._data)), None)
        elif not isinstance(source, InPlace):
            raise failure(
                TypeError,
                f"x.set_() takes a tensor, not {type(source).__name__}",
                fix="x.set_(torch.tensor(data))",
                number=None,
            )
        if source.dtype != self.dtype:
            raise failure(
                RuntimeError,
                f"x.set_(): the source is {source.dtype}, and {self.name()} keeps its dtype",
                fix="x.data = y, which takes the dtype too",
                number=None,
            )
        rebind(self, source, "x.set_()")
        return self

    def resize_(self, *sizes: Any, memory_format: Any = None) -> Self:
        """Gives the tensor another number of elements; those that are new mean nothing.

        Args:
            sizes: the shape, as one sequence or several integers.
            memory_format: of no effect.

        Raises:
            BackwardError: it requires grad, or it would grow in memory that it shares.
        """
        shape = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        shape = tuple([int(n) for n in shape])
        return self.take_shape(shape, "x.resize_()")

    def resize_as_(self, the_template: Any, memory_format: Any = None) -> Self:
        """Gives the tensor the shape of another; see `resize_`."""
        return self.take_shape(tuple(the_template.shape), "x.resize_as_()")

    def take_shape(self, shape: tuple[int, ...], what: str) -> Self:
        """Gives the tensor another shape, with the elements that it has, as far as they go."""
        if shape == self.shape and self.node is None:
            return self
        count, have = prod(shape), self.numel()
        grows = count > have or not self.is_contiguous()
        problem = "requires grad" if self.node is not None else ""
        if is_shared(self) and grows:
            problem = "shares memory with other tensors, where it cannot get another size"
        elif getattr(self, "given", False):
            problem = "is an argument of a transformed function"
        elif self.home is not None and grows and have:
            problem = "is traced, and cannot grow"
        if problem:
            raise failure(
                BackwardError,
                f"{what}: {self.name()} {problem}; asked for was {shape}",
                fix="y = torch.empty(size), a tensor of its own",
            )
        if not grows:
            return self._rearrange(
                lambda x: ops.reshape(ops.index(ops.reshape(x, -1), slice(count)), shape),
                what, "x.reshape(shape)",
            )  # fmt: skip
        buffer = np.zeros(count, self.dtype)
        here = str(self.device)
        # The order of elements is that of the tensor: what lies in memory otherwise is moved.
        if have:
            buffer[: min(have, count)] = to_host(self._data).reshape(-1)[:count]
        self._data = on_device(buffer.reshape(shape), here)
        self._changes = getattr(self, "_changes", 0) + 1
        return self
