"""Modules that run as plans, which know what they read of the module."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ...primitives.core.trace import is_staged
from ...tensors import Tensor, no_grad
from ..given_values import Places, argument_places, called_with, replacing
from ..graph_breaks import GraphBreak, SurroundingsChanged
from ..nn.module_hooks import (
    BACKWARD_OF_ALL,
    BEFORE_ALL,
    BEFORE_BACKWARD_OF_ALL,
    BEHIND_ALL,
    WITH_KEYWORDS,
)
from .changes import undone
from .functions import CompiledFunction
from .looked_into import MODULE_TABLES, NOTHING_THERE
from .module_reads import Reads, attribute_picture, noting_reads, passed_on
from .pictures import Picture
from .results import in_places_of
from .states import MOST_STATES, ChangeCount, objects_in

__all__ = ["ModulePlan", "compile_in_place"]

HOOKS_OF_ALL_MODULES = (
    *(BEFORE_ALL, BEHIND_ALL, WITH_KEYWORDS),
    *(BEFORE_BACKWARD_OF_ALL, BACKWARD_OF_ALL),
)
# Lists and dictionaries of tensors are arguments of plans so deep in others.
DEEPEST = 32


class NotStaged(BaseException):
    """A module is to run as it is, which its plan does not do."""


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
        writes: whether its plans write to tensors of the module; None while there is no plan.
    """

    __slots__ = ("look", "reads", "writes")

    def __init__(self) -> None:
        self.reads: Reads = {}
        self.look: dict[Any, Any] = {}
        self.writes: bool | None = None

    def pictured(self, picture: Picture, parts: list[Any]) -> dict[Any, Any]:
        """Returns the pictures of the attributes as they are now."""
        for part in {id(x): x for x in (*parts, *(x for x, _ in self.reads.values()))}.values():
            picture.tables += [vars(part), part._parameters, part._buffers, part._modules]
            picture.note_classes(type(part))
        look: dict[Any, Any] = {"hooks of all modules": picture.of(HOOKS_OF_ALL_MODULES)}
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
        self._calling = Calling()
        self._plan = CompiledFunction(self._run, whole, type(module).__name__, watched=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._plan.runs_as_it_is():
            return self._call(*args, **kwargs)
        self._count.calls += 1
        last = self._last
        try:
            if last is not None and last[1].writes is False and last[0].is_as_it_was():
                return self._answer(last, last[2], args, kwargs)
            # No other thread writes to the module's tensors, or puts others in their places.
            with replacing:
                last = self._last
                if last is not None and last[0].is_as_it_was():
                    return self._answer(last, last[2], args, kwargs)
                return self._answer(self._found(), None, args, kwargs)
        except NotStaged:
            return self._call(*args, **kwargs)
        except TensorsMoved:
            self._last = None
            return self(*args, **kwargs)

    def _answer(
        self,
        last: tuple[Picture, ModuleState, PlanArguments],
        known: PlanArguments | None,
        args: Any,
        kwargs: Any,
    ) -> Any:
        """Returns the result of a call by a plan for a state, and writes what it has written."""
        if self._plan.runs_as_it_is():
            raise NotStaged
        _, state, given = last
        self._calling.given = known
        try:
            out, written, assigned = self._plan(
                given.parameters, given.buffers, state, args, kwargs
            )
        finally:
            passed_on(state.reads)
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
            self._plan.give_up(GraphBreak(f"{what}, and each plan serves one value of it"))
        return Picture(), ModuleState(), given

    def _run(
        self, parameters: Any, buffers: Any, state: ModuleState, args: Any, kwargs: Any
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Returns a call's result, and what it writes to buffers and assigns to attributes."""
        if not is_staged():
            raise NotStaged
        given = PlanArguments(self._module)
        known = self._calling.given
        if known is not None and not given.are_those_of(known):
            # Some are in lists that no plan has read so far.
            raise TensorsMoved
        # What the module writes to its buffers is returned, and written by the caller.
        copies = {name: x.clone() for name, x in buffers.items()}
        assigned: dict[str, Any] = {}

        def call() -> Any:
            picture = Picture()
            objects = [*objects_in(args), *objects_in(kwargs.values())]
            picture.of([self._module, HOOKS_OF_ALL_MODULES, objects])
            picture.of_named()
            # Those of modules that are read by other names are noted.
            check_seen(picture, named=True)
            values = {name: table[key] for name, (table, key) in given.places.items()}

            def noted() -> Any:
                try:
                    return noting_reads(state.reads, lambda: self._call(*args, **kwargs))
                finally:
                    for name, (table, key) in given.places.items():
                        known = key in table if isinstance(table, dict) else key < len(table)
                        value = table[key] if known else NOTHING_THERE
                        if isinstance(value, Tensor) and value is not values[name]:
                            assigned[name] = value
                            table[key] = values[name]

            return undone(picture, noted)

        out = called_with(given.places, {**parameters, **copies}, call)
        written = {name: x for name, x in copies.items() if x._version}
        if (shared := given.memory_shared_with(written)) is not None:
            what = f"a call of {type(self._module).__name__} writes to {shared[0]}"
            raise SurroundingsChanged(f"{what}, whose memory {shared[1]} shares")
        picture = Picture([id(x) for x in given.tensors()], in_modules=False)
        state.look = state.pictured(picture, given.parts)
        check_seen(picture)
        state.writes = bool(state.writes or written or assigned)
        if state not in self._states:
            self._states = [state, *self._states[: MOST_STATES - 1]]
        self._last = None
        # The buffers themselves are returned and assigned, to which is written what they have.
        own = [(x, buffers[name]) for name, x in copies.items()]
        out, assigned = in_places_of((out, assigned), own)
        return out, written, assigned


def check_seen(picture: Picture, named: bool = False) -> None:
    """Ends the staging of a call that may read what cannot be compared.

    Raises:
        GraphBreak: it may.
    """
    if fault := picture.unseen(named):
        raise GraphBreak(fault)


class PlanArguments:
    """The tensors of a module that a plan takes as arguments.

    Attributes:
        parts: all modules in it.
        places: where they are, by their names.
        parameters: those that require gradients.
        buffers: all others, in attributes, and in lists and dictionaries that attributes are.
    """

    __slots__ = ("buffers", "parameters", "parts", "places")

    def __init__(self, module: Any) -> None:
        self.parts: list[Any] = list(module.modules())
        self.places: Places = argument_places(module)
        self.parameters = dict(module.named_parameters())
        self.buffers = dict(module.named_buffers())
        known = {id(x) for x in self.tensors()}
        met: set[int] = set()
        for path, part in module.named_modules():
            plain = {name: x for name, x in vars(part).items() if name not in MODULE_TABLES}
            for name, table, key in attribute_tensors(path, vars(part), plain, met):
                self.places[name] = table, key
                if id(table[key]) not in known:
                    known.add(id(table[key]))
                    self.buffers[name] = table[key]

    def tensors(self) -> list[Any]:
        """Returns all of them."""
        return [*self.parameters.values(), *self.buffers.values()]

    def are_those_of(self, other: PlanArguments) -> bool:
        """Says whether they are the same tensors as others, under the same names."""
        if len(self.tensors()) != len(other.tensors()):
            return False
        pairs = (self.parameters, other.parameters), (self.buffers, other.buffers)
        return all(then.get(name) is x for now, then in pairs for name, x in now.items())

    def memory_shared_with(self, names: Iterable[str]) -> tuple[str, str] | None:
        """Returns the names of a buffer among some, and of a tensor in its memory; None without."""
        arrays = {n: x._data for n, x in (*self.parameters.items(), *self.buffers.items())}
        arrays = {n: x for n, x in arrays.items() if type(x) is np.ndarray}
        for name in names:
            for other, array in arrays.items():
                if other != name and name in arrays and np.may_share_memory(array, arrays[name]):
                    return name, other
        return None


def attribute_tensors(
    path: str, table: Any, values: dict[Any, Any], met: set[int], depth: int = 0
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the names and places of tensors among values, and in lists and dictionaries of these.

    Args:
        path: what the names begin with.
        table: the dictionary or the list that has the values.
        values: the values by their keys or numbers there.
        met: the ids of lists and dictionaries that were looked at.
        depth: in how many others the table is.
    """
    if depth > DEEPEST:
        return
    for key, x in values.items():
        name = f"{path}.{key}" if path else str(key)
        if issubclass(type(x), Tensor):
            yield name, table, key
        elif type(x) in (list, dict) and id(x) not in met:
            met.add(id(x))
            inner = x if type(x) is dict else dict(enumerate(x))
            yield from attribute_tensors(name, x, inner, met, depth + 1)


def compile_in_place(module: Any, *, fullgraph: bool = False, disable: bool = False) -> None:
    """Has the calls of a module run as a plan, from here on; see `compile`."""
    plan = None if disable else ModulePlan(module, module._call_impl, fullgraph)
    vars(module)["_compiled_call_impl"] = plan
