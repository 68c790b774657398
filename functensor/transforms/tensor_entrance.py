"""The place where transformations let tensors in, once the facade has entered its classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from numpy import ndarray

from .. import tree
from ..primitives.core.array import Array
from ..primitives.core.trace import RAW, slot

__all__ = ["entrance"]

# Classes of values that are no tensors and hold none.
LEAVES = frozenset({Array, ndarray, float, int, bool, complex, str, type(None)})


class Entrance:
    """The questions of transformations to the facade, which they do not import.

    Attributes:
        classes: the classes of tensors; none until the facade is imported.
        inside: those of them that are traced, within a transformation.
        alike: ``alike(kind)`` returns the classes that a tensor of a class may have meanwhile.
        lift: ``lift(fun, args, kwargs)`` calls a function on tensors as if these were traced.
        admitting: ``admitting(call, *args)`` calls what stages a function for tensors.
        faced: makes functions of traced values those of tensors.
        made, all_made: make a tensor of a buffer, and those of several.
        mode: has whether tensors record, as ``enabled``.
        casting: has the dtypes of products in mixed precision, ``cpu`` and ``cuda``, while it is
            ``active``; None until a block has set one.
        recorded: ``recorded(call, buffers, nodes)`` returns the outputs of a call of a program as
            tensors, whose graph goes on at the nodes of its operands.
    """

    __slots__ = (
        *("admitting", "alike", "all_made", "casting", "classes", "faced", "inside", "lift"),
        *("made", "mode", "recorded"),
    )

    def __init__(self) -> None:
        self.classes: Any = ()
        self.inside: Any = ()
        self.alike: Any = None
        self.lift: Any = None
        self.admitting: Any = None
        self.faced: Any = None
        self.made: Any = None
        self.all_made: Any = None
        self.mode: Any = None
        self.casting: Any = None
        self.recorded: Any = None

    def stands(self, kind: type) -> bool:
        """Says whether values of a class are tensors that hold buffers."""
        return issubclass(kind, self.classes) and not issubclass(kind, self.inside)

    def is_met(self, values: Any) -> bool:
        """Says whether a tree holds tensors that no transformation has let in."""
        trace = slot.trace
        while trace is not None:
            if trace is RAW or not trace.interceptor:
                return trace is RAW and trace is not slot.trace and self.has_tensors(values)
            trace = trace.parent
        return self.has_tensors(values)

    def has_tensors(self, values: Any) -> bool:
        """Says whether a tree holds tensors."""
        kind = type(values)
        if kind in LEAVES:
            return False
        if kind is tuple or kind is list:
            items = values
        elif kind is dict:
            items = values.values()
        elif isinstance(values, Array):
            return isinstance(values, self.classes)
        else:
            return any(isinstance(leaf, self.classes) for leaf in tree.leaves(values))
        for item in items:
            # Most are arrays, which need no call.
            if type(item) in LEAVES:
                continue
            if self.has_tensors(item):
                return True
        return False

    def with_function(self, fun: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
        """Calls what returns ``(output, function, ...)``; the function takes tensors too."""
        out, function, *rest = self.lift(fun, args, kwargs or {})
        return (out, self.opened(function), *rest)

    def opened(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that a transformation of tensors has made, for tensors."""

        def opened(*args: Any, **kwargs: Any) -> Any:
            trace = slot.trace
            if trace is None or trace.interceptor:
                return self.lift(function, args, kwargs)
            return function(*args, **kwargs)

        return update_wrapper(opened, function)


entrance = Entrance()
