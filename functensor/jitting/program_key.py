"""The text that tells a staged program from all others, so that its plan is found on the disk.

The text has all that a plan follows from: types, parameters, constants, and the lines of the user
that a plan shows, with those of the bodies of loops and choices. Calls that plans have the
equations of are told by these. Of other calls, plans know no more than that they are made: they are
told by their numbers, and a plan from the disk makes those of its own process. A program with calls
that others see has no text, and neither has one with a primitive or a parameter from outside of the
library.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import backends, passes, primitives, programs
from ..backends.import_time import IMPORTED
from ..passes.inline_calls import inlined
from ..primitives.core.array import Array
from ..primitives.core.index_key import IndexKey
from ..primitives.core.primitive import Primitive
from ..programs.program import Variable

if TYPE_CHECKING:
    from ..programs.program import Program

__all__ = ["ToldProgram", "library_state", "told_program"]

LIBRARY = __name__.partition(".")[0]
# More constants, in bytes, take long to be compared.
MOST_CONSTANTS = 1 << 23
# The folder of loops and choices, which imports this one.
CONTROL = os.path.join(os.path.dirname(os.path.dirname(__file__)), "control")
# Folders of which no plan over NumPy follows.
OTHER_FOLDERS = frozenset({"__pycache__", "cuda"})
OTHER_LIBRARIES = "scipy", "ml_dtypes"
# What passes and plans may ask of a call that has no program.
CALL_FACTS = (
    "name", "told_as", "family", "constant", "broadcasts", "creates", "fused", "trips", "chooses",
    "device", "dissolves", "each_time",
)  # fmt: skip
PLAIN_TYPES = frozenset({bool, bytes, complex, float, int, str, type(None), type(...)})


class ToldProgram(NamedTuple):
    """A program as a text.

    Attributes:
        text: what no other program has.
        held: its constants, and the calls that are told by their numbers, in order.
    """

    text: str
    held: list[Any]


class Untold(Exception):
    """A program has a part that no text tells."""


def told_program(program: Program, donated: Sequence[int]) -> ToldProgram | None:
    """Returns a program as a text; None where there is none.

    Args:
        program: as it was staged.
        donated: the numbers of the inputs whose memory results may take.
    """
    state = library_state()
    if state is None:
        return None
    try:
        return Teller().told(program, f"{state} {tuple(donated)}")
    except Untold:
        return None


class Teller:
    """Writes the text of a program."""

    def __init__(self) -> None:
        self.numbers: dict[Variable, int] = {}
        self.held: list[Any] = []
        # The numbers of bodies that stand in the text already.
        self.bodies: dict[Program, int] = {}
        # The texts of constants and of calls, by identity.
        self.known: dict[int, str] = {}
        self.dtypes: dict[Any, str] = {}
        self.size = 0

    def told(self, program: Program, begin: str) -> ToldProgram:
        return ToldProgram("\n".join([begin, *self.lines(program)]), self.held)

    def lines(self, program: Program) -> list[str]:
        """Returns the lines of a program; those of bodies stand before their equations."""
        program = inlined(program)
        lines = [repr(program.name)]
        # Variables of an old pickle have no strides.
        inputs = [
            f"{self.new(x)} {x.order} {getattr(x, 'strides', None)}" for x in program.inputs
        ]
        lines.append(", ".join(inputs))
        for equation in program.equations:
            primitive = equation.primitive
            for body in primitive.bodies:
                lines += self.body(body)
            params = [f"{key}={self.value(value)}" for key, value in equation.params.items()]
            operands = [self.operand(x) for x in equation.operands]
            made = [self.new(x) for x in equation.outputs]
            # Names of scopes and of files may have any characters.
            place = repr((equation.line, equation.scope))
            lines.append("\t".join([self.name(primitive), *operands, *params, *made, place]))
        lines.append(", ".join(map(self.operand, program.outputs)))
        return lines

    def body(self, program: Program) -> list[str]:
        """Returns the lines of a body, whose variables have numbers of their own, at first."""
        if program in self.bodies:
            return []
        outer, self.numbers = self.numbers, {}
        lines = self.lines(program)
        self.numbers = outer
        number = self.bodies[program] = len(self.bodies)
        return [f"body {number}", *lines, "end"]

    def name(self, primitive: Any) -> str:
        """Returns the text of a primitive, or of a loop or a choice, whose bodies are told."""
        if isinstance(primitive, Primitive):
            if primitive.module.partition(".")[0] != LIBRARY:
                raise Untold(primitive.name)
            return primitive.name
        kind, facts = type(primitive), primitive.plain_facts()
        if kind.__module__.partition(".")[0] != LIBRARY:
            raise Untold(primitive.name)
        if facts is None:
            return self.call(primitive)
        bodies = [self.bodies[body] for body in primitive.bodies]
        about = primitive.name, primitive.told_as, primitive.effect, primitive.collective
        return f"{kind.__qualname__} {about!r} {bodies} {self.value(facts)}"

    def call(self, call: Any) -> str:
        """Returns the text of a call that plans look into no further: a number, and what it says.

        No pass leaves out one of two calls, or computes one ahead.
        """
        if call.bodies or call.program is not None or call.effect or call.collective:
            raise Untold(call.name)
        found = self.known.get(id(call))
        if found is None:
            about = tuple([getattr(call, name) for name in CALL_FACTS])
            number, kind = len(self.held), type(call).__qualname__
            found = self.known[id(call)] = f"call {number} {kind}{self.value(about)}"
            self.held.append(call)
        return found

    def new(self, x: Variable) -> str:
        """Returns the text of a variable's type, and gives it a number."""
        self.numbers[x] = len(self.numbers)
        known = x.type
        weak = known.weak.__name__ if known.weak else ""
        return f"{self.dtype(known.dtype)}{known.shape}{weak}@{x.device}"

    def dtype(self, dtype: Any) -> str:
        found = self.dtypes.get(dtype)
        if found is None:
            found = self.dtypes[dtype] = repr(dtype)
        return found

    def operand(self, x: Any) -> str:
        if type(x) is Variable:
            return f"%{self.numbers[x]}"
        if type(x) is not Array:
            return self.value(x)
        data: Any = x._data
        return f"array {self.value(data)}" if isinstance(data, np.generic) else self.array(data)

    def value(self, x: Any) -> str:
        """Returns the text of a parameter or a constant."""
        kind = type(x)
        if kind in PLAIN_TYPES:
            # NaNs are written alike, whatever their signs.
            bits = b"" if x == x else np.array(x).tobytes()
            return f"{kind.__name__} {x!r}{bits!r}"
        if isinstance(x, tuple):
            return f"{kind.__name__}({','.join(map(self.value, x))})"
        if kind is slice:
            return f"slice{self.value((x.start, x.stop, x.step))}"
        if kind is IndexKey:
            return f"key{x.arrays}{self.value(x.native)}"
        if isinstance(x, np.dtype):
            return self.dtype(x)
        if isinstance(x, np.generic):
            return f"{self.dtype(x.dtype)} {x.tobytes()!r}"
        if kind is np.ndarray:
            return self.array(x)
        if kind is type and x in (bool, int, float, complex):
            return str(x.__name__)
        raise Untold(kind.__name__)

    def array(self, x: Any) -> str:
        """Returns the text of a constant array: a number, how it lies, and a hash of its bytes."""
        found = self.known.get(id(x))
        if found is None:
            self.size += x.nbytes
            if type(x) is not np.ndarray or x.dtype.hasobject or self.size > MOST_CONSTANTS:
                raise Untold("a constant")
            digest = sha256(x.tobytes()).hexdigest()
            number, how = len(self.held), (x.shape, x.strides, x.flags.writeable)
            found = self.known[id(x)] = f"array {number} {self.dtype(x.dtype)}{how} {digest}"
            self.held.append(x)
        return found


@cache
def library_state() -> str | None:
    """Returns a hash of the files that plans follow from.

    None where the library has none, or they are younger than what this process has imported of
    them: other processes would take its plans for those of the new files.
    """
    found = sha256()
    count = 0
    packages = [package.__path__ for package in (backends, passes, primitives, programs)]
    folders = *[folder for path in packages for folder in path], os.path.dirname(__file__), CONTROL
    for folder in folders:
        for path, facts in files_of(folder):
            if max(facts.st_mtime_ns, facts.st_ctime_ns) >= IMPORTED:
                return None
            found.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
            count += 1
    # Constants are folded by their functions.
    for name in OTHER_LIBRARIES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            found.update(f"{spec.origin} {os.stat(spec.origin).st_mtime_ns}\n".encode())
    return found.hexdigest() if count else None


def files_of(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the paths and the facts of all files of Python in a folder, in order."""
    try:
        with os.scandir(folder) as entries:
            known = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in known:
        # The mark of an editor that has a file open leads nowhere.
        if entry.name.endswith(".py") and entry.is_file():
            yield entry.path, entry.stat()
        elif entry.name not in OTHER_FOLDERS and entry.is_dir():
            yield from files_of(entry.path)
