"""Notices what staging does once, and a function that is not staged does each time.

Random numbers that are drawn of NumPy or Python, and loops that are written out step by step, are
looked for whenever a function is staged. While ``config.check_tracer_leaks`` is on, functions are
staged twice and compared, and traced values that outlive their program are errors.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import sleep
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from ..backends.restoring import listed
from ..primitives.core.array import Array
from ..primitives.core.bytecode import closed_over
from ..primitives.core.errors import EscapedTracerError, failure, function_line
from .program import Equation, Program, Variable
from .staged_tracers import StagedTracer
from .staging_warnings import warn, warn_once

__all__ = ["Look", "check_leaks", "check_same"]

# So many equations of one line are a loop that no user meant to write out.
UNROLLED = 5000
# The place of NumPy's global generator in its block of numbers, before anything was drawn.
UNDRAWN_POSITION = 623
# A function's helpers are searched for generators, and theirs, to this depth.
DEEPEST_HELPER = 3


class Looking(threading.local):
    """The looks that a thread is taking, outermost first."""

    def __init__(self) -> None:
        self.looks: list[Look] = []


looking = Looking()


class Look:
    """The random state while a function is staged."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self.told = False
        self._numpy = imported("numpy.random", "get_state") is not None
        self._states = [(name, read, read()) for name, read in sources(fun)]

    def taken(self) -> listed:
        """Returns a block within which the look is among those that are being taken."""
        return listed(looking.looks, self)

    def report(self, equations: Sequence[Equation]) -> None:
        """Warns of random numbers that were drawn since, and of a line with many equations."""
        moved = [name for name, read, before in self._states if read() != before]
        is_new = not self._numpy and imported("numpy.random", "get_state") is not None
        if is_new and global_state()[1:] != (UNDRAWN_POSITION, 0):
            moved.append("numpy.random")
        if moved and not self.told:
            for look in looking.looks:
                look.told = True
            warn_once(
                self.fun,
                "random",
                f"{moved[0]} was drawn from while {function_line(self.fun)} was staged: the "
                "numbers are constants of its program, the same in every call"
                + " (unless another thread drew them)"
                * bool(other_threads()),
                "draw with functensor.random of a key that is an argument, or outside of the "
                "function",
            )
        if len(equations) < UNROLLED:
            return
        ((line, count),) = Counter(equation.line for equation in equations).most_common(1)
        if count >= UNROLLED:
            warn_once(
                self.fun,
                "unrolled",
                f"{count:,} operations of {function_line(self.fun)} come from one line, {line}: "
                "a loop of Python's is written out step by step while it is staged, unless this is "
                "one long formula",
                "ft.fori_loop(0, n, body, start) or ft.scan(body, start, xs)",
            )


def other_threads() -> list[str]:
    """Returns the names of threads that are not the library's, nor this one."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    return [t.name for t in others if not t.name.startswith("functensor-")]


# -- random state


def global_state() -> tuple[bytes, int, int]:
    """Returns the state of NumPy's global generator, as far as drawing changes it."""
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    inner = state["state"]
    if "pos" not in inner:  # another bit generator was set
        return repr(state).encode(), 0, 0
    return inner["key"].tobytes(), inner["pos"], state["has_gauss"]


def sources(fun: Callable[..., Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields what numbers may be drawn of, by name, with a function that reads its state."""
    if imported("numpy.random", "get_state"):
        yield "numpy.random", global_state
    if read := imported("random", "getstate"):
        yield "Python's random", read
    for name, value in held_generators(fun, DEEPEST_HELPER, set()):
        yield f"the generator {name!r}", partial(state_of, value)


def state_of(generator: Any) -> Any:
    """Returns the state of a generator, as a value to compare."""
    bits = getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", None)
    return repr(bits.state) if bits is not None else generator.getstate()


def is_generator(x: Any) -> bool:
    """Says whether a value is a generator of NumPy's or Python's."""
    classes = (("numpy.random", "Generator"), ("numpy.random", "RandomState"), ("random", "Random"))
    return any(
        isinstance(x, kind) for names in classes if (kind := imported(*names)) is not None
    )


def imported(module: str, name: str) -> Any:
    """Returns what a module has by a name; None where another thread may still be importing it."""
    return getattr(sys.modules.get(module), name, None)


def held_generators(
    fun: Callable[..., Any], depth: int, seen: set[int]
) -> Iterator[tuple[str, Any]]:
    """Yields the generators that a function closes over or names, by their names."""
    while hasattr(fun, "__wrapped__") and not isinstance(fun, FunctionType):
        fun = fun.__wrapped__
    if isinstance(fun, partial):
        for value in (fun.func, *fun.args, *fun.keywords.values()):
            yield from _among([("", value)], depth, seen)
        return
    if isinstance(fun, MethodType):
        yield from _among(getattr(fun.__self__, "__dict__", {}).items(), depth, seen)
        fun = fun.__func__
    if not isinstance(fun, FunctionType) or id(fun) in seen:
        return
    seen.add(id(fun))
    yield from _among(closed_over(fun).items(), depth, seen)
    scope = fun.__globals__
    named = [(name, scope[name]) for name in names_in(fun.__code__) if name in scope]
    yield from _among(named, depth, seen)


def _among(named: Any, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    for name, value in named:
        if is_generator(value):
            if id(value) not in seen:
                seen.add(id(value))
                yield name, value
        elif depth and isinstance(value, FunctionType | MethodType | partial):
            yield from held_generators(value, depth - 1, seen)


def names_in(code: CodeType) -> set[str]:
    """Returns the names that a code uses, with those of the functions within."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_in(constant)
    return found


# -- what a debug switch looks for


def check_leaks(fun: Callable[..., Any], trace: Any) -> None:
    """Checks that no traced value of a program is alive once it is staged.

    Nobody but the trace and what leaked has its values any more.

    Raises:
        EscapedTracerError: one is.
    """
    trace.origins.forget()
    free_cycles()
    found = [x for x in gc.get_objects() if issubclass(type(x), StagedTracer) and x.owner is trace]
    if found:
        own = reached_ids([e.primitive for e in trace.equations], fun)
        found = [x for x in found if id(x) not in own]
    if not found:
        return
    lines = {v: e.line for e in trace.equations for v in e.outputs}
    line = lines.get(found[0].variable, "")
    where = f", made at {line}," if line else ", an argument,"
    raise failure(
        EscapedTracerError,
        f"a traced value {found[0].describe()}{where} outlived the staging of "
        f"{function_line(fun)}: it was stored in a list, an attribute or a global",
        fix="return the value, and store what a call returns",
    )


class Cycle:
    """An object that holds itself."""

    def __init__(self) -> None:
        self.itself = self


def free_cycles() -> None:
    """Frees what is only held by itself.

    While another thread does so, ``gc.collect`` returns at once, and does nothing.
    """
    made_now = ref(Cycle())
    while made_now() is not None:
        if not gc.collect():
            sleep(0.001)


def reached_ids(roots: Sequence[Any], fun: Callable[..., Any]) -> set[int]:
    """Returns the ids of what objects hold, other than through a function of the user's."""
    seen = {id(fun)}
    waiting = list(roots)
    while waiting:
        x = waiting.pop()
        if id(x) in seen or isinstance(x, type | ModuleType | CodeType):
            continue
        seen.add(id(x))
        # A function's globals are everybody's.
        waiting += x.__closure__ or () if isinstance(x, FunctionType) else gc.get_referents(x)
    return seen


def check_same(fun: Callable[..., Any], first: Program, second: Program) -> None:
    """Warns where a function that is staged twice does not do the same."""
    what = difference(first, second)
    if what:
        warn(
            f"{function_line(fun)} was staged twice and did not do the same: {what}",
            "compute of arguments alone; draw with functensor.random of a key, and pass what "
            "changes as an argument",
        )


def difference(first: Program, second: Program) -> str:
    """Returns the words for the first difference of two programs; empty where there is none."""
    numbers: dict[Variable, int] = {}
    others: dict[Variable, int] = {}
    if len(first.inputs) != len(second.inputs):
        return "it closes over other traced values the second time"
    for a, b in zip(first.inputs, second.inputs, strict=True):
        numbers[a] = others[b] = len(numbers)

    def same(a: Any, b: Any) -> bool:
        if type(a) is Variable and type(b) is Variable:
            return numbers.get(a) == others.get(b)
        if type(a) is not type(b):
            return False
        if isinstance(a, Array | np.ndarray):
            # A tracer of an outer transformation is no constant of this function's.
            if type(a) is not Array and isinstance(a, Array):
                return True
            x, y = np.asarray(a), np.asarray(b)
            return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
        return bool(a == b) or (a != a and b != b)

    for e, f in zip(first.equations, second.equations, strict=False):
        at = f" at {e.line}" if e.line else ""
        if e.primitive.name != f.primitive.name:
            return f"{e.primitive.name}{at} was {f.primitive.name} the second time"
        for a, b in zip(e.operands, f.operands, strict=False):
            if not same(a, b):
                return f"an operand of {e.primitive.name}{at} is not the same"
        if [x.type for x in e.outputs] != [x.type for x in f.outputs]:
            return f"{e.primitive.name}{at} gave other shapes or dtypes the second time"
        for a, b in zip(e.outputs, f.outputs, strict=False):
            numbers[a] = others[b] = len(numbers)
    if len(first.equations) != len(second.equations):
        return f"{len(first.equations)} operations and then {len(second.equations)}"
    if first.out_tree != second.out_tree:
        return f"it returned {first.out_tree} and then {second.out_tree}"
    if not all(map(same, first.outputs, second.outputs)):
        return "a result is another constant each time"
    return ""
