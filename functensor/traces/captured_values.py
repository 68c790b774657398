"""Values that are handed out of a running function beside its results.

`functensor.hooks.capture` takes them. A function that runs by itself, as a loop's body does, hands
on what was taken within it as further results of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any, NamedTuple

from ..backends.restoring import setting
from ..primitives.core.annotations import Values
from ..primitives.core.array import Tracer
from ..primitives.core.errors import EscapedTracerError, failure

__all__ = ["Taken", "handing_out", "resolved", "taking"]


class Taken(NamedTuple):
    """A value that was taken.

    Attributes:
        taker: who took it.
        name: what it is called.
        line: the user's line that computed it.
        value: the value.
    """

    taker: object
    name: str
    line: str
    value: Any


class Taking(local):
    """The values that were taken from the running function; None where nobody takes any."""

    values: list[Taken] | None = None

    def anew(self) -> setting:
        """Returns a block in which no value was taken yet."""
        return setting(self, values=[])


taking = Taking()


def handing_out(
    fun: Callable[[Values], Values],
) -> tuple[Callable[[Values], Values], Callable[[Values], Values]]:
    """Returns a function whose last results are what was taken within it, and what notes those.

    Args:
        fun: takes and returns a flat list.

    Returns:
        A function of the same values, and a function of its results, as they are outside, that
        takes off those that were taken and returns the others.
    """
    if taking.values is None:
        return fun, lambda results: results
    known: list[Taken] = []

    def handing(values: Values) -> Values:
        with taking.anew():
            results = fun(values)
            found = list(taking.values or ())
        known[:] = found
        return [*results, *map(resolved, found)]

    def note(results: Values) -> Values:
        count = len(results) - len(known)
        if taking.values is not None:
            pairs = zip(known, results[count:], strict=True)
            taking.values += [taken._replace(value=value) for taken, value in pairs]
        return results[:count]

    return handing, note


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
