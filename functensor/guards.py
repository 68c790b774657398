"""Guards: generated functions that tell in microseconds whether a call is like an earlier one.

A guard takes the arguments apart as the earlier call's were, without asking what kind of tree they
are, and gives up where anything differs: the slow way then finds out what. Builders put results
together likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from . import tree
from .primitives.array import Array
from .primitives.buffers import DEVICE_TYPES, WEAK_TYPES

__all__ = ["LARGEST", "Guard", "builder", "guard"]

# Of integers that are traced.
LARGEST = 2**63 - 1

# Takes a call's arguments; returns the leaves and their buffers, or None.
Guard = Callable[[tuple[Any, ...], dict[str, Any]], "tuple[list[Any], list[Any]] | None"]


class _Unguarded(Exception):
    """There is something among the arguments that guards do not take apart."""


class _Writer:
    """Writes a guard's source.

    Attributes:
        lines: what was written.
        names: what the source refers to.
        leaves: the expressions of the leaves, in order; a starred one stands for several.
        buffers: those of their buffers.
        arrays: the leaves that are arrays, as examples, in order.
        weak: the expressions of Python's scalars among the buffers.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"Array": Array, "ndarray": ndarray, "types": DEVICE_TYPES}
        self.leaves: list[str] = []
        self.buffers: list[str] = []
        self.arrays: list[Any] = []
        self.weak: set[str] = set()
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
        elif kind is ndarray:
            self.require(f"type({name}) is ndarray")
            self.leaf(name, name, value)
        elif kind in WEAK_TYPES:
            self.require(f"type({name}) is {self.bind(kind)}")
            if kind is int:
                self.require(f"{-LARGEST - 1} <= {name} <= {LARGEST}")
            self.leaves.append(name)
            self.buffers.append(name)
            self.weak.add(name)
        elif value is None:
            self.require(f"{name} is None")
        elif kind is dict:
            self.require(f"type({name}) is dict and [*{name}] == {self.bind([*value])}")
            self.children(name, self.sorted(value), f"{name}.values()", [*value.values()])
        elif kind in (list, tuple) or is_named(kind):
            length = len(value)
            self.require(f"type({name}) is {self.bind(kind)} and len({name}) == {length}")
            self.children(name, dict(enumerate(value)), name, list(value))
        else:
            raise _Unguarded

    def sorted(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """Returns a dict in the order in which trees have their leaves."""
        try:
            return {key: value[key] for key in sorted(value)}
        except TypeError:
            return value

    def children(self, name: str, ordered: dict[Any, Any], all: str, given: list[Any]) -> None:
        """Writes how a container's children are taken: all at once where they are arrays."""
        values = [*ordered.values()]
        in_order = len(values) == len(given) and [*map(id, values)] == [*map(id, given)]
        if in_order and len(values) > 1 and {*map(type, values)} == {Array}:
            self.leaves.append(f"*{all}")
            self.buffers.append(f"*[x._data for x in {all}]")
            self.arrays += values
            return
        for key, child in ordered.items():
            inner = self.fresh()
            self.lines.append(f"{inner} = {name}[{self.bind(key)}]")
            self.visit(inner, child)

    def constant(self, name: str, value: Any) -> None:
        """Writes that a static argument is the same."""
        kind, known = type(value), self.bind(value)
        same = f"{name} is {known}"
        if kind in (int, bool, str, bytes):
            same += f" or type({name}) is {self.bind(kind)} and {name} == {known}"
        self.require(same)

    def leaf(self, name: str, buffer: str, value: Any) -> None:
        """Writes one array."""
        self.leaves.append(name)
        self.buffers.append(buffer)
        self.arrays.append(value)


def is_named(kind: type) -> bool:
    """Says whether a class is one of named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def builder(treedef: tree.TreeDef) -> Callable[[Sequence[Any]], Any]:
    """Returns what ``treedef.unflatten`` does, written out where the containers are plain ones."""
    names: dict[str, Any] = {}

    def written(node: Any) -> str:
        kind = type(node)
        if kind is int:
            return f"leaves[{node}]"
        if node is None:
            return "None"
        if kind is dict:
            for key in node:
                names[f"k{len(names)}"] = key
            keys = [*names][len(names) - len(node) :]
            items = [f"{k}: {written(child)}" for k, child in zip(keys, node.values(), strict=True)]
            return f"{{{', '.join(items)}}}"
        children = [written(child) for child in node] if isinstance(node, list | tuple) else []
        if kind is list:
            return f"[{', '.join(children)}]"
        if kind is tuple:
            return f"({', '.join(children)}{',' * bool(children)})"
        if is_named(kind):
            names[name := f"k{len(names)}"] = kind
            return f"{name}({', '.join(children)})"
        raise _Unguarded

    try:
        source = f"lambda leaves: {written(treedef.unflatten(range(treedef.num_leaves)))}"
    except (_Unguarded, RecursionError):
        return treedef.unflatten
    made: Callable[[Sequence[Any]], Any] = eval(compile(source, "<builder>", "eval"), names)
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
    except _Unguarded:
        return None
    return _compiled(writer, len(args), len(kwargs))


def _compiled(writer: _Writer, positional: int, named: int) -> Guard:
    shapes = writer.bind([x.shape for x in writer.arrays])
    dtypes = writer.bind([x.dtype for x in writer.arrays])
    arrays = [b for b in writer.buffers if b not in writer.weak]
    taken = f"[{', '.join(arrays)}]"
    if all(type(x) is Array for x in writer.arrays) and not writer.weak:
        taken = "[x._data for x in leaves]"
    buffers = f"[{', '.join(writer.buffers)}]" if writer.weak else "arrays"
    text = [
        "def matched(args, kwargs):",
        f"  if len(args) != {positional} or len(kwargs) != {named}: return None",
        "  try:",
        *(f"    {line}" for line in writer.lines),
        f"    leaves = [{', '.join(writer.leaves)}]",
        f"    arrays = {taken}",
        f"    if [x.shape for x in arrays] != {shapes}: return None",
        f"    if [x.dtype for x in arrays] != {dtypes}: return None",
        "    if types and not types.isdisjoint(map(type, arrays)): return None",
        f"    return leaves, {buffers}",
        "  except (AttributeError, KeyError): return None",
    ]
    source = "\n".join(text)
    exec(compile(source, "<guard>", "exec"), writer.names)
    made: Guard = writer.names["matched"]
    return made
