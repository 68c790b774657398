"""Guards: generated functions that answer a call in microseconds if it is like an earlier one.

A guard takes the arguments apart as those of the earlier call were, without asking for the kind of
their trees. It runs the plan of that call and puts the result together in the same way. If anything
differs, the guard gives up before it has run anything, and ``jitted.py`` finds the difference.
``guard_source`` shows the text of a guard and the values of its constants.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import call, is_, itemgetter
from typing import Any
from weakref import ref

from numpy import ndarray

from ..backends.devices import backend_of, device_of
from ..backends.errors.words import described
from ..backends.known_buffers import KnownBuffers, SameBuffers
from ..primitives.core.array import Array
from ..primitives.core.array_slots import array_slots
from ..primitives.core.buffers import DEVICE_TYPES, WEAK_TYPES, all_wrapped, owned, wrap
from ..primitives.core.python_numbers import BASES
from ..transforms.taken_gradients import taken_gradients
from ..transforms.tensor_entrance import entrance
from ..tree import containers as tree
from ..tree.containers import is_named
from .known_leaves import KnownLeaves, is_on_device, is_row_of_arrays, lines_of_comparison
from .signature import exact

__all__ = ["LARGEST_TRACED_INTEGER", "UNLIKE", "Guard", "guard", "guard_source", "unguarded"]

# Integers are traced from minus this less 1 up to this.
LARGEST_TRACED_INTEGER = 2**63 - 1
# Python builds a dict of more keys piece by piece. A copy of one with these keys is made at once.
MOST_DISPLAYED_KEYS = 16
# Python's parser nests sums, and takes them only so deep.
MOST_LENGTHS_OF_A_SUM = 32
# Guards of larger trees take longer to compile than they spare in many calls.
MOST_GUARDED_LEAVES = 4096
# Variables are named by the path to their part of a tree; longer names become numbers.
LONGEST_PATH_NAME = 40

# A guard that gives up returns this.
UNLIKE: Any = object()

# The global names of all guards. Messages know by the module's name that frames are not the user's.
OWN_NAMES: dict[str, Any] = {
    "__name__": __name__, "Array": Array, "SameBuffers": SameBuffers, "KnownBuffers": KnownBuffers,
    "UNLIKE": UNLIKE, "ndarray": ndarray,
    "call": call, "device_of": device_of, "exact": exact, "is_": is_, "owned": owned, "ref": ref,
    "slots": array_slots, "taken_gradients": taken_gradients, "types": DEVICE_TYPES, "wrap": wrap,
}  # fmt: skip

# A guard takes a call's arguments and returns its result.
Guard = Callable[[tuple[Any, ...], dict[str, Any]], Any]
# A run takes leaves and their buffers, and returns the buffers of the result's computed leaves.
Run = Callable[[list[Any], list[Any]], list[Any]]
# A recording takes buffers and nodes, and returns all leaves of the result as tensors with a graph.
RecordedRun = Callable[[list[Any], tuple[Any, ...]], list[Any]]


class _Unguarded(Exception):
    """An argument is of a kind that guards do not take apart."""


class _Writer:
    """Writes a guard's source.

    Args:
        constants: whether all leaves but arrays have to be the same objects.
        donated: the numbers of the leaves that are donated.

    Attributes:
        lines: the lines that take the arguments apart, or put the result together.
        names: the values of global names.
        leaves: the variables that hold the leaves, in order.
        buffers: the expressions of their buffers.
        alike: the variables of leaves, by the condition that a leaf ``x`` is not of their kind.
        dicts: the variables of dicts with all keys of their examples, and how many these are.
        outs: the variables that hold the computed leaves.
        tensors: whether a leaf is a tensor, so that the results are.
        nodes: the expressions of the leaves' nodes in the graph of tensors.
        on_host: the expressions of the buffers that are on the host.
        there: the leaves that are arrays on devices.
    """

    def __init__(self, constants: bool = False, donated: Sequence[int] = ()) -> None:
        self.constants = constants
        self.names: dict[str, Any] = dict(OWN_NAMES)
        self.lines: list[str] = []
        self.leaves: list[str] = []
        self.buffers: list[str] = []
        self.alike: dict[str, list[str]] = {}
        self._dtypes: dict[Any, str] = {}
        self.outs: list[str] = []
        self.dicts: list[tuple[str, int]] = []
        self.tensors = False
        self.nodes: list[str] = []
        self.on_host: list[str] = []
        self.there = KnownLeaves()
        self._donated = donated
        self._owned: dict[int, str] = {}
        self._locals: set[str] = set()

    def bind(self, value: Any, kind: str) -> str:
        """Returns a global name for a constant: its kind, with an underscore and a number."""
        name = f"{kind}_"
        if self.names.get(name, value) is not value:
            name += str(len(self.names))
        self.names[name] = value
        return name

    def literal(self, key: Hashable) -> str:
        """Returns an expression for a key: the key itself, if it is a string."""
        return repr(key) if type(key) is str else self.bind(key, "key")

    def local(self, name: str = "") -> str:
        """Returns a name for a local variable: the given one, if it is free and short."""
        if not name or name in self._locals or len(name) > LONGEST_PATH_NAME:
            name = f"v{len(self._locals)}"
        self._locals.add(name)
        return name

    def require(self, condition: str) -> None:
        """Writes a condition without which the guard gives up."""
        self.lines.append(f"if not ({condition}): return UNLIKE")

    # -- arguments

    def visit(self, name: str, value: Any) -> None:
        """Writes lines that take the tree in a variable apart, like an example."""
        kind = type(value)
        number = kind in WEAK_TYPES and kind not in BASES
        if kind is Array or kind is ndarray or (number and not self.constants):
            self.leaf(name, value)
        elif entrance.stands(kind):
            self.leaf(name, value)
            self.tensors = True
        elif value is None:
            self.require(f"{name} is None")
        elif kind is dict:
            self.mapping(name, value)
        elif kind in (list, tuple) or (is_named(kind) and kind.__iter__ is tuple.__iter__):
            self.require(f"type({name}) is {self.kind(kind)}")
            self.unpack(name, value)
        elif self.constants and not isinstance(value, (Array, ndarray)) and is_leaf(value):
            self.argument(name, value, True)
        else:
            raise _Unguarded

    def row(self, items: str, values: Sequence[Any]) -> None:
        """Writes lines that take arrays on devices all at once, given an expression of a list."""
        name = self.local()
        self.lines.append(f"{name} = {items}")
        self.require(f"len({name}) == {len(values)}")
        names = [f"{name}[{i}]" for i in range(len(values))]
        self.there.rows[names[0]] = name, names
        for part, value in zip(names, values, strict=True):
            self.leaf(part, value)

    def kind(self, kind: type) -> str:
        """Returns an expression for a class."""
        return kind.__name__ if kind in (list, tuple) else self.bind(kind, "class")

    def unpack(self, name: str, value: Sequence[Any]) -> None:
        """Writes lines that take a sequence apart; a ValueError tells of another length."""
        if is_row_of_arrays(value, DEVICE_TYPES):
            self.row(f"[*{name}]", value)
            return
        inner = [self.local(f"{name}_{i}") for i in range(len(value))]
        self.lines.append(f"{as_tuple(inner)} = {name}")
        for part, child in zip(inner, value, strict=True):
            self.visit(part, child)

    def mapping(self, name: str, value: dict[Any, Any]) -> None:
        """Writes lines that take a dict apart; trees have its leaves in the order of its keys."""
        try:
            keys = sorted(value)
        except TypeError:
            keys = [*value]
            self.require(f"type({name}) is dict and [*{name}] == {self.bind(keys, 'keys')}")
        else:
            self.require(f"type({name}) is dict")
            self.dicts.append((name, len(keys)))
        values = [value[key] for key in keys]
        if is_row_of_arrays(values, DEVICE_TYPES):
            self.row(f"[*{self.bind(itemgetter(*keys), 'items')}({name})]", values)
            return
        for key in keys:
            is_word = type(key) is str and key.isascii() and key.isidentifier()
            inner = self.local(f"{name}_{key}" if is_word else "")
            self.lines.append(f"{inner} = {name}[{self.literal(key)}]")
            self.visit(inner, value[key])

    def argument(self, name: str, value: Any, static: bool) -> None:
        """Writes lines that take an argument apart, or compare a static one."""
        if not static:
            self.visit(name, value)
            return
        kind, known = type(value), self.bind(value, "static")
        same = f"{name} is {known}"
        if kind in (int, bool, str, bytes):
            same += f" or type({name}) is {self.bind(kind, 'class')} and {name} == {known}"
        elif kind in (float, complex, tuple, frozenset):
            alike = f"exact({name}) == {self.bind(exact(value), 'static')}"
            same += f" or type({name}) is {self.bind(kind, 'class')} and {alike}"
        self.require(same)

    def leaf(self, name: str, value: Any) -> None:
        """Writes one leaf."""
        kind = type(value)
        buffer = name
        other = f"type(x) is not {kind.__name__}"
        is_tensor = entrance.stands(kind)
        if is_tensor:
            other = f"type(x) not in {self.bind(entrance.alike(kind), 'classes')}"
        self.nodes.append(f"{name}.node" if is_tensor else "None")
        if is_tensor and isinstance(kind._data, property):
            # A tensor in shared memory, whose elements are compared whenever they are read.
            buffer = f"{name}._data"
            other += f" or x.shape != {value.shape}"
        elif kind is Array or is_tensor:
            buffer = f"{name}._data"
            other += f" or (x := x._data).shape != {value.shape}"
        elif kind is ndarray:
            other += f" or x.shape != {value.shape}"
        elif kind is int:
            other += f" or not {-LARGEST_TRACED_INTEGER - 1} <= x <= {LARGEST_TRACED_INTEGER}"
        if kind not in WEAK_TYPES:
            if value.dtype not in self._dtypes:
                self._dtypes[value.dtype] = self.bind(value.dtype, value.dtype.name)
            dtype = self._dtypes[value.dtype]
            other += f" or x.dtype is not {dtype} and x.dtype != {dtype}"
        other += self.place(buffer, getattr(value, "_data", value))
        self.leaves.append(name)
        self.buffers.append(buffer)
        if is_on_device(value, DEVICE_TYPES):
            self.there.add(name, other, len(self.leaves) - 1 in self._donated)
        else:
            self.alike.setdefault(other, []).append(name)

    def place(self, buffer: str, example: Any) -> str:
        """Returns the rest of a condition: a leaf's buffer is not where its example is."""
        kind = type(example)
        if kind not in DEVICE_TYPES:
            self.on_host.append(buffer)
            return ""
        other = f" or type(x) is not {self.bind(kind, 'buffer')}"
        if len(backend_of(example).devices()) > 1:
            other += f" or device_of(x) != {device_of(example)!r}"
        return other

    def compare(self) -> Iterator[str]:
        """Yields the lines that compare the leaves with the examples."""
        # No dict has fewer keys than its example. If all together have as many, none has more.
        for i in range(0, len(self.dicts), MOST_LENGTHS_OF_A_SUM):
            some = self.dicts[i : i + MOST_LENGTHS_OF_A_SUM]
            lengths = " + ".join(f"len({name})" for name, _ in some)
            yield f"if {lengths} != {sum(length for _, length in some)}: return UNLIKE"
        yield from lines_of_comparison(self.alike)
        if self.there.names:
            yield from self.there.compare(self.names)

    def take(self) -> Iterator[str]:
        """Yields the lines that make the list of buffers."""
        there = self.there.names
        # Buffers of tensors on GPUs are not compared.
        if there and len(there) + len(self.on_host) == len(self.leaves):
            held = self.there.listed("held", self.leaves, self.buffers)
            yield f"buffers = {held}" if held == "held_0" else f"buffers = KnownBuffers({held})"
            yield "buffers.known, buffers.donated = known, donated"
        else:
            yield f"buffers = [{', '.join(self.buffers)}]"

    # -- results

    def record(self, recording: RecordedRun | None, treedef: tree.TreeDef, computed: bool) -> None:
        """Writes the lines that compute a result that belongs to the graph of tensors.

        ``computed`` says whether there is a list of the buffers.
        """
        none = as_tuple(["None"] * len(self.nodes))
        self.names["mode"] = entrance.mode
        self.lines.append(f"if mode.enabled and (nodes := {as_tuple(self.nodes)}) != {none}:")
        if recording is None:
            self.lines.append("  return UNLIKE")
            return
        before, self.lines = self.lines, []
        outs = [self.local() for _ in range(treedef.num_leaves)]
        # A graph keeps its values, and a NumPy array may be changed by its owner.
        own = [(b, f"owned({b})" if x == b else b) for x, b in zip(self.leaves, self.buffers)]
        same = computed and all(buffer == kept for buffer, kept in own)
        given = "buffers" if same else f"[{', '.join([kept for _, kept in own])}]"
        given += ", nodes"
        self.lines.append(f"{as_tuple(outs)} = {self.bind(recording, 'record')}({given})")
        self.lines.append(f"return {self.result(treedef, outs)}")
        self.lines = [*before, *(f"  {line}" for line in self.lines)]

    def compute(self, run: Run, count: int, as_list: bool) -> None:
        """Writes the lines that compute a number of outputs; ``as_list`` keeps their list."""
        outs = [f"o{i}" for i in range(count)]
        leaves = self.there.listed("there", self.leaves, self.leaves)
        left = "outs" if as_list else as_tuple(outs)
        # A buffer that a variable holds too is not given away.
        computed = f"{self.bind(run, 'run')}({leaves}, buffers)"
        self.names["wrapped"] = entrance.all_made if self.tensors else all_wrapped
        self.lines += ["x = None", f"{left} = wrapped({computed})"]
        self.outs = outs

    def passed(self, i: int) -> str:
        """Returns the variable of a leaf of the arguments that the result has too."""
        name = self.leaves[i]
        if self.tensors:
            if self.buffers[i] == name:
                raise _Unguarded
            return f"tensor({self.buffers[i]})"
        if self.buffers[i] != name:
            return name
        if i not in self._owned:
            # A NumPy array may be changed by its owner.
            self._owned[i] = self.local(f"owned_{name}")
            self.lines.append(f"{self._owned[i]} = wrap(owned({name}))")
        return self._owned[i]

    def result(self, treedef: tree.TreeDef, leaves: Sequence[str]) -> str:
        """Returns an expression that puts a tree together, given its leaves' expressions."""
        before = len(self.lines)
        for example in trees_of_numbers(treedef):
            try:
                return self.put(example, leaves)
            except _Unguarded:
                del self.lines[before:]
        return f"{self.bind(treedef.unflatten, 'unflatten')}([{', '.join(leaves)}])"

    def put(self, node: Any, leaves: Sequence[str]) -> str:
        """Returns an expression for a tree that has the leaves' numbers in their places."""
        kind = type(node)
        if kind is int:
            leaf: str = leaves[node]
            return leaf
        if node is None:
            return "None"
        if kind is dict:
            items = [(self.literal(key), self.put(x, leaves)) for key, x in node.items()]
            if len(items) <= MOST_DISPLAYED_KEYS:
                return f"{{{', '.join(f'{key}: {x}' for key, x in items)}}}"
            made = self.local()
            self.lines.append(f"{made} = {self.bind(dict.fromkeys(node), 'dict')}.copy()")
            self.lines += [f"{made}[{key}] = {x}" for key, x in items]
            return made
        if kind is list:
            return f"[{', '.join([self.put(x, leaves) for x in node])}]"
        if kind is not tuple and not is_named(kind):
            raise _Unguarded
        made = as_tuple([self.put(x, leaves) for x in tuple.__iter__(node)])
        return made if kind is tuple else f"{self.bind(kind._make, 'make')}({made})"


def trees_of_numbers(treedef: tree.TreeDef) -> list[Any]:
    """Returns a tree that has its leaves' numbers in their places; none of a class that refuses."""

    def made() -> list[Any]:
        example = treedef.unflatten(range(treedef.num_leaves))
        return [example] if tree.structure(example) == treedef else []

    try:
        return made()
    except Exception:
        # Classes that are registered may be put together of real leaves alone. An error of a
        # signal's handler does not come twice.
        try:
            made()
        except Exception:
            return []
        raise


def is_leaf(value: Any) -> bool:
    """Says whether trees have a value as a leaf, and do not look into it."""
    leaves = tree.leaves(value)
    return len(leaves) == 1 and leaves[0] is value


def is_list_of(treedef: tree.TreeDef, passed: Sequence[int | None]) -> bool:
    """Says whether a result is a list of what is computed."""
    return {*passed} == {None} and treedef == tree.structure([0] * len(passed))


def as_tuple(items: Sequence[str]) -> str:
    """Returns the source of a tuple, given that of its items."""
    return f"({', '.join(items)}{',' * bool(items)})"


def unguarded(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Stands for a guard where there is none, and gives up."""
    return UNLIKE


def guard(
    args: Sequence[Any],
    kwargs: dict[str, Any],
    static: Sequence[int | str],
    run: Run | None,
    treedef: tree.TreeDef,
    passed: Sequence[int | None],
    gradient: tuple[int, int] | None = None,
    recording: RecordedRun | None = None,
    constants: bool = False,
    donated: Sequence[int] = (),
) -> Guard:
    """Returns a guard for calls like one; a guard of other trees than plain containers gives up.

    Args:
        args, kwargs: the arguments of the call.
        static: positions and names of those that have to be the same objects.
        run: computes the buffers of leaves of the result; None if all are leaves of the arguments.
        treedef: the result's.
        passed: for every leaf of the result the number of the argument's leaf that it is; None
            where it is the next computed one.
        gradient: the numbers of a leaf of the arguments, and of one of the result that is the
            gradient taken at it.
        recording: computes the result where tensors among the arguments have a graph; None where
            the guard gives up.
        constants: whether all leaves but arrays are static.
        donated: the numbers of the leaves that are donated.
    """
    if len(passed) + tree.structure((args, kwargs)).num_leaves > MOST_GUARDED_LEAVES:
        return unguarded
    writer = _Writer(constants, donated)
    writer.names["tensor"] = entrance.made
    names = [writer.local(f"a{i}") for i in range(len(args))]
    try:
        for i, (name, value) in enumerate(zip(names, args, strict=True)):
            writer.argument(name, value, i in static)
        for key, value in kwargs.items():
            inner = writer.local(f"kw_{key}" if key.isascii() and key.isidentifier() else "")
            writer.lines.append(f"{inner} = kwargs[{key!r}]")
            writer.argument(inner, value, key in static)
        apart, writer.lines = writer.lines, []
        on_host = f"[{', '.join(writer.on_host)}]"
        if writer.tensors:
            writer.record(recording, treedef, run is not None)
        taken, as_list = [], False
        if run is not None:
            taken = [f"  {line}" for line in writer.take()]
            as_list = gradient is None and not writer.tensors and is_list_of(treedef, passed)
            writer.compute(run, passed.count(None), as_list)
        outs = iter(writer.outs)
        leaves = [next(outs) if i is None else writer.passed(i) for i in passed]
        result = "outs" if as_list else writer.result(treedef, leaves)
        if gradient is not None and not writer.tensors:
            at, of = writer.leaves[gradient[0]], leaves[gradient[1]]
            writer.lines.append(f"if taken_gradients.watched: taken_gradients.note({at}, {of})")
        text = [
            "def matched(args, kwargs):",
            # The caller chooses the order of keywords.
            f"  if {f'[*kwargs] != {[*kwargs]}' if kwargs else 'kwargs'}: return UNLIKE",
            "  try:",
            # A ValueError tells of another number of them.
            f"    {as_tuple(names)} = args",
            *(f"    {line}" for line in apart),
            "  except (KeyError, ValueError): return UNLIKE",
            *(f"  {line}" for line in writer.compare()),
            *taken,
            # Others count who holds a buffer.
            f"  {writer.there.let_go()}",
            f"  if types and not types.isdisjoint(map(type, {on_host})): return UNLIKE",
            *(f"  {line}" for line in writer.lines),
            f"  return {result}",
        ]
        source = "\n".join(text)
        exec(compile(source, "<guard>", "exec"), writer.names)
    except (_Unguarded, MemoryError, RecursionError, SyntaxError):
        # The last three tell of trees that are too deep for Python's parser.
        return unguarded
    made: Any = writer.names["matched"]
    made.text = source
    return made  # type: ignore[no-any-return]


def guard_source(guard: Guard | None) -> str:
    """Returns the text of a guard, and behind it the values of its names.

    Args:
        guard: of a kind of calls; None before the second call, which has it written.
    """
    if guard is None:
        return "# the guard is written at the second call of a kind\n"
    if guard is unguarded:
        return ""
    made: Any = guard
    legend = [
        f"# {name} = {described(value)}"
        for name, value in made.__globals__.items()
        if name not in OWN_NAMES and name not in ("__builtins__", "matched")
    ]
    return "\n".join([made.text, "", *legend, ""])
