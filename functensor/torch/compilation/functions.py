"""``torch.compile``: functions of tensors that run as plans."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable
from functools import update_wrapper
from operator import is_
from types import MethodType
from typing import Any

import numpy as np

from ...backends.errors.public_functions import complain
from ...functions.wrapping import pickled
from ...jitting.guard import UNLIKE, Guard
from ...jitting.jitted import jit
from ...jitting.signature import context_of
from ...jitting.staged_entry import StagedEntry
from ...jitting.switch import switch
from ...primitives.core.array import Array
from ...primitives.core.errors import function_name
from ...primitives.core.trace import below_hooks, is_staged, slot
from ...random.generator import default_generator, drawing_from
from ...tensors.default_dtypes import TENSOR_DTYPES
from ...tensors.grad_mode import mode
from ...tree import containers as tree
from ..given_values import replacing
from ..graph_breaks import UNSTAGED, SurroundingsChanged, compiling
from .changes import undone
from .looked_into import Same
from .pictures import Picture
from .results import taken_out, with_others
from .states import NoState, WatchedCalls, objects_in

__all__ = ["MOST_CHANGING_CALLS", "CompiledFunction"]

ARRAYS = Array, np.ndarray
# Stands for an array among the constants of a plan.
ARRAY_PLACE = object()
# A function tries so many guards, one after the other, and counts the calls of so many kinds.
MOST_GUARDS, MOST_KINDS = 4, 64
# So often a call may change what is beside it while it is staged, to fill what is filled once.
MOST_CHANGING_CALLS = 2


class CompiledFunction:
    """A jitted function of tensors: all other arguments are constants of a plan.

    So is what it closes over, the globals that it reads, and what is in objects among these: for
    other values another plan is made.
    What it draws comes from the default generator, by one key for each call.

    Args:
        fun: the function.
        whole: whether it is an error that it cannot be staged; otherwise it warns once, and runs
            as it is from then on.
        name: what the warning calls it.
        watched: whether what it reads beside its arguments may change; objects among these may.
    """

    def __init__(
        self, fun: Callable[..., Any], whole: bool = False, name: str = "", watched: bool = True
    ) -> None:
        update_wrapper(self, fun)
        self._fun = fun
        # Whether it draws, and whether others stand in results for what plans do not return.
        self._draws = self._others = False
        self._whole = whole
        self._name = name or function_name(fun)
        self._watched = WatchedCalls(fun) if watched else WatchedCalls()
        self._changing_calls = 0
        self._strict = whole and watched
        # Whether it was found that it cannot be staged.
        self._unstaged = False

        def with_arguments(arrays: list[Any], *, form: Any) -> Any:
            treedef, constants, *_ = form
            rest = iter(arrays)
            leaves = [next(rest) if c is ARRAY_PLACE else given_as(c) for c in constants]
            given = args, kwargs = treedef.unflatten(leaves)
            if watched:
                picture = Picture()
                picture.of([fun, *objects_in(args), *objects_in(kwargs.values())])
                picture.of_named()
                out = undone(picture, lambda: fun(*args, **kwargs))
            else:
                out = fun(*args, **kwargs)
            check_containers(given, leaves, treedef)
            return self._result(out, leaves)

        drawing = drawing_from(with_arguments, self._note)
        # Messages and programs have the function's name.
        drawing.__name__ = drawing.__qualname__ = function_name(fun)
        self._run = jit(drawing, static_argnames=("form",))
        # Each answers calls of one kind, under the choices that it was made under.
        self._guards: tuple[tuple[StagedEntry, Any, Guard], ...] = ()
        # How many calls of each kind no guard answered.
        self._missed: dict[StagedEntry, int] = {}

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return pickled(self, (CompiledFunction, (self._fun, self._whole), {}))

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        return self

    def _note(self) -> None:
        self._draws = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.runs_as_it_is():
            return self._fun(*args, **kwargs)
        state = self._state(args, kwargs)
        if self._unstaged:
            return self._fun(*args, **kwargs)
        plain = slot.trace is None and not switch.off
        if plain and self._guards:
            choices = choices_now(state)
            try:
                for _, known, guard in self._guards:
                    if known == choices and (out := guard(((args, kwargs),), {})) is not UNLIKE:
                        return self._with_others(out, args, kwargs) if self._others else out
            except Exception as error:
                complain(error, self._fun, f"compile({function_name(self._fun)})", args, kwargs)
                raise
        leaves, treedef = tree.flatten((args, kwargs))
        arrays = [x for x in leaves if isinstance(x, ARRAYS)]
        constants = tuple([ARRAY_PLACE if isinstance(x, ARRAYS) else hashed(x) for x in leaves])
        form = treedef, constants, *read_choices(), state
        drew = self._draws
        key = self._next_key()
        before, fault = compiling.staged, None
        try:
            compiling.staged = True
            # The jitted function has a lock too, and each thread is to take the two in one order.
            with replacing:
                out = self._run(key, arrays, form=form)
        except UNSTAGED as error:
            fault = error
        finally:
            compiling.staged = before
        if fault is not None:
            self._changing_calls += isinstance(fault, SurroundingsChanged)
            if not isinstance(fault, SurroundingsChanged) or self._is_changing():
                self.give_up(fault, nested=before)
            elif before:
                raise fault
            return self._fun(*args, **kwargs)
        if self._draws and not drew:
            # The call in which the function was found to draw has used up a key.
            with below_hooks():
                default_generator.next_key()
        if plain and slot.face is None:
            entry = self._run.entry_of(key, arrays, form=form)
            self._learn(entry, choices_now(state), args, kwargs)
        return self._with_others(out, args, kwargs) if self._others else out

    def _result(self, out: Any, given: list[Any]) -> Any:
        """Returns a result as a plan can return it, given the leaves of the arguments."""
        made, others = taken_out(out, given)
        self._others = self._others or others
        return made

    def _with_others(self, out: Any, args: Any, kwargs: Any) -> Any:
        return with_others(out, tree.leaves((args, kwargs)))

    def runs_as_it_is(self) -> bool:
        """Says that it makes no plans: it cannot be staged, or `set_stance` said so."""
        return self._unstaged or compiling.eager

    def give_up(self, fault: BaseException, nested: bool = False) -> None:
        """Runs the function as it is from here on, with a warning; or raises the fault.

        Within another staged function the fault may be that one's.
        """
        said = str(fault)
        if self._whole:
            raise fault if isinstance(fault, Exception) else RuntimeError(said)
        if is_staged():
            if nested:
                raise fault
            return
        self._unstaged = True
        text = "\n".join([
            f"torch.compile: {self._name} runs as it is, without a plan:",
            textwrap.indent(said, "    "),
            "  torch.compile(..., fullgraph=True) makes this an error",
        ])  # fmt: skip
        warnings.warn(text, stacklevel=3)

    def _is_changing(self) -> bool:
        """Says whether more calls changed what is beside it than may fill what is filled once."""
        return self._strict or self._changing_calls > MOST_CHANGING_CALLS

    def _state(self, args: Any, kwargs: Any) -> object:
        """Returns what stands for the values that the function reads beside arrays."""
        try:
            return self._watched.state(args, kwargs)
        except NoState as error:
            self.give_up(RuntimeError(str(error)))
            return None

    def _learn(self, kind: StagedEntry | None, choices: Any, args: Any, kwargs: Any) -> None:
        """Makes the guard of a kind by the second call of it, for calls like it.

        Where it gives calls of its kind up, it is made anew after 4, 8, 16 of these and so on.
        """
        if kind is None:
            return
        if kind not in self._missed and len(self._missed) >= MOST_KINDS:
            self._missed.clear()
        missed = self._missed[kind] = self._missed.get(kind, 0) + 1
        if missed > 1 and not missed & (missed - 1):
            made = kind, choices, kind.guard_behind(self._next_key, (args, kwargs))
            others = [known for known in self._guards if known[0] is not kind]
            self._guards = (made, *others)[:MOST_GUARDS]

    def _next_key(self) -> Any:
        """Returns the key of a call, of which hooks see nothing.

        It counts as drawn where the function draws.
        """
        if slot.trace is not None:
            with below_hooks():
                return self._drawn_key()
        return self._drawn_key()

    def _drawn_key(self) -> Any:
        return default_generator.next_key() if self._draws else default_generator.upcoming_key()


def read_choices() -> tuple[bool, Any]:
    """Returns the choices that a function of tensors may read: whether they record, their dtype."""
    return mode.enabled, TENSOR_DTYPES["f"]


def choices_now(state: object) -> Any:
    """Returns all choices that a plan depends on."""
    return context_of(), read_choices(), state


def check_containers(given: Any, leaves: list[Any], treedef: Any) -> None:
    """Ends the staging of a call that has changed containers among its arguments, which are copies.

    Raises:
        SurroundingsChanged: it has.
    """
    now, form = tree.flatten(given)
    if form != treedef or not all(map(is_, now, leaves)):
        raise SurroundingsChanged("it changes containers among its arguments")


def hashed(constant: Any) -> Any:
    """Returns a constant, or what stands for one that has no hash."""
    try:
        hash(constant)
    except TypeError:
        return Same(constant)
    return constant


def given_as(constant: Any) -> Any:
    """Returns the constant that something stands for."""
    return constant.value if type(constant) is Same else constant
