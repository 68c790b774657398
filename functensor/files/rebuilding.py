"""Trees made of what a file says of them, by themselves or into the structure of another tree."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..backends.annotations import Buffer, DType, Shape
from ..backends.devices import on_device, placement
from ..primitives.core.array import Array
from ..primitives.core.buffers import wrap
from ..random.generator import Generator
from ..random.key_stream import KeyStream
from ..tensors import Tensor
from .reading import Reader
from .stored_dtypes import dtype_of
from .tree_format import MOST_LEVELS, JsonNode

__all__ = ["ARRAY_KINDS", "ElementsOf", "Rebuilder"]

ARRAY_KINDS = ("array", "numpy", "scalar", "tensor")
CONTAINERS = ("list", "tuple", "dict", "ordered", "fields", "object")


class ElementsOf(NamedTuple):
    """One array of a tree: its name in the file, and what it is in the tree."""

    kind: str
    name: str
    dtype: DType
    shape: Shape
    is_complex: bool

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Rebuilder:
    """Makes trees of a file's nodes.

    Args:
        reader: the file.
        checksums: those of arrays, by name.
        device: where arrays are to be; None for the default device.
    """

    def __init__(self, reader: Reader, checksums: Mapping[str, int], device: str | None) -> None:
        self.reader = reader
        self.device = device
        self._checksums = checksums
        self._made: dict[tuple[Any, ...], Any] = {}
        self._kind_of: dict[str, bool] = {}

    def malformed(self, node: JsonNode, expected: str) -> Exception:
        """Returns the error for a node that is none."""
        return self.reader.damaged(f"its structure has {node!r:.60}", expected)

    # -- parts of nodes

    def kind_of(self, node: JsonNode) -> str:
        """Returns the kind of a node that is an object in JSON."""
        if isinstance(node, dict) and node:
            return str(next(iter(node)))
        raise self.malformed(node, "a node with a kind")

    def pairs_of(self, node: JsonNode) -> list[tuple[Any, JsonNode]]:
        """Returns keys and children of a container."""
        kind = self.kind_of(node)
        inner = node[kind]
        if not isinstance(inner, list):
            raise self.malformed(node, "a list of children")
        if kind in ("list", "tuple"):
            return list(enumerate(inner))
        found: dict[Any, JsonNode] = {}
        for pair in inner:
            if not isinstance(pair, list) or len(pair) != 2:
                raise self.malformed(pair, "a key and a child")
            key = self._key(pair[0])
            if key in found:
                raise self.malformed(pair[0], "every key once")
            found[key] = pair[1]
        return list(found.items())

    def _key(self, node: JsonNode, level: int = 0) -> Any:
        if isinstance(node, dict) and [*node] == ["tuple"] and isinstance(node["tuple"], list):
            if level < MOST_LEVELS:
                return tuple([self._key(part, level + 1) for part in node["tuple"]])
            raise self.malformed(node, f"at most {MOST_LEVELS} levels")
        key = self.number_or_text(node)
        if key is UNKNOWN_NODE:
            raise self.malformed(node, "a key: text, a number or None")
        return key

    def number_or_text(self, node: JsonNode) -> Any:
        """Returns what a node without children and arrays stands for; `UNKNOWN_NODE` of others."""
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if not isinstance(node, dict) or len(node) != 1:
            return UNKNOWN_NODE
        ((kind, value),) = node.items()
        try:
            if kind == "float":
                return float.fromhex(value)
            if kind == "complex":
                real, imag = value
                return complex(float.fromhex(real), float.fromhex(imag))
            if kind == "int":
                return int(value, 16)
        except (TypeError, ValueError, OverflowError):
            raise self.malformed(node, "the digits of a number") from None
        return UNKNOWN_NODE

    def elements_of(self, node: JsonNode) -> ElementsOf:
        """Returns what a node says of an array, checked against the header.

        Raises:
            FileError: there is no such array.
        """
        kind = self.kind_of(node)
        name = node[kind]
        entry = self.reader.entries.get(name) if isinstance(name, str) else None
        if entry is None:
            raise self.malformed(node, "the name of an array in the file")
        if self._kind_of.setdefault(name, kind == "numpy") != (kind == "numpy"):
            raise self.malformed(node, "an array apart for NumPy")
        dtype, shape = dtype_of(entry.code), entry.shape
        is_complex = node.get("complex") is True
        if is_complex:
            if entry.code not in ("F32", "F64") or shape[-1:] != (2,):
                raise self.malformed(node, "pairs of float32 or float64 for complex numbers")
            dtype, shape = np.dtype(f"c{2 * dtype.itemsize}"), shape[:-1]
        if kind == "scalar" and shape:
            raise self.malformed(node, "a scalar without axes")
        if node.get("grad") and dtype.kind not in "fcV":
            raise self.malformed(node, "floats where gradients are wanted")
        return ElementsOf(kind, name, dtype, shape, is_complex)

    # -- values

    def buffer(self, x: ElementsOf, writeable: bool = False) -> Buffer:
        """Returns the elements of an array on the host."""
        raw = self.reader.array(x.name, self._checksums.get(x.name), writeable)
        return raw.view(x.dtype).reshape(x.shape) if x.is_complex else raw

    def array(self, x: ElementsOf, device: str | None = None) -> Array:
        """Returns an array of the file, the same one whenever it is asked for."""
        where = self.device or device or placement.device
        key = ("array", x.name, x.is_complex, where)
        if key not in self._made:
            self._made[key] = wrap(on_device(self.buffer(x), where))
        return self._made[key]  # type: ignore[no-any-return]

    def numpy_array(self, x: ElementsOf) -> Any:
        """Returns an array of the file as NumPy's, the same one whenever it is asked for."""
        key = ("numpy", x.name, x.is_complex)
        if key not in self._made:
            self._made[key] = self.buffer(x, writeable=True)
        return self._made[key]

    def plain(self, node: JsonNode, level: int = 0) -> Any:
        """Returns the tree that a node stands for; named tuples and dataclasses become dicts.

        Raises:
            FileError: there is no such node.
        """
        value = self.number_or_text(node)
        if value is not UNKNOWN_NODE:
            return value
        if level > 2 * MOST_LEVELS:
            raise self.malformed(node, f"at most {MOST_LEVELS} levels")
        kind = self.kind_of(node)
        if kind in CONTAINERS and len(node) == 1:
            pairs = [(key, self.plain(child, level + 1)) for key, child in self.pairs_of(node)]
            if kind in ("list", "tuple"):
                children = [child for _, child in pairs]
                return children if kind == "list" else tuple(children)
            return OrderedDict(pairs) if kind == "ordered" else dict(pairs)
        if kind == "state" and len(node) == 1:
            return self.plain(node[kind], level + 1)
        if kind == "caller" and len(node) == 1:
            return None
        if kind == "draws":
            return Generator().set_state(self.draws_of(node))
        if kind == "keys":
            stream = KeyStream()
            stream.__setstate__(self.stream_state_of(node))
            return stream
        if kind in ARRAY_KINDS:
            return self._plain_elements(node)
        raise self.malformed(node, "a node of a known kind")

    def _plain_elements(self, node: JsonNode) -> Any:
        found = self.elements_of(node)
        if found.kind == "array":
            return self.array(found)
        if found.kind == "numpy":
            return self.numpy_array(found)
        if found.kind == "scalar":
            return self.buffer(found)[()]
        number = node.get("same")
        key = ("tensor", number, found.name)
        if not isinstance(number, int):
            return Tensor(self.array(found), requires_grad=node.get("grad") is True)
        if key not in self._made:
            self._made[key] = Tensor(self.array(found), requires_grad=node.get("grad") is True)
        return self._made[key]

    def draws_of(self, node: JsonNode) -> tuple[int, int]:
        """Returns the state of a generator."""
        state = node["draws"]
        if not isinstance(state, list) or [type(n) for n in state] != [int, int] or state[1] < 0:
            raise self.malformed(node, "the seed and the number of draws of a generator")
        return state[0], state[1]

    def stream_state_of(self, node: JsonNode) -> tuple[Array, int]:
        """Returns the state of a stream of keys."""
        state = node["keys"]
        if not isinstance(state, list) or len(state) != 2 or not isinstance(state[0], dict):
            raise self.malformed(node, "the key and the position of a KeyStream")
        found = self.elements_of(state[0])
        position = state[1]
        if found.shape != (2,) or found.dtype != np.uint64:
            raise self.malformed(node, "a key, uint64[2]")
        if type(position) is not int or not 0 <= position < 2**64:
            raise self.malformed(node, "a position of a KeyStream")
        return wrap(self.buffer(found)), position

    # -- states of objects

    def guided(self, node: JsonNode, guide: Any, level: int = 0) -> Any:
        """Returns the tree of a node, with named tuples and devices of another tree beside it."""
        if not isinstance(node, dict) or level > MOST_LEVELS:
            return self.plain(node, level)
        kind = self.kind_of(node)
        if kind == "state":
            return self.guided(node[kind], guide, level + 1)
        if kind == "caller" and callable(guide):
            return guide
        if kind in CONTAINERS and len(node) == 1:
            named = isinstance(guide, tuple) and hasattr(guide, "_fields")
            made = [
                (key, self.guided(child, _child_of(guide, key), level + 1))
                for key, child in self.pairs_of(node)
            ]
            values = [value for _, value in made]
            if kind == "fields" and named and tuple(key for key, _ in made) == guide._fields:
                return guide._make(values)
            if kind in ("list", "tuple"):
                return values if kind == "list" else tuple(values)
            return OrderedDict(made) if kind == "ordered" else dict(made)
        if kind == "array" and isinstance(guide, Array):
            return self.array(self.elements_of(node), guide.device)
        return self.plain(node, level)


# Stands for the value of a node that has children or arrays.
UNKNOWN_NODE: Any = object()


def _child_of(guide: Any, key: Any) -> Any:
    """Returns what another tree has at a place, or None."""
    if isinstance(guide, Mapping):
        return guide.get(key)
    if isinstance(guide, tuple) and isinstance(key, str):
        return getattr(guide, key, None) if hasattr(guide, "_fields") else None
    if isinstance(guide, list | tuple) and isinstance(key, int):
        return guide[key] if key < len(guide) else None
    return None
