"""Values that are handed out of a running function beside its results.

`functensor.hooks.capture` takes them. A function that runs by itself, as a loop's body does, hands
on what was taken within it as further results of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from threading import local
from typing import Any, NamedTuple

from ..backends.restoring import setting
from ..primitives.core.annotations import Values
from ..primitives.core.array import Tracer
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import EscapedTracerError, failure
from ..primitives.core.trace import interceptors

__all__ = ["Taken", "handing_out", "resolved", "taking"]


class Taken(NamedTuple):
    """A value that was taken.

    Attributes:
        taker: the hook that took it.
        name: what it is called.
        line: the user's line that computed it.
        value: the value, or a number that stands for it.
        shape: the shape of what a number stands for; None of a value.
    """

    taker: Any
    name: str
    line: str
    value: Any
    shape: Any = None


class Taking(local):
    """The values that were taken from the running function.

    Attributes:
        values: the values; None where nobody takes any.
        gradients: whether gradients by values are taken. Programs then have all steps of a loop one
            by one, and checkpointed functions merely run, so that each value has its own cotangent.
    """

    values: list[Taken] | None = None
    gradients: bool = False

    def anew(self) -> setting:
        """Returns a block in which no value was taken yet."""
        return setting(self, values=[])


taking = Taking()


def handing_out(
    fun: Callable[[Values], Values], unlike: Callable[[str, str, str], Exception] | None = None
) -> tuple[Callable[[Values], Values], Callable[[Values], Values]]:
    """Returns a function whose last results are what was taken within it, and what notes those.

    Args:
        fun: takes and returns a flat list.
        unlike: where the function is the body of a loop, whose steps have to take the same values:
            returns the error for one that does not, given a value's name and its line, and what is
            not the same. Otherwise a second run stands for the first.

    Returns:
        A function of the same values, and a function of its results, as they are outside, that
        takes off those that were taken and returns the others.
    """
    if taking.values is None:
        return fun, lambda results: results
    known: list[Taken] = []
    shapes: list[Any] = []
    settled: list[bool] = []

    def handing(values: Values) -> Values:
        with taking.anew():
            results = fun(values)
            found = list(taking.values or ())
        outs = list(map(resolved, found))
        # Hooks do not see the steps by which types settle.
        if unlike is not None and interceptors():
            seen = [
                shape_of(out) if taken.shape is None else taken.shape
                for taken, out in zip(found, outs, strict=True)
            ]
            different = difference(known, shapes, found, seen) if settled else None
            if different:
                raise unlike(*different)
            shapes[:] = seen
            settled[:] = [True]
        known[:] = found
        return [*results, *outs]

    def note(results: Values) -> Values:
        count = len(results) - len(known)
        if taking.values is not None:
            taking.values += [
                taken._replace(value=value)
                for taken, value in zip(known, results[count:], strict=True)
            ]
        return results[:count]

    return handing, note


def difference(
    before: Sequence[Taken], shapes: Sequence[Any], found: Sequence[Taken], seen: Sequence[Any]
) -> tuple[str, str, str] | None:
    """Returns how one step of a loop took other values than the step before: name, line, words.

    Args:
        before, shapes: what the step before took, and the shapes.
        found, seen: the same of this step.
    """
    for old, new in zip_longest(before, found):
        if old is None or new is None or (old.taker, old.name) != (new.taker, new.name):
            taken = new or old
            return taken.name, taken.line, "is computed in some steps and not in others"
    for taken, old, new in zip(found, shapes, seen, strict=True):
        if old != new:
            return taken.name, taken.line, f"has the shape {old} in one step and {new} in another"
    return None


def resolved(taken: Taken) -> Any:
    """Returns a value at the level of the running function, with the axes of batches in front.

    Raises:
        EscapedTracerError: it was computed by a program of its own, which does not hand it out.
    """
    x = taken.value
    while isinstance(x, Tracer) and not x.owner.alive:
        if not hasattr(x, "value"):
            raise failure(
                EscapedTracerError,
                f"{taken.name}, which was computed at {taken.line}, cannot be captured: a "
                "branch, a loop without a fixed number of steps, or the way back through a loop "
                "was compiled by itself",
                fix="return it from there, or capture it outside of jit",
            )
        x = x.value
    return x
