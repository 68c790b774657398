"""Loads a file into the structure of a tree that the caller has, once all of it fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.errors import describe
from ..primitives.core.shape_dtype import ShapeDtype
from ..random.generator import Generator
from ..random.key_stream import KeyStream
from ..tensors import Tensor
from ..tensors.copies import added_to, of_class, with_state
from .file_errors import not_fitting
from .rebuilding import ARRAY_KINDS, ElementsOf, Rebuilder
from .stateful_objects import adopt_all, has_state, is_module_state
from .tree_format import MOST_LEVELS, JsonNode, Steps, children_of, text_of_path

__all__ = ["fitted"]

Maker = Callable[[], Any]
LISTED: dict[type, str] = {list: "list", tuple: "tuple"}
# Numbers that may be given where another kind is expected.
ACCEPTED_NUMBERS = {float: (float, int), complex: (complex, float, int)}


def fitted(rebuilder: Rebuilder, node: JsonNode, like: Any, is_told: bool) -> Any:
    """Returns the tree of a file in the structure of another one.

    Args:
        rebuilder: makes values.
        node: the file's tree.
        like: the tree that gives structure, shapes and dtypes.
        is_told: whether the file tells of its tree; else its arrays are looked up by name.

    Raises:
        FileError: the file is damaged.
        TreeMismatchError: it does not fit; the message has every place that differs.
    """
    fitting = Fitting(rebuilder)
    if not is_told:
        node = fitting.by_names(like)
    make = fitting.maker(node, like, ())
    if fitting.places:
        raise not_fitting(rebuilder.reader.file, fitting.places)
    made = make()
    adopt_all(fitting.states)
    return made


class MissingNode:
    """Stands for a node that a file does not have."""


MISSING_NODE = MissingNode()


class Fitting:
    """Compares a file with a tree, and makes values of what fits.

    Attributes:
        places: the places where file and tree differ, with what was expected and found.
        states: the objects that go on from a state, with that state.
    """

    def __init__(self, rebuilder: Rebuilder) -> None:
        self.rebuilder = rebuilder
        self.places: list[str] = []
        self.states: list[tuple[Any, Any]] = []
        self._made: dict[tuple[int, str], Tensor] = {}

    def differs(self, path: Steps, expected: str, found: str) -> Maker:
        """Notes a place that does not fit."""
        self.places.append(f"{text_of_path(path)}: expected {expected}, found {found}")
        return lambda: None

    def maker(self, node: JsonNode | MissingNode, like: Any, path: Steps) -> Maker:
        """Returns a function that makes the value of a place, which is compared now."""
        if len(path) > MOST_LEVELS:
            return self.differs(path[:3], f"at most {MOST_LEVELS} levels", "more")
        if isinstance(node, MissingNode):
            return self.differs(path, self.shown(like), "nothing")
        if isinstance(like, Generator | KeyStream):
            return self._random(node, like, path)
        if has_state(like):
            return self._state(node, like, path)
        if isinstance(node, dict) and [*node] == ["state"]:
            node = node["state"]
        if is_elements(like):
            return self._elements(node, like, path)
        inner = None if like is None else children_of(like)
        if inner is None:
            return self._number(node, like, path)
        return self._container(node, like, inner[0], inner[1], path)

    def shown(self, like: Any) -> str:
        """Returns a value of the caller's tree as messages show it."""
        if is_elements(like):
            return describe(like)
        inner = None if has_state(like) else children_of(like)
        if inner is None or like is None:
            return "None" if like is None else type(like).__name__
        return f"{type(like).__name__} of {len(inner[0])}"

    def found(self, node: JsonNode) -> str:
        """Returns a node as messages show it."""
        rebuilder = self.rebuilder
        value = rebuilder.number_or_text(node)
        if value is None or isinstance(value, bool | int | float | complex | str):
            return "None" if value is None else f"{type(value).__name__} {value!r:.40}"
        kind = rebuilder.kind_of(node)
        if kind in ARRAY_KINDS:
            return str(rebuilder.elements_of(node))
        if kind in NAMES_OF_KINDS:
            return NAMES_OF_KINDS[kind]
        words = {"fields": "named tuple", "object": "object", "ordered": "dict"}
        return f"{words.get(kind, kind)} of {len(rebuilder.pairs_of(node))}"

    # -- leaves

    def _number(self, node: JsonNode, like: Any, path: Steps) -> Maker:
        value = self.rebuilder.number_or_text(node)
        kind = type(like)
        for base in (bool, int, float, complex, str):
            if isinstance(like, base):
                kind = base
                break
        if kind is type(None) or kind in (bool, int, float, complex, str):
            if type(value) in ACCEPTED_NUMBERS.get(kind, (kind,)):
                return lambda: value if like is None else kind(value)
            return self.differs(path, kind.__name__ if like is not None else "None",
                                self.found(node))
        return self.differs(path, f"{kind.__name__}, which files do not hold", self.found(node))

    def _elements(self, node: JsonNode, like: Any, path: Steps) -> Maker:
        known = isinstance(node, dict) and next(iter(node), None) in ARRAY_KINDS
        if not known:
            return self.differs(path, describe(like), self.found(node))
        found = self.rebuilder.elements_of(node)
        wanted = np.dtype(like.dtype).newbyteorder("=")
        if tuple(like.shape) != found.shape or wanted != found.dtype:
            return self.differs(path, describe(like), str(found))
        rebuilder = self.rebuilder
        if isinstance(like, Tensor):
            return lambda: self._tensor(found, like)
        if isinstance(like, np.generic):
            return lambda: rebuilder.buffer(found)[()]
        if isinstance(like, np.ndarray):
            if found.kind == "numpy":
                return lambda: rebuilder.numpy_array(found)
            return lambda: rebuilder.buffer(found, writeable=True)
        device = None if isinstance(like, ShapeDtype) else str(getattr(like, "device", "cpu"))
        return lambda: rebuilder.array(found, device)

    def _tensor(self, found: ElementsOf, like: Tensor) -> Tensor:
        """Returns a tensor of the class of another one; the same for the same one."""
        key = id(like), found.name
        if key not in self._made:
            data = self.rebuilder.array(found, like.device)
            made = of_class(type(like), Tensor, data, like.requires_grad and like.is_leaf)
            self._made[key] = with_state(made, added_to(like, Tensor))
        return self._made[key]

    # -- containers

    def _container(
        self, node: JsonNode, like: Any, children: Any, treedef: tree.TreeDef, path: Steps
    ) -> Maker:
        kinds = kinds_for(like)
        kind = next(iter(node)) if isinstance(node, dict) and len(node) == 1 else None
        if kind not in kinds:
            return self.differs(path, self.shown(like), self.found(node))
        pairs = dict(self.rebuilder.pairs_of(node))
        if kind in LISTED.values() and len(pairs) != len(children):
            return self.differs(path, self.shown(like), self.found(node))
        makers = []
        for step, child in children:
            key = step.value if kind not in ("fields", "object") else str(step.value)
            makers.append(self.maker(pairs.pop(key, MISSING_NODE), child, (*path, step)))
        for key, extra in pairs.items():
            step = tree.AttributeKey(key) if kind == "fields" else tree.DictKey(key)
            self.differs((*path, step), "nothing", self.found(extra))
        return lambda: treedef.unflatten([make() for make in makers])

    # -- objects with a state

    def _random(self, node: JsonNode, like: Any, path: Steps) -> Maker:
        wanted = "draws" if isinstance(like, Generator) else "keys"
        if not isinstance(node, dict) or next(iter(node), None) != wanted:
            return self.differs(path, NAMES_OF_KINDS[wanted], self.found(node))
        rebuilder = self.rebuilder
        state: Any = (
            rebuilder.draws_of(node) if wanted == "draws" else rebuilder.stream_state_of(node)
        )
        return self._adopting(like, lambda: state)

    def _state(self, node: JsonNode, like: Any, path: Steps) -> Maker:
        inner = node["state"] if isinstance(node, dict) and [*node] == ["state"] else node
        own = like.state_dict()
        if is_module_state(own):
            return self._adopting(like, self.maker(inner, own, path))
        if not isinstance(inner, dict):
            return self.differs(path, f"the state of {type(like).__name__}", self.found(node))
        return self._adopting(like, lambda: self.rebuilder.guided(inner, own))

    def _adopting(self, like: Any, make: Maker) -> Maker:
        def adopting() -> Any:
            self.states.append((like, make()))
            return like

        return adopting

    # -- files of other libraries

    def by_names(self, like: Any) -> JsonNode:
        """Returns a tree of nodes in a tree's structure, by the names that arrays would have."""
        unused = dict.fromkeys(self.rebuilder.reader.entries)
        node = self._by_names(like, "", unused)
        for name in unused:
            self.differs((tree.DictKey(name),), "nothing", self.found({"array": name}))
        return node

    def _by_names(self, like: Any, name: str, unused: dict[str, None]) -> JsonNode | MissingNode:
        if has_state(like):
            return self._by_names(like.state_dict(), name, unused)
        if like is None:
            return None
        inner = None if is_elements(like) else children_of(like)
        if inner is None:
            wanted = name or "value"
            if wanted not in self.rebuilder.reader.entries:
                return MISSING_NODE
            unused.pop(wanted, None)
            return {"array": wanted}
        pairs = [
            [step.value, self._by_names(x, f"{name}.{step.value}" if name else str(step.value),
                                        unused)]
            for step, x in inner[0]
        ]
        kind = kinds_for(like)[0]
        if kind in LISTED.values():
            return {kind: [x for _, x in pairs]}
        if kind in ("fields", "object"):
            pairs = [[str(key), x] for key, x in pairs]
        return {kind: pairs}


NAMES_OF_KINDS = {"caller": "a function", "draws": "a Generator", "keys": "a KeyStream"}


def is_elements(x: Any) -> bool:
    """Says whether a leaf stands for an array of some shape and dtype."""
    if isinstance(x, ShapeDtype | np.generic):
        return True
    return hasattr(x, "dtype") and hasattr(x, "shape") and is_array_like(x)


def kinds_for(like: Any) -> tuple[str, ...]:
    """Returns the kinds of nodes that a container may be made of."""
    if type(like) in LISTED:
        return (LISTED[type(like)],)
    if isinstance(like, dict):
        return ("dict", "ordered")
    return ("fields",) if isinstance(like, tuple) and hasattr(like, "_fields") else ("object",)
