"""Nested containers: their kinds, their structures, and the functions on them."""

from __future__ import annotations

import builtins
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

Path: TypeAlias = "tuple[PathEntry, ...]"
_C = TypeVar("_C", bound=type)
_Function: TypeAlias = Callable[..., Any]
_IsLeaf: TypeAlias = Callable[[Any], bool] | None
_Keys: TypeAlias = Callable[[Any], "Iterable[PathEntry]"] | None
_Names: TypeAlias = Sequence[str] | None


class PathEntry:
    """One step of a path, equal to another of its class with an equal value.

    >>> DictKey("w"), SequenceKey(0) == SequenceKey(0), SequenceKey(0) == DictKey(0)
    (DictKey('w'), True, False)
    """

    __slots__ = ("_value",)
    _text, _label = "[{!r}]", ""  # in keystr, and before a child of a node that is shown
    value = property(lambda self: self._value, doc="The key, index or name.")

    def __init__(self, value: Any, /) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(self._value == other._value)

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value!r})"


class DictKey(PathEntry):
    """The step from a dict to the value under a key."""

    _label = "{!r}: "


class SequenceKey(PathEntry):
    """The step from a list, a tuple or a registered class to the child at an index."""


class AttributeKey(PathEntry):
    """The step from a dataclass or a named tuple to a field."""

    _text, _label = ".{}", "{}="


def keystr(path: Path) -> str:
    """Writes a path as the Python code that leads from the tree to the leaf.

    >>> keystr((DictKey("w"), SequenceKey(0), AttributeKey("bias")))
    "['w'][0].bias"
    """
    return "".join([entry._text.format(entry._value) for entry in path])


class _Kind:
    """A class of nodes: they come apart, go together, name their children and print."""

    def __init__(self, flatten: _Function, unflatten: _Function, pattern: str,
                 keys: _Keys = None, show: _Function = lambda static: []) -> None:
        self.flatten = flatten  # node -> (sequence of children, static data)
        self.unflatten = unflatten  # (static data, list of children) -> node
        self.pattern, self.keys, self.show_static = pattern, keys, show

    def entries(self, static: Any, arity: int) -> Sequence[PathEntry]:
        entries = [*self.keys(static)] if self.keys else [SequenceKey(i) for i in range(arity)]
        if len(entries) != arity:
            raise ValueError(f"a node with {arity} children has the keys {entries}")
        return entries

    def show(self, static: Any, parts: Sequence[str]) -> str:
        entries = self.entries(static, len(parts))
        items = [e._label.format(e._value) + part for e, part in zip(entries, parts)]
        comma = "," if self.pattern == "({})" and len(parts) == 1 else ""
        return self.pattern.format(", ".join(items + self.show_static(static)) + comma)


class TreeDef:
    """The structure of a tree: its node classes, keys and static data, without its leaves.

    Immutable; hashable if all static data is; ignores the insertion order of sortable dict keys.

    >>> structure({"a": 1.0, "b": [2.0, 3.0]})
    TreeDef({'a': *, 'b': [*, *]})
    """

    __slots__ = ("_nodes", "_num_leaves")  # nodes in preorder, so that nothing recurses

    def __init__(self, nodes: Iterable[tuple[_Kind, Any, int]], num_leaves: int) -> None:
        self._nodes, self._num_leaves = tuple(nodes), num_leaves

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return self._num_leaves

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Builds the tree of this structure that has the given leaves.

        Dicts keep their insertion order; dataclasses skip `__init__`: leaves may be placeholders.

        Args:
            leaves: any objects, in the order of `flatten`.
        Raises:
            ValueError: there are too few or too many leaves.

        >>> structure({"b": 0, "a": (0, 0)}).unflatten([1, 2, 3])
        {'b': 3, 'a': (1, 2)}
        """
        values = list(leaves)
        if len(values) != self._num_leaves:
            raise ValueError(f"{self!r} has {self._num_leaves} leaves, got {len(values)}")
        kind, static, arity = self._nodes[0]
        if kind is _LEAF or arity == len(values) == len(self._nodes) - 1:
            return kind.unflatten(static, values)
        return self._fold(values, lambda kind, *node: kind.unflatten(*node))

    def children(self) -> list[TreeDef]:
        """Gives the structures of the root's children, in order; a leaf has none.

        >>> structure({"a": 1.0, "b": [2.0, 3.0]}).children()
        [TreeDef(*), TreeDef([*, *])]
        """
        kind, node = self._nodes[0][0], self.unflatten([0] * self._num_leaves)
        return [structure(child) for child in kind.flatten(node)[0]]

    def _fold(self, values: list[Any], build: Callable[[_Kind, Any, list[Any]], Any]) -> Any:
        """Builds every node from its children, from the last to the first, using up the values."""
        built: list[Any] = []
        for kind, static, arity in reversed(self._nodes):
            if kind is _LEAF:
                built.append(values.pop())
            else:
                children = built[: -arity - 1 : -1]
                del built[len(built) - arity :]
                built.append(build(kind, static, children))
        return built[0]

    def _paths(self) -> list[Path]:
        """Gives the path of every node, leaf or not, in preorder."""
        paths: list[Path] = []
        pending: list[Path] = [()]
        for kind, static, arity in self._nodes:
            path = pending.pop()
            paths.append(path)
            pending += [(*path, entry) for entry in reversed(kind.entries(static, arity))]
        return paths

    def __eq__(self, other: object) -> bool:
        return type(other) is TreeDef and (self is other or _same_static(self._nodes, other._nodes))

    def __hash__(self) -> int:
        try:
            return hash(self._nodes)
        except TypeError as error:
            raise TypeError(f"{self!r} needs hashable static data, like tuples: {error}") from None

    def __repr__(self) -> str:
        return f"TreeDef({self._fold(['*'] * self._num_leaves, _Kind.show)})"

    def __reduce__(self) -> tuple[_Function, tuple[Any]]:
        return structure, (self.unflatten([0] * self._num_leaves),)  # kinds do not pickle


def _same_static(static: Any, other: Any) -> bool:
    try:
        return bool(static == other)
    except Exception as error:
        raise TypeError("static data must compare by == to a bool: make arrays children") from error


class _SortedKeys(tuple[Any, ...]):
    """The sorted keys of a dict, with the insertion order to restore, which is not compared."""

    inserted: list[Any]


def _flatten_dict(node: dict[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    inserted = [*node]
    try:
        keys = sorted(inserted)
    except TypeError:
        keys = inserted
    if keys == inserted:
        return [*node.values()], tuple(inserted)
    static = _SortedKeys(keys)
    static.inserted = inserted
    return [node[key] for key in keys], static


def _unflatten_dict(keys: tuple[Any, ...], children: list[Any]) -> dict[Any, Any]:
    node = dict(zip(keys, children))
    return {key: node[key] for key in keys.inserted} if isinstance(keys, _SortedKeys) else node


def is_named(cls: Any) -> bool:
    """Says whether a class is of named tuples, and nothing else was registered for it."""
    named = issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make")
    return named and cls not in _registered


class _Kinds(dict[type, _Kind]):
    """The kind of every class seen so far, found out when it is first asked for."""

    def __missing__(self, cls: Any) -> _Kind:
        kind = _LEAF
        if is_named(cls):
            entries = [AttributeKey(name) for name in cls._fields]
            kind = _Kind(lambda node: (node, None), lambda _, children: cls._make(children),
                         f"{cls.__qualname__}({{}})", lambda _: entries)
        elif isinstance(getattr(cls, "__dataclass_fields__", None), dict):
            kind = _dataclass_kind(cls)
        return self.setdefault(cls, kind)  # another thread may have registered it meanwhile


unflatten = TreeDef.unflatten
_dict_keys = functools.partial(builtins.map, DictKey)
_LEAF = _Kind(lambda leaf: ((), None), lambda _, leaves: leaves[0], "*")
_LEAF_NODE = (_LEAF, None, 0)
_LEAF_DEF = TreeDef([_LEAF_NODE], 1)
_MAX_NODES = 2**22
_registered: dict[type, _Kind] = {
    type(None): _Kind(lambda node: ((), None), lambda _, children: None, "None"),
    list: _Kind(lambda node: (node, None), lambda _, children: children, "[{}]"),
    tuple: _Kind(lambda node: (node, None), lambda _, children: tuple(children), "({})"),
    dict: _Kind(_flatten_dict, _unflatten_dict, "{{{}}}", _dict_keys),
    OrderedDict: _Kind(
        lambda node: ([*node.values()], (*node,)),
        lambda keys, children: OrderedDict(zip(keys, children)), "OrderedDict({{{}}})", _dict_keys),
    defaultdict: _Kind(
        lambda node: (_flatten_dict(node)[0], (node.default_factory, _flatten_dict(node)[1])),
        lambda static, children: defaultdict(static[0], _unflatten_dict(static[1], children)),
        "defaultdict({})", lambda static: _dict_keys(static[1]),
        lambda static: [f"default_factory={static[0]!r}"]),
}
_kinds = _Kinds(_registered)


def _dataclass_kind(cls: Any, data_fields: _Names = None, meta_fields: _Names = None) -> _Kind:
    from dataclasses import fields  # costs milliseconds, unless there is a dataclass already

    names = [field.name for field in fields(cls)]
    marked = [field.name for field in fields(cls) if field.metadata.get("static")]
    static = [*dict.fromkeys([*(meta_fields or ()), *marked])]
    data = [name for name in names if name not in static] if data_fields is None else [*data_fields]
    if sorted(data + static) != sorted(names):
        raise ValueError(f"{data + static} must be the fields of {cls.__qualname__}: {names}")
    entries = [AttributeKey(name) for name in data]

    def flatten(node: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(node, name) for name in data], tuple([getattr(node, n) for n in static])

    def unflatten(static_values: tuple[Any, ...], children: list[Any]) -> Any:
        node = cls.__new__(cls)
        for name, value in zip(data + static, (*children, *static_values)):
            object.__setattr__(node, name, value)  # a frozen dataclass refuses plain setattr
        return node

    return _Kind(flatten, unflatten, f"{cls.__qualname__}({{}})", lambda _: entries,
                 lambda values: [f"{name}={value!r}" for name, value in zip(static, values)])


def _register(cls: _C, kind: _Kind) -> _C:
    if _registered.setdefault(cls, kind) is not kind:
        raise ValueError(f"{cls.__qualname__} is registered as a tree node already")
    _kinds[cls] = kind
    return cls


def register(cls: _C, flatten: _Function, unflatten: _Function, keys: _Keys = None) -> _C:
    """Makes the instances of a class, but not of its subclasses, nodes; returns the class.

    Args:
        cls: the class.
        flatten: gives a list or tuple of a node's children, and its static data.
        unflatten: builds a node from static data and a list of children, which may be any objects.
        keys: gives the path entries of the children from static data; by default indices.
    Raises:
        ValueError: the class is registered already.

    >>> class Stack(list): pass
    >>> _ = register(Stack, lambda node: (node, None), lambda _, children: Stack(children))
    >>> flatten(Stack([1, (2, 3)]))
    ([1, 2, 3], TreeDef(Stack(*, (*, *), static=None)))
    """
    kind = _Kind(flatten, unflatten, f"{cls.__qualname__}({{}})", keys, lambda s: [f"static={s!r}"])
    return _register(cls, kind)


def register_dataclass(cls: _C, data_fields: _Names = None, meta_fields: _Names = None) -> _C:
    """Says which fields of a dataclass are children and which are static; returns the class.

    Args:
        cls: the dataclass, but not its subclasses.
        data_fields: the children, in order; by default all fields that are not static.
        meta_fields: the static fields, beside those with metadata `{"static": True}`.
    Raises:
        TypeError: the class is not a dataclass.
        ValueError: it is registered already, or the arguments do not name every field once.

    >>> from dataclasses import make_dataclass
    >>> Layer = make_dataclass("Layer", ["w", "activation"])
    >>> flatten(register_dataclass(Layer, meta_fields=["activation"])(0.5, "relu"))
    ([0.5], TreeDef(Layer(w=*, activation='relu')))
    """
    return _register(cls, _dataclass_kind(cls, data_fields, meta_fields))


def flatten(tree: Any, is_leaf: _IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """Takes a tree apart into its leaves and its structure.

    Args:
        tree: any object.
        is_leaf: called with every node, None too; says whether to take it for a leaf.
    Returns:
        The leaves from left to right, of a dict by sorted keys if they sort, and the structure.
    Raises:
        RecursionError: the tree contains itself.

    >>> flatten({"b": 1.0, "a": [2.0, None]})
    ([2.0, 1.0], TreeDef({'a': [*, None], 'b': *}))
    """
    if _kinds[type(tree)] is _LEAF or (is_leaf is not None and is_leaf(tree)):
        return [tree], _LEAF_DEF
    found: list[Any] = []
    nodes: list[Any] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        kind = _kinds[type(node)]
        if kind is _LEAF or (is_leaf is not None and is_leaf(node)):
            found.append(node)
            nodes.append(_LEAF_NODE)
        else:
            children, static = kind.flatten(node)
            nodes.append((kind, static, len(children)))
            pending += children[::-1]
            if len(nodes) > _MAX_NODES:
                raise RecursionError(f"a tree of over {_MAX_NODES} nodes: does it contain itself?")
    return found, TreeDef(nodes, len(found))


def leaves(tree: Any, is_leaf: _IsLeaf = None) -> list[Any]:
    """Gives the leaves of a tree, in the order of `flatten`.

    >>> leaves({"b": 1.0, "a": [2.0, None]})
    [2.0, 1.0]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: _IsLeaf = None) -> TreeDef:
    """Gives the structure of a tree.

    >>> structure((1.0, [2.0]))
    TreeDef((*, [*]))
    """
    return flatten(tree, is_leaf)[1]


def flatten_with_path(tree: Any, is_leaf: _IsLeaf = None) -> tuple[list[tuple[Path, Any]], TreeDef]:
    """Takes a tree apart into pairs of path and leaf, and its structure.

    >>> flatten_with_path({"w": [1.0]})
    ([((DictKey('w'), SequenceKey(0)), 1.0)], TreeDef({'w': [*]}))
    """
    found, treedef = flatten(tree, is_leaf)
    paths = [path for path, (kind, *_) in zip(treedef._paths(), treedef._nodes) if kind is _LEAF]
    return list(zip(paths, found)), treedef


def leaves_with_path(tree: Any, is_leaf: _IsLeaf = None) -> list[tuple[Path, Any]]:
    """Gives the pairs of path and leaf of a tree.

    >>> leaves_with_path({"w": [1.0]})
    [((DictKey('w'), SequenceKey(0)), 1.0)]
    """
    return flatten_with_path(tree, is_leaf)[0]


def _flatten_up_to(treedef: TreeDef, tree: Any, expected: str, found: str) -> list[Any]:
    """Gives the subtrees of a tree that stand where a structure has its leaves."""
    subtrees: list[Any] = []
    pending = [tree]
    for index, (kind, static, arity) in enumerate(treedef._nodes):
        subtree = pending.pop()
        if kind is _LEAF:
            subtrees.append(subtree)
            continue
        actual = _kinds[type(subtree)]
        children, actual_static = actual.flatten(subtree)
        if actual is not kind or len(children) != arity or not _same_static(actual_static, static):
            leaf = f"a leaf of type {type(subtree).__qualname__}"
            shown = leaf if actual is _LEAF else actual.show(actual_static, ["..."] * len(children))
            raise ValueError(
                f"trees differ at {keystr(treedef._paths()[index]) or 'the root'}: {expected} has "
                f"{kind.show(static, ['...'] * arity)}, but {found} has {shown}\n"
                f"  {expected}: {treedef!r}\n  {found}: {structure(tree)!r}"
            )
        pending += children[::-1]
    return subtrees


def map(f: _Function, tree: Any, *rest: Any, is_leaf: _IsLeaf = None) -> Any:
    """Builds the tree of the results of a function on every leaf.

    Args:
        f: called with a leaf of `tree` and the subtree at the same path of each of `rest`.
        tree: gives the result its structure.
        rest: trees of that structure, or whose structure goes on below its leaves.
        is_leaf: as in `flatten`; asked about `tree` only.
    Raises:
        ValueError: one of `rest` differs in structure; names the path.

    >>> map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    found, treedef = flatten(tree, is_leaf)
    columns = [_flatten_up_to(treedef, t, "tree 0", f"tree {i}") for i, t in enumerate(rest, 1)]
    return treedef.unflatten(builtins.map(f, found, *columns))


def map_with_path(f: _Function, tree: Any, *rest: Any, is_leaf: _IsLeaf = None) -> Any:
    """Does as `map`, with the path of the leaf for the first argument of the function.

    >>> map_with_path(lambda path, x: keystr(path), {"w": [1, 2]})
    {'w': ["['w'][0]", "['w'][1]"]}
    """
    paths = iter([path for path, _ in leaves_with_path(tree, is_leaf)])
    return map(lambda *leaves: f(next(paths), *leaves), tree, *rest, is_leaf=is_leaf)


def reduce(f: _Function, tree: Any, *initial: Any, is_leaf: _IsLeaf = None) -> Any:
    """Combines the leaves from left to right, as `functools.reduce` does.

    >>> reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, 10)
    16
    """
    return functools.reduce(f, leaves(tree, is_leaf), *initial)


def all(tree: Any, is_leaf: _IsLeaf = None) -> bool:
    """Says whether every leaf is true.

    >>> all({"a": True, "b": [True, False]})
    False
    """
    return builtins.all(leaves(tree, is_leaf))


def transpose(outer: TreeDef, inner: TreeDef, tree: Any) -> Any:
    """Turns a tree of trees inside out.

    Args:
        outer, inner: the structures of `tree` from its root, and of each subtree below.
        tree: the tree.
    Raises:
        ValueError: the tree is not built so; names the path.

    >>> rows = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    >>> transpose(structure([0, 0]), structure({"x": 0, "y": 0}), rows)
    {'x': [1, 3], 'y': [2, 4]}
    """
    size = inner.num_leaves
    nodes = [n for node in outer._nodes for n in (inner._nodes if node[0] is _LEAF else (node,))]
    flat = _flatten_up_to(TreeDef(nodes, outer.num_leaves * size), tree, "inner in outer", "tree")
    return inner.unflatten([outer.unflatten(flat[start::size]) for start in range(size)])


def broadcast_prefix(prefix: Any, tree: Any, is_leaf: _IsLeaf = None) -> list[Any]:
    """Gives for each leaf of a tree the leaf of a prefix that stands at or above it.

    Args:
        prefix: a tree whose structure `tree` has from its root, down to the leaves of `prefix`.
        tree: the full tree.
        is_leaf: as in `flatten`; asked about `prefix` only.
    Raises:
        ValueError: `tree` does not begin as `prefix` does; names the path.

    >>> broadcast_prefix((0, None), ([1, 2], 3), is_leaf=lambda x: x is None)
    [0, 0, None]
    """
    found, treedef = flatten(prefix, is_leaf)
    subtrees = _flatten_up_to(treedef, tree, "prefix", "tree")
    return [leaf for leaf, subtree in zip(found, subtrees) for _ in leaves(subtree)]


prefix_flatten = broadcast_prefix
