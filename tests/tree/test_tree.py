"""Trees: round trips, structures, paths, prefixes, registration, and every error's full text."""

import copy
import dataclasses
import functools
import operator
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict, defaultdict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from functensor import tree


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    w: Any
    act: Any = dataclasses.field(default="relu", metadata={"static": True})
    b: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    start: Any
    derived: Any = dataclasses.field(init=False)
    shared: ClassVar[str] = "no field"
    seed: dataclasses.InitVar[int] = 0

    def __post_init__(self, seed):
        object.__setattr__(self, "derived", ("derived", self.start, seed))


@functools.partial(tree.register_dataclass, data_fields=["w", "rate"], meta_fields=["size"])
@dataclasses.dataclass
class Module:
    size: Any
    rate: Any
    w: Any


class Pair:
    def __init__(self, first, second, note):
        self.first, self.second, self.note = first, second, note

    def __repr__(self):
        return f"Pair({self.first!r}, {self.second!r}, {self.note!r})"


tree.register(
    Pair,
    lambda pair: ((pair.first, pair.second), pair.note),
    lambda note, children: Pair(*children, note),
    keys=lambda note: [tree.AttributeKey("first"), tree.DictKey(note)],
)


class Box(list):
    """Registered without keys."""


tree.register(Box, lambda box: (box, None), lambda _, children: Box(children))


class Leaf:
    def __init__(self, content):
        self.content = content


KEYS = st.text(max_size=2)


def nodes(children):
    mappings = st.dictionaries(KEYS, children, max_size=4)
    lists = st.lists(children, max_size=4)
    mixed_keys = st.integers() | KEYS | st.tuples(st.integers())
    return st.one_of(
        lists, lists.map(tuple), lists.map(Box), mappings, mappings.map(OrderedDict),
        st.dictionaries(mixed_keys, children, max_size=4),
        st.builds(defaultdict, st.sampled_from([None, list]), mappings),
        st.builds(Point, children, children),
        st.builds(Layer, children, st.sampled_from(["relu", "tanh"]), children),
        st.builds(Frozen, children),
        st.builds(Module, st.integers(), children, children),
        st.builds(Pair, children, children, KEYS),
    )  # fmt: skip


LEAVES = st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.booleans()
TREES = st.recursive(LEAVES | st.none(), nodes, max_leaves=20)


def error_of(kind, function, *args, **kwargs):
    with pytest.raises(kind) as caught:
        function(*args, **kwargs)
    return str(caught.value)


def is_none(node):
    return node is None


def nested(depth):
    return functools.reduce(lambda inner, _: [inner], range(depth), 0)


# Flattening and building again


@pytest.mark.parametrize("is_leaf", [None, is_none])
@given(node=TREES)
def test_round_trip(node, is_leaf):
    leaves, treedef = tree.flatten(node, is_leaf)
    # The text shows node classes, static fields and the insertion order of dicts.
    assert repr(treedef.unflatten(leaves)) == repr(node)
    assert repr(tree.unflatten(treedef, iter(leaves))) == repr(node)
    assert (leaves, treedef) == (tree.leaves(node, is_leaf), tree.structure(node, is_leaf))
    assert treedef.num_leaves == len(leaves)


@given(TREES)
def test_structure_keeps_with_new_leaves_and_copies(node):
    treedef = tree.structure(node)
    fresh = [object() for _ in range(treedef.num_leaves)]
    leaves, again = tree.flatten(treedef.unflatten(fresh))
    assert all(map(operator.is_, leaves, fresh))
    for other in (again, copy.deepcopy(treedef), pickle.loads(pickle.dumps(treedef))):
        assert other == treedef
        assert hash(other) == hash(treedef)
        assert repr(other) == repr(treedef)


@pytest.mark.parametrize(
    "node",
    [
        1, None, [], (), {}, [1, (2, None), [3]], {"b": 2, "a": 1}, {"b": 1, 0: 2, "a": 3},
        OrderedDict(b=1, a=2), defaultdict(int, b=2, a=1), Point(1, [2]), Layer(1, "tanh", 2),
        Module(0, 2, 1), Pair(1, 2, "note"), Box([1, 2]),
    ],
)  # fmt: skip
def test_order_of_leaves(node):
    leaves = tree.leaves(node)
    assert leaves == list(range(1, len(leaves) + 1))


def test_other_objects_are_leaves():
    names, twins = type("Names", (dict,), {}), type("Twins", (Pair,), {})
    leaves = [names(a=1), twins(1, 2, 3), np.ones(3), {1, 2}, "ab", Layer, Point, range(3)]
    assert list(map(operator.is_, tree.leaves(leaves), leaves)) == [True] * len(leaves)


def test_is_leaf_stops_at_nodes_and_the_root():
    node = {"a": [1, 2], "b": (3, [4])}
    leaves, treedef = tree.flatten(node, is_leaf=lambda part: isinstance(part, list))
    assert leaves == [[1, 2], 3, [4]]
    assert repr(treedef) == "TreeDef({'a': *, 'b': (*, *)})"
    assert tree.flatten(node, is_leaf=lambda part: True) == ([node], tree.structure(0))


def test_dataclasses_are_built_without_running_their_code():
    class Dense(Layer):
        def double(self):
            return 2 * self.w

    rebuilt = tree.structure(Frozen(1)).unflatten("abcd")
    assert (rebuilt.start, rebuilt.derived) == ("a", ("b", "c", "d"))
    assert tree.map(lambda x: x + 1, Dense(1)).double() == 4


def test_any_depth():
    treedef = tree.structure(nested(50_000))
    assert tree.leaves(treedef.unflatten([7])) == [7]
    assert treedef == tree.structure(nested(50_000)) != tree.structure(nested(49_999))
    assert hash(treedef) == hash(tree.structure(nested(50_000)))
    assert repr(treedef) == f"TreeDef({'[' * 50_000}*{']' * 50_000})"
    assert tree.keystr(tree.leaves_with_path(nested(600))[0][0]) == "[0]" * 600
    error = error_of(ValueError, tree.map, operator.add, nested(600), nested(599))
    assert error.startswith(f"trees differ at {'[0]' * 599}: tree 0 has [...], but tree 1 has a le")


def test_tree_that_contains_itself(monkeypatch):
    monkeypatch.setattr(tree.containers, "_MAX_NODES", 100)
    node: list[Any] = [1]
    node.append({"again": node})
    error = error_of(RecursionError, tree.flatten, node)
    assert error == "a tree of over 100 nodes: does it contain itself?"
    assert tree.leaves([0] * 1000) == [0] * 1000


# TreeDef

SHOWN = [
    (0, "*"), (None, "None"), ([], "[]"), ((), "()"), ({}, "{}"), ([0], "[*]"), ((0,), "(*,)"),
    ((0, [None]), "(*, [None])"), ({"b": 0, "a": (0,)}, "{'a': (*,), 'b': *}"),
    (OrderedDict(b=0, a=0), "OrderedDict({'b': *, 'a': *})"),
    (OrderedDict(a=0, b=0), "OrderedDict({'a': *, 'b': *})"),
    (defaultdict(int, a=0), "defaultdict('a': *, default_factory=<class 'int'>)"),
    (defaultdict(None, a=0), "defaultdict('a': *, default_factory=None)"),
    (Point(0, 0), "Point(x=*, y=*)"), (namedtuple("Other", "x y")(0, 0), "Other(x=*, y=*)"),
    (Layer(0, "tanh", [0]), "Layer(w=*, b=[*], act='tanh')"),
    (Layer(0, "relu", [0]), "Layer(w=*, b=[*], act='relu')"),
    (Module(1, 0, 0), "Module(w=*, rate=*, size=1)"), (Box([0]), "Box(*, static=None)"),
    (Pair(0, 0, "k"), "Pair(first=*, 'k': *, static='k')"),
    (Pair(0, 0, "m"), "Pair(first=*, 'm': *, static='m')"),
]  # fmt: skip


def test_repr_equality_and_hash():
    treedefs = [tree.structure(node) for node, _ in SHOWN]
    again = [tree.structure(copy.deepcopy(node)) for node, _ in SHOWN]
    for i, (one, (_, shown)) in enumerate(zip(treedefs, SHOWN, strict=True)):
        assert repr(one) == f"TreeDef({shown})"
        assert [one == other for other in again] == [i == j for j in range(len(again))]
    assert len({*treedefs, *again}) == len(SHOWN)
    assert tree.structure([node for node, _ in SHOWN]).children() == treedefs
    assert treedefs[0].children() == treedefs[1].children() == []
    assert tree.structure([0]) != "TreeDef([*])"
    for name in ("num_leaves", "anything"):
        assert name in error_of(AttributeError, setattr, treedefs[0], name, 5)


@given(st.permutations("abcd"))
def test_insertion_order_of_dicts_does_not_count(keys):
    node = {key: ord(key) for key in keys}
    assert len({tree.structure(node), tree.structure(dict.fromkeys("abcd", 0))}) == 1
    assert tree.leaves(node) == [97, 98, 99, 100]
    summed = tree.map(operator.add, node, dict.fromkeys("dcba", 1))
    assert [*summed.items()] == [(key, ord(key) + 1) for key in keys]


def test_wrong_number_of_leaves():
    treedef = tree.structure({"a": 1, "b": [2]})
    text = "TreeDef({'a': *, 'b': [*]}) has 2 leaves, got "
    assert error_of(ValueError, treedef.unflatten, [1]) == text + "1"
    assert error_of(ValueError, tree.unflatten, treedef, [1, 2, 3]) == text + "3"
    assert error_of(ValueError, tree.structure(()).unflatten, [1]).endswith("has 0 leaves, got 1")


def test_unfit_static_data():
    assert error_of(TypeError, hash, tree.structure([Layer(1, ["relu"])])) == (
        "TreeDef([Layer(w=*, b=None, act=['relu'])]) needs hashable static data, like tuples: "
        "unhashable type: 'list'"
    )
    one, other = Module(np.ones(2), 1, 1), Module(np.ones(2), 1, 1)
    text = "static data must compare by == to a bool: make arrays children"
    assert error_of(TypeError, operator.eq, tree.structure(one), tree.structure(other)) == text
    assert error_of(TypeError, tree.map, operator.add, one, other) == text
    assert tree.map(operator.add, one, one).w == 2


# Mapping


@given(TREES)
def test_map(node):
    assert repr(tree.map(lambda x: x, node)) == repr(node)
    treedef = tree.structure(node)
    numbers = treedef.unflatten(range(treedef.num_leaves))
    summed = tree.map(lambda x, y, z: x + y + z, numbers, numbers, numbers)
    assert tree.structure(summed) == treedef
    assert tree.leaves(summed) == [3 * number for number in range(treedef.num_leaves)]


def test_map_over_deeper_trees_and_none():
    assert tree.map(lambda x, y: (x, y), [1, 2], [[3, 4], None]) == [(1, [3, 4]), (2, None)]
    assert tree.map(is_none, [None, 1], is_leaf=is_none) == [True, False]
    assert tree.map(lambda x: x + 1, [None, 1]) == [None, 2]


@pytest.mark.parametrize(
    ("one", "two", "where", "has", "but"),
    [
        ([1, 2], (1, 2), "the root", "[..., ...]", "(..., ...)"),
        ([1], 5, "the root", "[...]", "a leaf of type int"),
        ([1, 2], [1], "the root", "[..., ...]", "[...]"),
        ({"a": 1}, {"b": 1}, "the root", "{'a': ...}", "{'b': ...}"),
        ({"w": [Layer(1, b=[2])]}, {"w": [Layer(1, b=[])]}, "['w'][0].b", "[...]", "[]"),
        (Point(1, None), Point(1, 2), ".y", "None", "a leaf of type int"),
        ([Module(1, 2, 3)], [Module(4, 2, 3)], "[0]",
         "Module(w=..., rate=..., size=1)", "Module(w=..., rate=..., size=4)"),
        ([0, (1,), [2], 3], [0, 1, 2, 3], "[1]", "(...,)", "a leaf of type int"),
        (Pair(1, [2], "k"), Pair(1, {}, "k"), "['k']", "[...]", "{}"),
    ],
)  # fmt: skip
def test_first_path_that_differs(one, two, where, has, but):
    first, second = tree.structure(one), tree.structure(two)

    def text_of(expected, found):
        return (
            f"trees differ at {where}: {expected} has {has}, but {found} has {but}\n"
            f"  {expected}: {first!r}\n  {found}: {second!r}"
        )

    assert error_of(ValueError, tree.map, operator.add, one, two) == text_of("tree 0", "tree 1")
    by_path = functools.partial(tree.map_with_path, lambda path, *leaves: leaves)
    assert error_of(ValueError, by_path, one, one, two) == text_of("tree 0", "tree 2")
    assert error_of(ValueError, tree.broadcast_prefix, one, two) == text_of("prefix", "tree")
    transpose = functools.partial(tree.transpose, first, tree.structure(0))
    assert error_of(ValueError, transpose, two) == text_of("inner in outer", "tree")
    text = error_of(ValueError, tree.transpose, *map(tree.structure, ([0], {"x": 0})), [{"y": 0}])
    assert text.startswith("trees differ at [0]: inner in outer has {'x': ...}, but tree has {'y'")


def test_reduce_and_all():
    assert tree.reduce(operator.add, {"a": "x", "b": ["y", "z"]}) == "xyz"
    assert tree.reduce(operator.add, [1, [2, 3]], 10) == 16
    assert tree.reduce(lambda count, _: count + 1, [None, 1], 0, is_leaf=is_none) == 2
    assert [tree.all(node) for node in ([1, {"a": 1}], [1, {"a": 0}], None)] == [True, False, True]


@given(TREES, TREES)
def test_transpose(one, two):
    outer, inner = tree.structure(one), tree.structure(two)
    rows, columns = range(outer.num_leaves), range(inner.num_leaves)
    node = outer.unflatten([inner.unflatten([f"{r} {c}" for c in columns]) for r in rows])
    turned = inner.unflatten([outer.unflatten([f"{r} {c}" for r in rows]) for c in columns])
    assert repr(tree.transpose(outer, inner, node)) == repr(turned)


# Paths


def test_paths():
    node = {
        "p": Point(1, [2]), 3: (4, None), "f": Frozen(0), "b": Box([5]), "c": Pair(6, 7, "k"),
        "d": defaultdict(int, z=8), "o": OrderedDict(y=9), "m": Module(0, 10, 11),
    }  # fmt: skip
    pairs, treedef = tree.flatten_with_path(node)
    assert (pairs, treedef) == (tree.leaves_with_path(node), tree.structure(node))
    assert {tree.keystr(path): leaf for path, leaf in pairs} == {
        "['p'].x": 1, "['p'].y[0]": 2, "[3][0]": 4, "['f'].start": 0, "['f'].derived[0]": "derived",
        "['f'].derived[1]": 0, "['f'].derived[2]": 0, "['b'][0]": 5, "['c'].first": 6,
        "['c']['k']": 7, "['d']['z']": 8, "['o']['y']": 9, "['m'].w": 11, "['m'].rate": 10,
    }  # fmt: skip
    assert tree.leaves_with_path(5) == [((), 5)]
    assert tree.keystr(()) == ""


@given(TREES)
def test_paths_lead_to_their_leaves(node):
    pairs = tree.leaves_with_path(node, is_leaf=is_none)
    for path, leaf in pairs:
        found = node
        for entry in path:
            if isinstance(found, Pair):
                found = found.first if entry == tree.AttributeKey("first") else found.second
            elif isinstance(entry, tree.AttributeKey):
                found = getattr(found, entry.value)
            else:
                found = found[entry.value]
        assert found is leaf
    named = tree.map_with_path(lambda path, leaf: Leaf(path), node, is_leaf=is_none)
    assert [leaf.content for leaf in tree.leaves(named)] == [path for path, _ in pairs]
    assert len({path for path, _ in pairs}) == len(pairs)


def test_path_entries():
    entries = [tree.DictKey(0), tree.SequenceKey(0), tree.AttributeKey("x"), tree.DictKey("x")]
    for i, entry in enumerate(entries):
        assert [entry == other for other in entries] == [i == j for j in range(4)]
        assert pickle.loads(pickle.dumps(entry)) == entry
    assert len({*entries, *copy.deepcopy(entries)}) == 4
    assert repr(entries) == "[DictKey(0), SequenceKey(0), AttributeKey('x'), DictKey('x')]"
    assert "value" in error_of(AttributeError, setattr, entries[0], "value", 1)


# Prefixes


@given(TREES)
def test_a_leaf_and_the_tree_itself_are_prefixes(node):
    leaves, treedef = tree.flatten(node)
    assert tree.broadcast_prefix(7, node) == [7] * len(leaves)
    numbers = treedef.unflatten(range(len(leaves)))
    assert tree.prefix_flatten(numbers, node) == list(range(len(leaves)))


def test_broadcast_prefix():
    full = ({"w": 1, "b": [2, 3]}, 4, None)
    spread = functools.partial(tree.broadcast_prefix, is_leaf=is_none)
    assert spread((0, None, 1), full) == [0, 0, 0, None]
    assert spread(({"w": 0, "b": None}, 1, None), full) == [None, None, 0, 1]
    assert spread(None, full) == [None] * 4
    error = error_of(ValueError, tree.broadcast_prefix, (0, None), (1, 2))
    assert error.startswith("trees differ at [1]: prefix has None, but tree has a leaf of type int")


# Registration


def test_registering_twice_is_refused():
    once = type("Once", (), {})
    register = functools.partial(tree.register, flatten=lambda node: ((), None), unflatten=once)
    assert register(once) is once
    for cls in (once, Pair, Module, list, dict, OrderedDict, type(None)):
        text = f"{cls.__qualname__} is registered as a tree node already"
        assert error_of(ValueError, register, cls) == text
    assert error_of(ValueError, tree.register_dataclass, Module).startswith("Module is registered")


def test_registering_a_class_seen_before():
    late = type("Late", (), {})
    data = dataclasses.make_dataclass("Data", ["x", "y"])
    node = late()
    assert tree.leaves([node, data(1, 2)]) == [node, 1, 2]
    tree.register(late, lambda node: ([3], None), lambda _, children: late())
    tree.register_dataclass(data, ["y"], ["x"])
    assert tree.leaves([node, data(1, 2)]) == [3, 2]


def test_static_fields_by_metadata():
    @tree.register_dataclass
    @dataclasses.dataclass
    class Wide(Layer):
        c: int = 0

    leaves, treedef = tree.flatten(Wide(1, "tanh", 2, 3))
    assert leaves == [1, 2, 3]
    assert treedef.unflatten([4, 5, 6]) == Wide(4, "tanh", 5, 6)
    assert treedef != tree.structure(Wide(1, "relu", 2, 3))


@pytest.mark.parametrize(
    ("data", "meta", "named"),
    [
        (["x"], [], ["x"]),
        (["x", "y"], ["y"], ["x", "y", "y"]),
        (None, ["z"], ["x", "y", "z"]),
        (["x", "y", "z"], None, ["x", "y", "z"]),
    ],
)
def test_register_dataclass_wants_every_field_once(data, meta, named):
    cls = dataclasses.make_dataclass("Data", ["x", "y"])
    error = error_of(ValueError, tree.register_dataclass, cls, data, meta)
    assert error == f"{named} must be the fields of Data: ['x', 'y']"
    assert tree.leaves(tree.register_dataclass(cls)(1, 2)) == [1, 2]
    error = error_of(TypeError, tree.register_dataclass, Leaf)
    assert error == "must be called with a dataclass type or instance"


def test_keys_of_the_wrong_number():
    cls = type("Three", (), {})
    tree.register(cls, lambda _: ((1, 2, 3), None), cls, keys=lambda _: [tree.DictKey(0)])
    error = error_of(ValueError, tree.leaves_with_path, cls())
    assert error == "a node with 3 children has the keys [DictKey(0)]"


def test_of_threads_that_register_a_class_one_wins():
    workers = 8
    with ThreadPoolExecutor(workers) as pool:
        for _ in range(100):
            cls = type("Contested", (), {})
            barrier = threading.Barrier(workers)

            def attempt(number, cls=cls, barrier=barrier):
                barrier.wait()
                tree.leaves(cls())
                try:
                    tree.register(cls, lambda _: ((number,), None), lambda *_: cls())
                except ValueError:
                    return []
                return [number]

            winners = [number for won in pool.map(attempt, range(workers)) for number in won]
            assert len(winners) == 1
            assert tree.leaves(cls()) == winners


def test_registering_a_class_while_it_is_looked_at():
    class Meta(type):
        def __getattr__(cls, name):
            if name == "__dataclass_fields__":
                tree.register(cls, lambda _: ((1,), None), lambda *_: cls())
            raise AttributeError(name)

    assert tree.leaves(Meta("Raced", (), {})()) == [1]


def test_import_brings_only_the_standard_library():
    source = (
        "import sys; package = sys.modules['functensor'] = type(sys)('functensor')\n"
        "package.__path__ = [sys.argv[1]]; import functensor.tree\n"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('functensor', 'numpy', 'dataclasses')])"
    )
    command = [sys.executable, "-c", source, tree.__file__.rpartition("/tree/")[0]]
    wanted = [f"functensor{name}" for name in ("", ".tree.containers", ".tree.vector", ".tree")]
    assert subprocess.check_output(command, text=True).strip() == str(wanted)
