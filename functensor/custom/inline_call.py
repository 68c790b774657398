"""Calls without rules, whose derivatives are those of their functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ..primitives.core.annotations import Values
from ..primitives.core.trace import Trace, at_face, under
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp
from ..transforms.jvp import jvp
from ..transforms.vmap import vmap
from .arguments import replaced
from .call import CustomCall, at_face_pair, filled_like

__all__ = ["InlinedCall"]


class InlinedCall(CustomCall):
    """A call without a rule of its own: its function is differentiated as it runs."""

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        """Returns the outputs and the function that pulls cotangents back."""
        known = [i for i, v in enumerate(values) if wanted[i] and is_inexact(v)]
        pulls = []

        def run(values: Values) -> Values:
            outs, pull = vjp(
                lambda *some: self.evaluate(replaced(values, known, some)),
                *[values[i] for i in known],
            )
            pulls.append(pull)
            return outs

        with under(level):
            outs = at_face(run, values)

        def pull_back(gs: Values) -> Values:
            found = at_face(lambda gs: list(pulls[0](gs)), filled_like(gs, outs))
            return replaced([None] * len(values), known, found)

        return outs, pull_back

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Returns the outputs and their tangents."""
        given = [i for i, t in enumerate(tangents) if t is not None]

        def push(values: Values, some: Values) -> tuple[Values, Values]:
            moved = [values[i] for i in given]
            outs, out_tangents = jvp(
                lambda *moved: self.evaluate(replaced(values, given, moved)), moved, some
            )
            return outs, out_tangents

        with under(level):
            return at_face_pair(push, values, [tangents[i] for i in given])

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        """Returns the same for a batch."""
        axes = [0 if flag else None for flag in flags]
        mapped = vmap(self.evaluate, in_axes=(axes,), axis_size=size, axis_name=axis_name)
        return InlinedCall(self.name, mapped)
