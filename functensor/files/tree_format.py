"""Trees as JSON, with names in the place of arrays: what a file says of its structure.

``null``, booleans, strings and numbers stand for themselves. All else is an object with the kind
of the node first:

==========  ===================================================================================
``list``    its children; ``tuple`` likewise
``dict``    pairs of key and child, in order; ``ordered`` is an ``OrderedDict``
``fields``  pairs of name and child, of a named tuple
``object``  pairs of path and child, of a dataclass or a registered class
``state``   the state of an object that is saved by it, as modules are
``caller``  the name of a function in such a state, which is left to the object that takes it
``array``   the name of an `Array`'s elements; ``numpy``, ``scalar`` and ``tensor`` likewise
``float``   a number that is not finite; ``int`` one of many digits; ``complex`` both its parts
``keys``    the first key and the position of a `KeyStream`
``draws``   the seed and the number of draws of a `Generator`
==========  ===================================================================================

A complex array has ``"complex": true``, and its elements as pairs. A tensor that requires grad has
``"grad": true``, and one that is in the tree more than once has the same number ``"same"``.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict
from typing import Any, TypeAlias

import numpy as np

from .. import tree
from ..backends.annotations import Buffer
from ..numpy.known_values import value_of
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import to_buffer, wrap
from ..primitives.core.errors import failure
from ..random.generator import Generator
from ..random.key_stream import KeyStream
from ..tensors import Tensor
from .file_errors import not_saved
from .stateful_objects import has_state
from .stored_dtypes import is_stored

__all__ = ["MOST_LEVELS", "JsonNode", "Steps", "TreeWriter", "children_of", "text_of_path"]

# What stands for a tree in JSON.
JsonNode: TypeAlias = Any
Steps: TypeAlias = "tuple[tree.PathEntry, ...]"
# Trees may be so many levels deep, far from where Python ends recursion.
MOST_LEVELS = 100
# JSON's integers are read by programs whose integers have 64 bits.
SMALL_INTEGERS = range(-(2**63), 2**63)
MAPPINGS = {dict: "dict", OrderedDict: "ordered", defaultdict: "dict"}
# Most leaves are of these, and need not be asked for children.
NO_CONTAINERS = {type(None), bool, int, float, complex, str, np.ndarray, Array}
KEY_TYPES = (str, bool, int, float, type(None))


def text_of_path(path: Steps) -> str:
    """Returns a path as messages write it."""
    return tree.keystr(path) or "the root"


def children_of(x: object) -> tuple[list[tuple[tree.PathEntry, Any]], tree.TreeDef] | None:
    """Returns a container's children with the steps to them, and its structure; None of leaves.

    Raises:
        TypeError: it is one of its own children.
    """
    inner = x.values() if isinstance(x, dict) else x if isinstance(x, list) else ()
    if any(child is x for child in inner):
        raise failure(
            TypeError,
            f"a {type(x).__name__} contains itself, and is no tree",
            fix="ft.save(path, tree) with a container that holds others only",
            number=None,
        )
    found, treedef = tree.flatten_with_path(x, is_leaf=lambda node: node is not x)
    if len(found) == 1 and not found[0][0]:
        return None
    return [(path[0], child) for path, child in found], treedef


class TreeWriter:
    """Takes a tree apart for a file.

    Attributes:
        arrays: the elements of all arrays, by name: contiguous, and real.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Buffer] = {}
        # The name and the dtype of elements that are stored already, by where they lie.
        self._names: dict[tuple[Any, ...], str] = {}
        self._hosts: dict[int, Buffer] = {}
        # Objects whose addresses are keys stay for as long as the writer.
        self._kept: list[Any] = []
        self._tensors: Counter[int] = Counter()
        self._numbers: dict[int, int] = {}
        # How many objects with a state surround the node.
        self._states = 0

    def whole(self, value: Any) -> JsonNode:
        """Returns the node of a whole tree.

        Raises:
            ConcretizationError: an array's values are not known, under vmap or while staging.
            TypeError: a leaf is nothing that files hold; the message has its path.
        """
        self._count_tensors(value, 0)
        return self.node(value, (), "")

    def _count_tensors(self, x: Any, level: int) -> None:
        """Counts in how many places every tensor is."""
        if type(x) in NO_CONTAINERS:
            return
        if isinstance(x, Tensor):
            self._tensors[id(x)] += 1
        elif level <= MOST_LEVELS and (inner := children_of(x)) is not None:
            for _, child in inner[0]:
                self._count_tensors(child, level + 1)

    def node(self, x: Any, path: Steps, name: str) -> JsonNode:
        """Returns the node of a value.

        Args:
            x: the value.
            path: the steps that lead to it.
            name: the same steps, as names of arrays have them.
        """
        if len(path) > MOST_LEVELS:
            raise not_saved(
                text_of_path(path[:3]) + "...",
                f"more than {MOST_LEVELS} levels deep; does the tree contain itself?",
                "ft.save(path, tree) with a flatter tree",
            )
        kind = MAPPINGS.get(type(x))
        if kind is not None:
            pairs = [
                [self._key(key, path), self.node(child, *_below(path, name, tree.DictKey(key)))]
                for key, child in x.items()
            ]
            return {kind: pairs}
        if type(x) in (list, tuple):
            children = [
                self.node(child, *_below(path, name, tree.SequenceKey(i)))
                for i, child in enumerate(x)
            ]
            return {type(x).__name__: children}
        leaf = self._leaf(x, path, name)
        if leaf is not UNKNOWN:
            return leaf
        if has_state(x):
            self._states += 1
            node = {"state": self.node(x.state_dict(), path, name)}
            self._states -= 1
            return node
        if self._states and callable(x):
            return {"caller": getattr(x, "__qualname__", type(x).__qualname__)}
        inner = children_of(x)
        if inner is None:
            raise not_saved(
                text_of_path(path),
                f"of type {type(x).__qualname__}, which files do not hold",
                "give arrays, numbers, text, None, containers of them, or objects with "
                "state_dict() and load_state_dict()",
            )
        named = isinstance(x, tuple) and hasattr(x, "_fields")
        pairs = [
            [str(step.value), self.node(child, *_below(path, name, step))]
            for step, child in inner[0]
        ]
        return {"fields" if named else "object": pairs}

    def _key(self, key: Any, path: Steps) -> JsonNode:
        """Returns the node of a dictionary's key."""
        if type(key) is tuple:
            return {"tuple": [self._key(part, path) for part in key]}
        if not isinstance(key, KEY_TYPES):
            raise not_saved(
                text_of_path(path),
                f"a dictionary with a key of type {type(key).__qualname__}",
                "keys are text, numbers, None, or tuples of them",
            )
        # NumPy's float64 is a float too, and would be stored as an array.
        return self._leaf(float(key) if isinstance(key, float) else key, path, "")

    def _leaf(self, x: Any, path: Steps, name: str) -> JsonNode:
        """Returns the node of a leaf; `UNKNOWN` if it is none that files hold as it is."""
        if x is None or isinstance(x, bool):
            return x
        if isinstance(x, str):
            return str(x)
        if isinstance(x, np.generic):
            return self._elements("scalar", np.asarray(x), path, name)
        if isinstance(x, int):
            # A range looks at all its numbers for an integer of a subclass.
            number = int(x)
            return number if number in SMALL_INTEGERS else {"int": hex(number)}
        if isinstance(x, float):
            return float(x) if math.isfinite(x) else {"float": float(x).hex()}
        if isinstance(x, complex):
            return {"complex": [x.real.hex(), x.imag.hex()]}
        if isinstance(x, Generator):
            return {"draws": list(x.get_state())}
        if isinstance(x, KeyStream):
            key, position = x.__getstate__()
            return {"keys": [self._leaf(key, path, name), position]}
        if isinstance(x, np.ma.MaskedArray):
            raise not_saved(
                text_of_path(path), "a masked array, whose mask files do not hold",
                '{"data": x.data, "mask": np.ma.getmaskarray(x)}',
            )  # fmt: skip
        if isinstance(x, np.ndarray):
            return self._elements("numpy", x, path, name)
        if isinstance(x, Tensor):
            node = self._elements("tensor", x.data, path, name)
            if x.requires_grad:
                node["grad"] = True
            if self._tensors[id(x)] > 1:
                node["same"] = self._numbers.setdefault(id(x), len(self._numbers))
            return node
        if isinstance(x, Array):
            return self._elements("array", x, path, name)
        if hasattr(x, "__dlpack__") and is_array_like(x):
            return self._elements("array", wrap(to_buffer(x)), path, name)
        return UNKNOWN

    def _elements(self, kind: str, x: Any, path: Steps, name: str) -> dict[str, Any]:
        """Stores the elements of an array, if they are not stored yet, and returns its node."""
        if not is_stored(x.dtype):
            raise not_saved(
                text_of_path(path), f"an array of {x.dtype}, which files do not hold",
                'x.astype("float64")',
            )  # fmt: skip
        values = x if kind in ("numpy", "scalar") else self._on_host(x)
        # A NumPy array is not stored together with an immutable one: both are loaded apart.
        place = (
            kind == "numpy", values.__array_interface__["data"][0], values.shape, values.strides,
            values.dtype.str, values.dtype.name,
        )  # fmt: skip
        self._kept.append(values)
        if place not in self._names:
            self._names[place] = self._free_name(name)
            self.arrays[self._names[place]] = _as_stored(values)
        node = {kind: self._names[place]}
        return {**node, "complex": True} if values.dtype.kind == "c" else node

    def _on_host(self, x: Array) -> Buffer:
        """Returns an array's elements; those of one on a GPU are copied once."""
        source = x._data if type(x) is Array else x
        if id(source) not in self._hosts:
            fix = "ft.save(path, tree) outside of the transformation, with what it returns"
            self._hosts[id(source)] = value_of("save", x, fix, "what {} writes")
            self._kept.append(source)
        return self._hosts[id(source)]

    def _free_name(self, name: str) -> str:
        """Returns a name for an array that no other one has, like the one that is wanted."""
        wanted = (name or "value").encode("utf-8", "replace").decode()
        number, free = 1, wanted
        while free in self.arrays or free == "__metadata__":
            number += 1
            free = f"{wanted}#{number}"
        return free


# Stands for the node of what is no leaf.
UNKNOWN: Any = object()


def _below(path: Steps, name: str, step: tree.PathEntry) -> tuple[Steps, str]:
    """Returns a path and a name with one more step."""
    return (*path, step), f"{name}.{step.value}" if name else str(step.value)


def _as_stored(values: Buffer) -> Buffer:
    """Returns an array as files have it: contiguous, little-endian, complex numbers as pairs."""
    if values.dtype.byteorder == ">":
        values = values.astype(values.dtype.newbyteorder("<"))
    values = np.asarray(values, order="C")
    if values.dtype.kind == "c":
        real = np.dtype(f"<f{values.dtype.itemsize // 2}")
        return values.reshape(-1).view(real).reshape(*values.shape, 2)
    return values
