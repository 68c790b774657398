"""Finds gradients in the place of parameters, where Optax has them, before an update mixes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..primitives.core.annotations import Value
from ..primitives.core.array import Array, Tracer
from ..primitives.core.errors import failure, user_line
from ..programs.staged_tracers import StagedTracer
from ..transforms.taken_gradients import TakenGradients, taken_gradients
from ..tree import containers as tree

__all__ = ["ArgumentOrder", "article", "checking_order", "wrong_state"]


class ArgumentOrder:
    """Knows parameters by who was given or made them, and gradients by who made them.

    An array that `init` saw, or that `update` returned as the first parameter, is a parameter. A
    value that ``grad`` returned to a program is none, and of an array and the gradient that was
    taken at it the gradient is none, also where ``jit`` stages a program for both. All else may be
    either, so that some calls in the wrong order are not noticed. Arrays are told by their
    identity, and none is kept alive.
    """

    __slots__ = ("_begun", "_made")

    def __init__(self) -> None:
        self._begun: WeakValueDictionary[int, Any] = WeakValueDictionary()
        # One leaf is enough to tell, and costs no time.
        self._made: WeakValueDictionary[int, Any] = WeakValueDictionary()
        TakenGradients.watched = True

    def begin(self, leaves: Sequence[Value]) -> None:
        """Remembers parameters, as long as somebody holds them."""
        for leaf in leaves:
            if type(leaf) is Array or type(leaf) is np.ndarray:
                self._begun[id(leaf)] = leaf

    def made(self, params: Sequence[Value | None]) -> None:
        """Remembers parameters that an update returned, as long as somebody holds them."""
        if params and type(params[0]) is Array:
            self._made[id(params[0])] = params[0]

    def _is_made(self, x: Any) -> bool:
        return self._made.get(id(x)) is x or self._is_begun(x)

    def _is_begun(self, x: Any) -> bool:
        return self._begun.get(id(x)) is x

    def checked_init(self, init: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns an optimizer's ``init`` that remembers the parameters."""

        def begun(params: Any) -> Any:
            self.begin(tree.leaves(params))
            return init(params)

        return begun

    def checked_update(
        self, name: str, update: Callable[[Any, Any, Any], Any]
    ) -> Callable[[Any, Any, Any], Any]:
        """Returns an optimizer's ``update`` that checks its arguments first."""

        def ordered(params: Any, state: Any, grads: Any) -> Any:
            step = getattr(state, "step", 0)
            known = step if isinstance(step, Tracer) else int(step)
            self.check(name, known, tree.leaves(params), tree.leaves(grads))
            after = update(params, state, grads)
            self.made(tree.leaves(after[0]))
            return after

        return ordered

    def check(
        self, name: str, step: float | Array, params: Sequence[Value], grads: Sequence[Value]
    ) -> None:
        """Checks what an update was given.

        Raises:
            ValueError: the gradients come first.
        """
        if not params or not grads:
            return
        first = params[0]
        if is_gradient(first):
            swapped = all(map(is_gradient, params)) and not any(map(is_gradient, grads))
        elif isinstance(first, StagedTracer):
            at, gradient = first.owner.given.get(first.variable, (None, None))
            found = at is not None and getattr(grads[0], "variable", None) is at
            swapped = found and not self._is_made(gradient())
        elif type(step) is int:
            if isinstance(first, Tracer) or first is grads[0] or self._is_made(first):
                return
            swapped = taken_gradients.is_pair(grads[0], first) or (
                self._is_made(grads[0])
                if step
                else all(map(self._is_begun, grads)) and not any(map(self._is_begun, params))
            )
        else:
            return
        if swapped:
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


def checking_order(
    name: str,
    init: Callable[..., Any],
    update: Callable[..., Any],
    state_type: Any = None,
) -> tuple[Any, Any]:
    """Returns an optimizer's functions, which check the order of arguments and the state."""
    order = ArgumentOrder()

    def checked(params: Any, state: Any, grads: Any) -> Any:
        if state_type is not None and type(state) is not state_type:
            raise wrong_state(name, state, state_type)
        return update(params, state, grads)

    return order.checked_init(init), order.checked_update(name, checked)


def wrong_state(name: str, state: Any, wanted: Any) -> TypeError:
    """Returns the error for a state that is another optimizer's, or none."""
    return failure(
        TypeError,
        f"{name}: the state is {article(type(state).__name__)}, not {article(wanted.__name__)}",
        fix="state = opt.init(params) is the first one, and update returns the next",
    )


def article(word: str) -> str:
    """Returns a word with its indefinite article."""
    return f"{'an' if word[0] in 'AEIOUaeiou' else 'a'} {word}"
