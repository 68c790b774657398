"""Plans of machine code on the disk, which later processes take without scheduling anything.

A file has the text of a plan, the code that Python made of it, the values of its names, and the
names of the objects that its machine code is in. It is kept by a hash of the program that the plan
is made of, and of all else that the plan follows from. Loops and choices that it calls are pickled,
and the plan of a loop's steps is in a file of its own. Other calls, and constants, are those of the
process that takes the plan. A plan that holds what has no name or takes much room is not kept.

Where machine code fails, because an index in a loop is out of bounds, NumPy runs equations again.
A plan from the disk has none, and makes the plan anew for that.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_threads import controlled
from ....config import config
from ....generated_file import ToldEquation
from ....memory_search import called_apart
from ....native.blas import numpy_blas
from ....native.machine import kept_code, name_in_cache, rest
from ....native.object_cache import PLAN, user_cache
from ..codegen.called import unwrapped
from ..codegen.legend import value_text
from ..codegen.source import Source
from ..plan import CpuPlan, PlanParts
from ..threads.pool import threads
from .kernel_runs import enter_kernels
from .segment_run import EquationRun, SegmentRun, entered

if TYPE_CHECKING:
    from ....native.code import Code
    from ..annotations import EquationLike

__all__ = ["keep_plan", "kept_among", "kept_or_made", "kept_plan", "plan_key"]

# Raised when files of plans have other contents.
PLAN_FORMAT = 6
# A plan that takes more room, in bytes, is not kept.
LARGEST_PLAN = 1 << 22
# The packages whose functions and classes a file may name.
KNOWN_PACKAGES = frozenset({__name__.partition(".")[0], "numpy"})
KNOWN_BUILTINS = frozenset(
    {"Ellipsis", "bool", "complex", "float", "frozenset", "getattr", "int", "slice"}
)
KNOWN_FUNCTIONS = frozenset({("_operator", "getitem")})
# What is pickled by its name.
PICKLED_BY_NAME = FunctionType, type


class NotKept(Exception):
    """A plan holds what no other process can find again."""


def kept_or_made(tell: Callable[[], Any], make: Callable[[], Any]) -> Any:
    """Returns a plan from the disk, or makes it, and keeps it there.

    Args:
        tell: returns the text of its program, with what the program holds; or None.
        make: returns the plan; or None.
    """
    told = None if user_cache().folder is None else tell()
    if told is None:
        return make()
    key = plan_key(told.text)
    plan = kept_plan(key, told.held, make)
    if plan is None:
        plan = make()
        if plan is not None:
            keep_plan(key, plan, told.held)
    return plan


def kept_among(
    keys: Collection[str], tell: Callable[[], Any], make: Callable[[], Any]
) -> CpuPlan | None:
    """Returns a plan from the disk whose key is among some; None without.

    Args:
        keys: these.
        tell, make: as for `kept_or_made`.
    """
    told = tell()
    if told is None or (key := plan_key(told.text)) not in keys:
        return None
    return kept_plan(key, told.held, make)


def plan_key(told: str) -> str:
    """Returns what a plan is kept by.

    Args:
        told: the program, what its results may be written into, and the state of the library's
            files.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
    """
    blas = numpy_blas()
    facts = (
        *("plan", PLAN_FORMAT, sys.version, np.__version__),
        *(threads.number, controlled() is not None),
        *(blas and blas.bits, blas and sorted(blas.addresses)),
        *(config.numerics, config.check_programs),
    )
    return name_in_cache("\n".join([*map(repr, facts), told]))


# -- writing


class Pickler(pickle.Pickler):
    """Writes the parts of a plan.

    Arrays and calls of the program itself are named by their numbers, functions of primitives by
    these, and NumPy's own dtypes by their characters: pickle would copy them, and results whose
    dtype is not NumPy's object are compared with others at length.

    Args:
        file: where it writes.
        held: the constants of the program, and calls.
        equations: the equations of the plan, with None among them.
    """

    def __init__(
        self, file: io.BytesIO, held: Sequence[Any], equations: Sequence[EquationLike | None]
    ) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names: dict[int, Any] = {id(x): i for i, x in enumerate(held)}
        for equation in equations:
            primitive = None if equation is None else equation.primitive
            if primitive is not None and primitive.impl is not None:
                self._names[id(unwrapped(primitive.impl))] = primitive, False
                self._names[id(primitive.impl)] = primitive, True

    def persistent_id(self, found: Any) -> Any:
        if isinstance(found, np.dtype) and found is np.dtype(found.char):
            return found.char
        known = self._names.get(id(found))
        is_named = known is None and isinstance(found, PICKLED_BY_NAME)
        if is_named and not may_be_named(found.__module__, found.__qualname__):
            raise NotKept(f"{found.__qualname__} of {found.__module__}")
        return known


class Unpickler(pickle.Unpickler):
    """Reads such a file, which names nothing but what is known.

    Args:
        contents: those of the file.
        held: the constants of the program, and calls.
    """

    def __init__(self, contents: bytes, held: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(contents))
        self._held = held

    def persistent_load(self, name: Any) -> Any:
        if isinstance(name, int):
            return self._held[name]
        if isinstance(name, str):
            return np.dtype(name)
        primitive, is_whole = name
        return primitive.impl if is_whole else unwrapped(primitive.impl)

    def find_class(self, module: str, name: str) -> Any:
        if not may_be_named(module, name):
            raise pickle.UnpicklingError(f"{module}.{name} is in no plan")
        return super().find_class(module, name)


def may_be_named(module: str | None, name: str) -> bool:
    """Says whether a file may name a function or a class."""
    if module is None or module == "builtins":
        return name in KNOWN_BUILTINS
    return module.partition(".")[0] in KNOWN_PACKAGES or (module, name) in KNOWN_FUNCTIONS


def keep_plan(key: str, plan: CpuPlan, held: Sequence[Any]) -> None:
    """Writes a plan to the disk, if it can be written, for `kept_plan`.

    Args:
        key: what it is kept by, which the plan is told.
        plan: the plan.
        held: the constants of the program, and calls.
    """
    with suppress(NotKept, pickle.PicklingError, TypeError, AttributeError, ValueError):
        contents = file_contents(plan.parts, held)
        if len(contents) <= LARGEST_PLAN:
            user_cache().put(key, contents, PLAN)
            plan.key = key


def file_contents(parts: PlanParts, held: Sequence[Any]) -> bytes:
    """Returns the contents of the file of a plan.

    Raises:
        NotKept: it holds what no other process can find again.
    """
    if not all(run.native for run in parts.regions):
        raise NotKept("a part runs code that is not kept")
    if any(e.primitive.effect or e.primitive.collective for e in parts.called):
        raise NotKept("calls that others see")
    called = {id(e.primitive) for e in parts.called}
    own = {k: v for k, v in parts.calls.items() if id(getattr(v, "primitive", v)) in called}
    code = parts.code
    if isinstance(code, str) or any(isinstance(value, CodeType) for value in code.co_consts):
        raise NotKept("functions within the plan")
    base = Source().scope
    entered_later = dict.fromkeys(names_of_segments(parts))
    made_anew = {
        name: value_text(value)
        for name, value in parts.scope.items()
        if (name in parts.calls and name not in own) or isinstance(value, EquationRun)
    }
    entered_later |= dict.fromkeys(own)
    scope = {k: v for k, v in (parts.scope | entered_later).items() if k not in base}
    file = io.BytesIO()
    Pickler(file, held, parts.origins).dump({
        **parts._asdict(),
        "code": marshal.dumps(code),
        "origins": [*short_origins(parts.origins)],
        "scope": scope | made_anew,
        "calls": [*parts.calls],
        "own": {name: (call, isinstance(parts.scope[name], partial)) for name, call in own.items()},
        "made_anew": [*made_anew],
        "segments": parts.segments and (parts.segments[0].key, parts.segments[1]),
        "kernels": parts.kernels and (parts.kernels[0].key, parts.kernels[1]),
    })
    return file.getvalue()


def names_of_segments(parts: PlanParts) -> list[str]:
    """Returns the names of the functions of segments."""
    return [f"segment_{i}" for i in range(0 if parts.segments is None else len(parts.segments[1]))]


def short_origins(origins: Sequence[Any]) -> Iterator[ToldEquation | None]:
    """Yields what messages tell of equations."""
    known: dict[int, ToldEquation | None] = {id(None): None}
    for found in origins:
        if id(found) not in known:
            primitive = found.primitive
            has_bodies = (True,) if primitive.bodies else ()
            told = found.line, primitive.name, has_bodies, primitive.effect
            known[id(found)] = ToldEquation(*told)
        yield known[id(found)]


# -- reading


class MadeAnew:
    """A plan like one from the disk, which has the equations that the other one lacks.

    Args:
        make: makes the plan.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._plan: Any = None

    @property
    def parts(self) -> PlanParts:
        """Its parts; the plan is made when somebody asks.

        Raises:
            RuntimeError: nothing in it would be machine code any more.
        """
        if self._plan is None:
            self._plan = self._make()
        if self._plan is None:
            raise RuntimeError(
                "machine code has failed, and what it failed in cannot be made again: the settings "
                "that it was made by have changed"
            )
        return self._plan.parts  # type: ignore[no-any-return]


class CalledAnew:
    """Calls a function of a plan's scope that is in no file.

    Args:
        anew: the plan that has it.
        name: its name there.
        told: the text that a legend has of it.
    """

    def __init__(self, anew: MadeAnew, name: str, told: str) -> None:
        self._anew = anew
        self._name = name
        self._told = told

    def __call__(self, *given: Any) -> Any:
        return self._anew.parts.scope[self._name](*given)

    def __repr__(self) -> str:
        return self._told

    def sources(self) -> Mapping[str, str]:
        """Returns the texts of the plans that it runs."""
        return self._anew.parts.calls[self._name].sources()  # type: ignore[no-any-return]


def kept_plan(key: str, held: Sequence[Any], make: Callable[[], Any]) -> CpuPlan | None:
    """Returns a plan that an earlier process has made; None where there is none that fits.

    Args:
        key: what it is kept by.
        held: the constants of the program, and calls.
        make: makes it anew.
    """
    contents = user_cache().get(key, PLAN)
    # The file is the user's own, whole and of this version. All else is another fault of a cache.
    plan = None
    with suppress(Exception):
        plan = None if contents is None else plan_of_file(contents, held, make)
    if plan is not None:
        plan.key = key
    return plan


def plan_of_file(
    contents: bytes, held: Sequence[Any], make: Callable[[], Any]
) -> CpuPlan | None:
    """Returns the plan of a file; None where an object is missing."""
    state = Unpickler(contents, held).load()
    scope = Source().scope | state["scope"]
    anew = MadeAnew(make)
    scope |= {name: CalledAnew(anew, name, scope[name]) for name in state.pop("made_anew")}
    own = state.pop("own")
    for name, (call, apart) in own.items():
        compute = computing(call)
        scope[name] = partial(called_apart, compute) if apart else compute
    state["calls"] = {k: own[k][0] if k in own else scope[k] for k in state["calls"]}
    for part, enter in (("segments", entered), ("kernels", enter_kernels)):
        if state[part] is not None:
            key, runs = state[part]
            code = code_under(key, runs)
            if code is None:
                return None
            scope |= enter(code, runs)
            state[part] = code, runs
    rest()
    return CpuPlan(PlanParts(**state | {"scope": scope, "code": marshal.loads(state["code"])}))


def computing(call: Any) -> Callable[[list[Any]], list[Any]]:
    """Returns what computes the results of a loop or a choice, or runs the steps of a loop."""
    if hasattr(call, "by_machine_code"):
        return call  # type: ignore[no-any-return]
    if hasattr(call, "plan"):
        call.plan()  # before its first run
    return call.on_buffers  # type: ignore[no-any-return]


def code_under(key: str, runs: Sequence[Any]) -> Code | None:
    """Returns the code that segments or kernels are in; None where it is missing."""
    names = [run.function if isinstance(run, SegmentRun) else run.entry[0] for run in runs]
    return kept_code(key, list(dict.fromkeys(names)))
