"""Functions that a plan calls with the values that it computed.

They are differentiated and batched as they run. So their derivatives and batches are such calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..custom.call import CustomCall, replaced
from ..jitting.program_call import DerivedCall, Flags, Flat, Rules
from ..jitting.program_derivatives import batched_inputs
from ..primitives.core.annotations import Values
from ..primitives.core.buffers import is_changeable
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import Trace
from ..programs.program import Variable
from ..transforms.grad import vjp
from ..transforms.jvp import jvp
from ..transforms.vmap import vmap

__all__ = ["HostCall", "batched_type", "strong"]


class HostCall(DerivedCall):
    """A call of a function of arrays, on a flat list, while a plan runs.

    Args:
        name: what it is called in programs.
        fun: takes and returns a list of arrays.
        inputs: variables like the operands.
        outputs: the types of the outputs.
    """

    def __init__(
        self,
        name: str,
        fun: Callable[[Values], Values],
        inputs: Sequence[Variable],
        outputs: Sequence[ShapeDtype],
    ) -> None:
        super().__init__(name, fun)
        self.inputs = tuple(inputs)
        self.outputs = list(outputs)
        self.derived = {}

    def on_buffers(self, buffers: Sequence[Any]) -> Values:
        """Computes the outputs as buffers, of buffers that the plan may write into again."""
        return super().on_buffers(list(map(settled, buffers)))

    def infer(self, *types: ShapeDtype) -> list[ShapeDtype]:
        """Returns the outputs' types."""
        return self.outputs

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        if level.linear:
            return self.parted(level, values, tangents)
        return super().forward(level, values, tangents)

    def pushed(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        count = len(self.inputs)
        moved = [i for i, flag in enumerate(given) if flag]
        found = [known.dtype.kind in "fcV" for known in self.outputs]

        def push(values: Values) -> Values:
            shown, tangents = values[:count], values[count:]
            outs, out_tangents = jvp(
                lambda *some: self.evaluate(replaced(shown, moved, some)),
                [shown[i] for i in moved],
                tangents,
            )
            return [*outs, *(t for t, flag in zip(out_tangents, found, strict=True) if flag)]

        like = [*self.inputs, *(strong(self.inputs[i]) for i in moved)]
        types = [known.strong() for known, flag in zip(self.outputs, found, strict=True) if flag]
        return HostCall(self.name, push, like, [*self.outputs, *types]).bind, found

    def pulled(self, wanted: Flags) -> Rules | None:
        count = len(self.inputs)
        chosen = [i for i, flag in enumerate(wanted) if flag]

        def backward(given: Flags) -> tuple[Flat, Sequence[bool]]:
            reached = [n for n, flag in enumerate(given) if flag]

            def pull(values: Values) -> Values:
                shown, gs = values[:count], values[count:]

                def run(*some: Any) -> Values:
                    outs = self.evaluate(replaced(shown, chosen, some))
                    return [outs[n] for n in reached]

                return list(vjp(run, *[shown[i] for i in chosen])[1](gs))

            device = self.inputs[chosen[0]].device
            like = [*self.inputs, *(Variable(self.outputs[n].strong(), device) for n in reached)]
            types = [self.inputs[i].type.strong() for i in chosen]
            return HostCall(self.name, pull, like, types).bind, wanted

        return Rules(len(self.outputs), self.bind, range(count), backward)

    def mapped(self, flags: Flags, size: int, axis_name: Hashable) -> CustomCall:
        axes = [0 if flag else None for flag in flags]
        fun = vmap(self.evaluate, in_axes=(axes,), axis_size=size, axis_name=axis_name)
        types = [batched_type(known, size) for known in self.outputs]
        return HostCall(self.name, fun, batched_inputs(self.inputs, flags, size), types)


def settled(buffer: Any) -> Any:
    """Returns a buffer whose numbers stay, whoever keeps it; a copy where a plan may change it."""
    if type(buffer) is not np.ndarray or not is_changeable(buffer):
        return buffer
    copy = buffer.copy("K")
    # It is not copied again where the next call is given it.
    copy.flags.writeable = False
    return copy


def strong(x: Variable) -> Variable:
    """Returns a variable like the tangent or cotangent of another one."""
    return Variable(x.type.strong(), x.device)


def batched_type(known: ShapeDtype, size: int) -> ShapeDtype:
    """Returns a type with a batch axis in front."""
    return ShapeDtype((size, *known.shape), known.dtype)
