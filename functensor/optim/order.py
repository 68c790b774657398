"""Gradients and parameters in Optax's order, which an update would take for each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..primitives.array import Array
from ..primitives.errors import user_line
from ..staged_values import StagedTracer

__all__ = ["Order"]


class Order:
    """Knows parameters by the arrays with which a state was begun, and gradients by who made them.

    An array that `init` saw is a parameter, and a value that ``grad`` returned to a program is
    none. All else may be either, so that some calls in the wrong order are not noticed.
    """

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def begin(self, leaves: Sequence[Any]) -> None:
        """Remembers parameters, as long as somebody holds them."""
        for leaf in leaves:
            if type(leaf) is Array or type(leaf) is np.ndarray:
                self._begun[id(leaf)] = leaf

    def _is_begun(self, x: Any) -> bool:
        return self._begun.get(id(x)) is x

    def check(self, name: str, step: Any, params: Sequence[Any], grads: Sequence[Any]) -> None:
        """Checks what an update was given.

        Raises:
            ValueError: the gradients come first.
        """
        first = params[0] if params else None
        if type(step) is int:
            if step or self._is_begun(first):
                return
            swapped = all(map(self._is_begun, grads)) and not any(map(self._is_begun, params))
        elif is_gradient(first):
            swapped = all(map(is_gradient, params)) and not any(map(is_gradient, grads))
        else:
            return
        if swapped and params:
            line = user_line()
            raise ValueError(
                f"{name}: update was given gradients in the place of parameters and parameters in "
                "that of gradients, which is Optax's order"
                + f"\n  at {line}" * bool(line)
                + "\n  fix: params, state = opt.update(params, state, grads), which returns the "
                "new parameters: nothing is to be applied"
            )


def is_gradient(x: Any) -> bool:
    """Says whether a traced value is what ``grad`` returned while a program was staged."""
    return isinstance(x, StagedTracer) and x.variable in x.owner.gradients
