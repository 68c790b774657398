"""Modules that run as plans, which know what they read of the module."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from ..tensors import Tensor, no_grad
from .compiling import MOST_CHANGING_CALLS, CompiledFunction
from .given_values import called_with
from .module_contents import ModuleContents, PlanArguments
from .module_reads import Reads, attribute_picture, noting_reads, passed_on
from .nn.module_hooks import (
    BACKWARD_OF_ALL,
    BEFORE_ALL,
    BEFORE_BACKWARD_OF_ALL,
    BEHIND_ALL,
    WITH_KEYWORDS,
)
from .surroundings import Surroundings
from .watched_calls import MOST_STATES, objects_in
from .watched_values import NOTHING_THERE, ChangeCount, Picture

__all__ = ["ModulePlan", "compile_in_place"]

HOOKS_OF_ALL_MODULES = (
    *(BEFORE_ALL, BEHIND_ALL, WITH_KEYWORDS),
    *(BEFORE_BACKWARD_OF_ALL, BACKWARD_OF_ALL),
)


class ModuleChanged(BaseException):
    """A call of a module changed more than its tensors while it was staged, or several at once."""


class TensorsMoved(BaseException):
    """A plan is made of other tensors than its module has by now."""


class Calling(threading.local):
    """The tensors of a module that this thread calls its plan with; None if just found."""

    given: PlanArguments | None = None


class ModuleState:
    """The attributes that plans of a module read, as they were.

    Attributes:
        reads: which these are.
        look: their pictures.
    """

    __slots__ = ("look", "reads")

    def __init__(self) -> None:
        self.reads: Reads = {}
        self.look: dict[Any, Any] = {}

    def pictured(self, picture: Picture, parts: list[Any]) -> dict[Any, Any]:
        """Returns the pictures of the attributes as they are now."""
        for part in {id(x): x for x in (*parts, *(x for x, _ in self.reads.values()))}.values():
            for table in (vars(part), part._parameters, part._buffers, part._modules):
                picture.watch_table(table)
            picture.note_classes(type(part))
        of_all = [picture.of(x) for x in HOOKS_OF_ALL_MODULES]
        look: dict[Any, Any] = {"hooks of all modules": of_all}
        for key, (part, name) in self.reads.items():
            look[key] = attribute_picture(picture, part, name)
        look["what functions name"] = picture.of_named()
        return look


class ModulePlan:
    """The plan of a module's calls: a function of its parameters, buffers and arguments.

    What its calls read beside these are constants of a plan: attributes, hooks, and what methods
    and hooks close over. Another plan is made where one of them has changed.

    Args:
        module: the module.
        call: computes a call of it, of the arguments.
        whole: as for `CompiledFunction`.
    """

    def __init__(self, module: Any, call: Callable[..., Any], whole: bool) -> None:
        self._module = module
        self._call = call
        self._states: list[ModuleState] = []
        # The last state, with what it was recognised by, and the module's tensors.
        self._last: tuple[Picture, ModuleState, PlanArguments] | None = None
        self._count = ChangeCount()
        self._changing_calls = 0
        self._calling = Calling()
        self._plan = CompiledFunction(self._run, whole, type(module).__name__, watched=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._plan.runs_as_it_is():
            return self._call(*args, **kwargs)
        self._count.calls += 1
        last = self._last
        known = last is not None and last[0].is_as_it_was()
        if last is None or not known:
            last = self._found()
        _, state, given = last
        if self._plan.runs_as_it_is():
            return self._call(*args, **kwargs)
        values = given.parameters, given.buffers
        fault: BaseException | None = None
        self._calling.given = given if known else None
        try:
            out, written, assigned = self._plan(*values, state, args, kwargs)
        except TensorsMoved:
            self._last = None
            return self(*args, **kwargs)
        except ModuleChanged as error:
            fault = error
        passed_on(state.reads)
        if fault is not None:
            self._changing_calls += 1
            if self._changing_calls > MOST_CHANGING_CALLS:
                self._plan.give_up(fault)
            return self._call(*args, **kwargs)
        with no_grad():
            for name, value in written.items():
                given.buffers[name].copy_(value.detach())
        for name, value in assigned.items():
            table, key = given.places[name]
            table[key] = value
        return out

    def _found(self) -> tuple[Picture, ModuleState, PlanArguments]:
        """Returns the state that the module is in, which may be a new one."""
        given = PlanArguments(self._module)
        tensors = [id(x) for x in given.tensors()]
        other = None
        for state in self._states:
            picture = Picture(tensors, in_modules=False)
            look = state.pictured(picture, given.parts)
            if look == state.look:
                picture.keep()
                self._last = picture, state, given
                return self._last
            other = other or next(
                (state.reads[key] for key in state.reads if look[key] != state.look[key]), None
            )
        if self._states and self._count.changed():
            part, name = other or (self._module, "")
            what = f"{type(part).__name__}.{name}" if name else "what its methods and hooks read"
            what = f"{what} has changed again and again"
            self._plan.give_up(ModuleChanged(f"{what}, and each plan serves one value of it"))
        return Picture(), ModuleState(), given

    def _run(
        self, parameters: Any, buffers: Any, state: ModuleState, args: Any, kwargs: Any
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Returns a call's result, and what it writes to buffers and assigns to attributes."""
        given = PlanArguments(self._module)
        known = self._calling.given
        if known is not None and not given.are_those_of(known):
            # Some are in lists that no plan has read so far.
            raise TensorsMoved
        # What the module writes to its buffers is returned, and written by the caller.
        copies = {name: x.clone() for name, x in buffers.items()}
        assigned: dict[str, Any] = {}

        def call() -> Any:
            before = {name: table[key] for name, (table, key) in given.places.items()}
            contents = ModuleContents(given.parts)
            objects = [*objects_in(args), *objects_in(kwargs.values())]
            around = Surroundings([*functions_of(given.parts), *objects])
            try:
                out = noting_reads(state.reads, lambda: self._call(*args, **kwargs))
            finally:
                for name, (table, key) in given.places.items():
                    known = key in table if isinstance(table, dict) else key < len(table)
                    value = table[key] if known else NOTHING_THERE
                    if isinstance(value, Tensor) and value is not before[name]:
                        assigned[name] = value
                        table[key] = before[name]
                changed, changed_around = contents.restore(), around.restore()
            what = f"a call of {type(self._module).__name__} changes"
            if changed:
                raise ModuleChanged(f"{what} attributes that are no tensors")
            if changed_around:
                raise ModuleChanged(f"{what} values that are not in it")
            return out

        out = called_with(given.places, {**parameters, **copies}, call)
        written = {name: x for name, x in copies.items() if x._version}
        if (shared := given.memory_shared_with(written)) is not None:
            what = f"a call of {type(self._module).__name__} writes to {shared[0]}"
            raise ModuleChanged(f"{what}, whose memory {shared[1]} shares")
        picture = Picture([id(x) for x in given.tensors()], in_modules=False)
        state.look = state.pictured(picture, given.parts)
        if state not in self._states:
            self._states = [state, *self._states[: MOST_STATES - 1]]
        self._last = None
        return out, written, assigned


def functions_of(parts: list[Any]) -> list[Any]:
    """Returns the functions that may run in a call of modules, and the classes that have some."""
    found: list[Any] = [*HOOKS_OF_ALL_MODULES]
    for part in parts:
        own = vars(part)
        found += [type(part), own["_forward_hooks"], own["_forward_pre_hooks"]]
        for x in own.values():
            found.append(x if isinstance(x, (FunctionType, MethodType, partial)) else type(x))
    return found


def compile_in_place(module: Any, *, fullgraph: bool = False, disable: bool = False) -> None:
    """Has the calls of a module run as a plan, from here on; see `compile`."""
    plan = None if disable else ModulePlan(module, module._call_impl, fullgraph)
    vars(module)["_compiled_call_impl"] = plan
