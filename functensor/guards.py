"""Guards: generated functions that tell in microseconds whether a call is like an earlier one.

A guard takes the arguments apart as the earlier call's were, without asking what kind of tree they
are, and gives up where anything differs: the slow way then finds out what. Builders put results
together likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from numpy import ndarray

from . import tree
from .primitives.array import Array
from .primitives.buffers import DEVICE_TYPES, WEAK_TYPES

__all__ = ["LARGEST", "Guard", "builder", "guard"]

# Of integers that are traced.
LARGEST = 2**63 - 1
# Containers of up to so many children are taken apart one by one; a larger one, if it has arrays
# alone, at once.
FEW = 4

# Takes a call's arguments; returns the leaves and their buffers, or None.
Guard = Callable[[tuple[Any, ...], dict[str, Any]], "tuple[list[Any], list[Any]] | None"]


class _Unguarded(Exception):
    """There is something among the arguments that guards do not take apart."""


class _Writer:
    """Writes a guard's source.

    Attributes:
        lines: what takes the arguments apart.
        late: conditions for once the types of the leaves are known to be right.
        names: what the source refers to.
        leaves: the expressions of the leaves, in order; a starred one stands for several.
        buffers: those of their buffers.
        examples: the leaves, in order.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.late: list[str] = []
        self.names: dict[str, Any] = {
            "__name__": __name__, "types": DEVICE_TYPES, "shape": attrgetter("shape"),
            "dtype": attrgetter("dtype"),
        }  # fmt: skip
        self.leaves: list[str] = []
        self.buffers: list[str] = []
        self.examples: list[Any] = []
        self.bound = 0

    def bind(self, value: Any) -> str:
        """Returns a name for a constant."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def fresh(self) -> str:
        """Returns a name for a local variable."""
        self.bound += 1
        return f"v{self.bound}"

    def require(self, condition: str) -> None:
        """Writes a condition without which the guard gives up."""
        self.lines.append(f"if not ({condition}): return None")

    def visit(self, name: str, value: Any) -> None:
        """Writes how the tree in a variable is taken apart, like an example."""
        kind = type(value)
        if kind is Array:
            self.leaf(name, f"{name}._data", value)
        elif kind is ndarray or kind in WEAK_TYPES:
            self.leaf(name, name, value)
            if kind is int:
                self.late.append(f"if not {-LARGEST - 1} <= {name} <= {LARGEST}: return None")
        elif value is None:
            self.require(f"{name} is None")
        elif kind is dict:
            self.mapping(name, value)
        elif kind in (list, tuple) or is_named(kind):
            self.sequence(name, value)
        else:
            raise _Unguarded

    def mapping(self, name: str, value: dict[Any, Any]) -> None:
        """Writes how a dict is taken apart; trees have its leaves in the order of its keys."""
        same = f"len({name}) == {len(value)}"
        in_order = f"[*{name}] == {self.bind([*value])}"
        try:
            keys = sorted(value)
        except TypeError:
            keys, same = [*value], in_order
        if keys == [*value] and self.at_once(value.values()):
            self.require(f"type({name}) is dict and {in_order}")
            self.several(f"{name}.values()", value.values())
            return
        self.require(f"type({name}) is dict and {same}")
        for key in keys:
            inner = self.fresh()
            self.lines.append(f"{inner} = {name}[{self.bind(key)}]")
            self.visit(inner, value[key])

    def sequence(self, name: str, value: Sequence[Any]) -> None:
        """Writes how a list or a tuple is taken apart."""
        same = f"type({name}) is {self.bind(type(value))}"
        if not value or self.at_once(value):
            self.require(f"{same} and len({name}) == {len(value)}")
            self.several(name, value)
        else:
            # A ValueError tells of another length.
            self.require(same)
            inner = [self.fresh() for _ in value]
            self.lines.append(f"{', '.join(inner)}, = {name}")
            for part, child in zip(inner, value, strict=True):
                self.visit(part, child)

    def at_once(self, values: Any) -> bool:
        """Says whether a container's children are taken without looking at each."""
        return len(values) > FEW and {*map(type, values)} == {Array}

    def several(self, source: str, values: Any) -> None:
        """Writes the children of a container that has arrays alone."""
        self.leaves.append(f"*{source}")
        self.buffers.append(f"*[x._data for x in {source}]")
        self.examples += values

    def constant(self, name: str, value: Any) -> None:
        """Writes that a static argument is the same."""
        kind, known = type(value), self.bind(value)
        same = f"{name} is {known}"
        if kind in (int, bool, str, bytes):
            same += f" or type({name}) is {self.bind(kind)} and {name} == {known}"
        self.require(same)

    def leaf(self, name: str, buffer: str, value: Any) -> None:
        """Writes one leaf."""
        self.leaves.append(name)
        self.buffers.append(buffer)
        self.examples.append(value)


def is_named(kind: type) -> bool:
    """Says whether a class is one of named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def builder(
    treedef: tree.TreeDef, passed: Sequence[int | None]
) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    """Returns a function that puts a result's tree together.

    Args:
        treedef: the result's.
        passed: for every leaf of it the number of the argument's leaf that it is; None where it is
            the next of those that were computed.

    Returns:
        A function of the arguments' leaves and of what was computed.
    """
    # By their module's name messages know which frames are not the user's.
    names: dict[str, Any] = {"__name__": __name__}
    computed = iter(range(len(passed)))
    leaves = [f"outs[{next(computed)}]" if i is None else f"leaves[{i}]" for i in passed]

    def bound(value: Any) -> str:
        names[name := f"k{len(names)}"] = value
        return name

    def written(node: Any) -> str:
        kind = type(node)
        if isinstance(node, int):
            return leaves[node]
        if node is None:
            return "None"
        if kind is dict:
            # Keys that are written out are put into the dict all at once.
            keys = [repr(key) if type(key) is str else bound(key) for key in node]
            items = [f"{k}: {written(child)}" for k, child in zip(keys, node.values(), strict=True)]
            return f"{{{', '.join(items)}}}"
        children = [written(child) for child in node] if isinstance(node, list | tuple) else []
        if kind is list:
            return f"[{', '.join(children)}]"
        if kind is tuple:
            return f"({', '.join(children)}{',' * bool(children)})"
        if is_named(kind):
            return f"{bound(kind)}({', '.join(children)})"
        raise _Unguarded

    try:
        result = written(treedef.unflatten(range(treedef.num_leaves)))
    except (_Unguarded, RecursionError):
        result = f"{bound(treedef.unflatten)}([{', '.join(leaves)}])"
    made: Callable[[Sequence[Any], Sequence[Any]], Any] = eval(
        compile(f"lambda leaves, outs: {result}", "<builder>", "eval"), names
    )
    return made


def guard(
    args: Sequence[Any], kwargs: dict[str, Any], static: Sequence[int | str]
) -> Guard | None:
    """Returns a guard for calls like one, or None where the arguments are no plain containers.

    Args:
        args, kwargs: the arguments of the call.
        static: positions and names of those that have to be the same objects.
    """
    if len(kwargs) > 1:
        # Their order is the caller's.
        return None
    writer = _Writer()
    names = [f"a{i}" for i in range(len(args))]
    if names:
        writer.lines.append(f"{', '.join(names)}, = args")
    try:
        for i, (name, value) in enumerate(zip(names, args, strict=True)):
            if i in static:
                writer.constant(name, value)
            else:
                writer.visit(name, value)
        for key, value in kwargs.items():
            inner = writer.fresh()
            writer.lines.append(f"{inner} = kwargs[{key!r}]")
            if key in static:
                writer.constant(inner, value)
            else:
                writer.visit(inner, value)
    except (_Unguarded, RecursionError):
        return None
    return _compiled(writer, len(args), len(kwargs))


def _compiled(writer: _Writer, positional: int, named: int) -> Guard:
    kinds = [*map(type, writer.examples)]
    arrays = [x for x in writer.examples if type(x) not in WEAK_TYPES]
    shapes = writer.bind([x.shape for x in arrays])
    dtypes = writer.bind([x.dtype for x in arrays])
    taken = f"[{', '.join(writer.buffers)}]"
    if {*kinds} == {Array}:
        taken = "[x._data for x in leaves]"
    found = "buffers"
    if len(arrays) < len(kinds):
        weak = writer.bind([i for i, kind in enumerate(kinds) if kind not in WEAK_TYPES])
        found = f"[buffers[i] for i in {weak}]"
    text = [
        "def matched(args, kwargs):",
        f"  if len(args) != {positional} or len(kwargs) != {named}: return None",
        "  try:",
        *(f"    {line}" for line in writer.lines),
        f"    leaves = [{', '.join(writer.leaves)}]",
        "  except (KeyError, ValueError): return None",
        f"  if [*map(type, leaves)] != {writer.bind(kinds)}: return None",
        *(f"  {line}" for line in writer.late),
        f"  buffers = {taken}",
        f"  arrays = {found}",
        f"  if [*map(shape, arrays)] != {shapes}: return None",
        f"  if [*map(dtype, arrays)] != {dtypes}: return None",
        "  if types and not types.isdisjoint(map(type, arrays)): return None",
        "  return leaves, buffers",
    ]
    source = "\n".join(text)
    exec(compile(source, "<guard>", "exec"), writer.names)
    made: Guard = writer.names["matched"]
    return made
