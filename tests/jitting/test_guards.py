"""Guards, which compare a call with the last one, and functions that put its result together."""

from collections import namedtuple

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.backends import get as get_backend
from functensor.jitting.guard import UNLIKE, guard, guard_source, unguarded
from functensor.primitives.core.buffers import BY_BUFFER, wrap

Pair = namedtuple("Pair", "a b")
X = numpy.arange(4.0)


def arrays(count):
    return [np.full(4, float(i)) for i in range(count)]


def counted(fun):
    """Returns a function that notes each time that it is staged, and the notes."""
    seen = []

    def noted(*args, **kwargs):
        seen.append(1)
        return fun(*args, **kwargs)

    return ft.jit(noted), seen


TREES = {
    "a dict": lambda v: {f"k{i}": x for i, x in enumerate(v)},
    "a dict of two": lambda v: {"b": v[0], "a": v[1]},
    "a dict without an order": lambda v: {1: v[0], "a": v[1], None: v[2]},
    "a large dict": lambda v: {f"k{i}": [v[i % 9]] for i in range(40)},
    "a list": list,
    "a list of two": lambda v: v[:2],
    "a tuple of one": lambda v: (v[0],),
    "a named tuple": lambda v: Pair(v[0], [v[1]]),
    "nothing": lambda v: {"a": (), "b": [], "c": None, "d": {}},
    "numbers": lambda v: {"x": v[0], "n": 2, "y": [1.5, True], "z": v[1]},
    "NumPy's arrays": lambda v: {"x": numpy.asarray(v[0]), "y": v[1]},
}


@pytest.mark.parametrize("name", TREES)
def test_trees_come_back_as_they_were(name):
    f, seen = counted(lambda tree: tree)
    given = TREES[name](arrays(9))
    for _ in range(3):
        out = f(given)
        assert ft.tree.structure(out) == ft.tree.structure(given)
        assert not given or out is not given
        for x, y in zip(ft.tree.leaves(out), ft.tree.leaves(given), strict=True):
            assert isinstance(x, ft.Array)
            numpy.testing.assert_array_equal(x, y)
            assert not isinstance(y, ft.Array) or x is y
    assert len(seen) == 1
    assert f._last.guard is not unguarded


def test_arguments_and_what_is_computed_of_them_are_put_in_their_places():
    def fun(t):
        return {"old": t["b"], "new": [t["a"] + 1, t["a"]], "sum": t["a"] + t["b"]}

    f, seen = counted(fun)
    for a, b in ((1.0, 2.0), (5.0, 7.0)):
        given = {"a": np.full(3, a), "b": np.full(3, b)}
        out = f(given)
        assert out["old"] is given["b"]
        assert out["new"][1] is given["a"]
        assert out["new"][0].tolist() == [a + 1] * 3
        assert out["sum"].tolist() == [a + b] * 3
    assert len(seen) == 1


def test_an_array_of_numpy_that_is_passed_through_is_not_shared():
    f = ft.jit(lambda x, y: (x, y))
    for given in (np.ones(3), numpy.ones(3), np.ones(3), numpy.ones(3)):
        out = f(given, 2.0)[0]
        if isinstance(given, numpy.ndarray):
            given[:] = 7
        assert out.tolist() == [1.0, 1.0, 1.0]


def test_the_order_of_a_dict_is_no_other_kind():
    f, seen = counted(lambda t: t["a"] - 10 * t["b"])
    for given in ({"a": np.ones(3), "b": np.zeros(3)}, {"b": np.zeros(3), "a": np.ones(3)}) * 2:
        assert f(given).tolist() == [1.0, 1.0, 1.0]
    many = {f"k{i}": x for i, x in enumerate(arrays(9))}
    g, staged = counted(lambda t: t["k0"] - t["k8"])
    for given in (many, dict(reversed(many.items()))) * 2:
        assert g(given).tolist() == [-8.0] * 4
    assert len(seen) == len(staged) == 1


def test_a_number_of_arguments_is_told_apart():
    f, seen = counted(lambda *args, **named: [x + 1 for x in (*args, *named.values())])
    for _ in range(3):
        for args, named in (((X,), {}), ((X, X), {}), ((), {"x": X}), ((), {}), ((X,), {"x": X})):
            assert len(f(*args, **named)) == len(args) + len(named)
    assert len(seen) == 5


def test_arrays_of_many_kinds_keep_their_places():
    kinds = [((), "float64"), ((3,), "float32"), ((2, 3), ">f4"), ((3,), "int32"), ((0,), "bool")]
    tree = [[np.zeros(*kind), numpy.ones(*kind), 2, 0.5] for kind in kinds * 3]
    f, seen = counted(lambda tree: [[b, a * 2, d, c] for a, b, c, d in tree])
    for _ in range(3):
        for (b, a, d, c), (x, y, *_) in zip(f(tree), tree, strict=True):
            assert (a.shape, b.shape, c.item(), d.item()) == (x.shape, y.shape, 2, 0.5)
            assert (a.dtype, b.dtype) == ((x * 2).dtype, y.dtype)
    assert len(seen) == 1
    assert f._last.guard is not unguarded
    for i, j in ((0, 0), (3, 1), (14, 0)):
        other = [[*row] for row in tree]
        other[i][j] = other[i][j].reshape(1, *other[i][j].shape)
        assert f._last.guard((other,), {}) is UNLIKE
        other[i][j] = tree[i][j].astype("complex64")
        assert f._last.guard((other,), {}) is UNLIKE
    tree[0][2] = 2**70
    with pytest.raises(OverflowError, match="71 bits"):
        f(tree)


def test_a_key_more_is_found_in_every_dict():
    tree = {f"k{i}": {"a": np.full(2, float(i)), "b": {}} for i in range(40)}
    f, seen = counted(lambda tree: ft.tree.map(lambda x: x + 1, tree))
    for _ in range(3):
        f(tree)
    entry = f._last
    assert entry.guard not in (None, unguarded)
    for place in (tree, tree["k0"], tree["k39"], tree["k20"]["b"]):
        place["c"] = np.ones(1)
        assert entry.guard((tree,), {}) is UNLIKE
        assert ft.tree.structure(f(tree)) == ft.tree.structure(tree)
        del place["c"]
    assert ft.tree.structure(f(tree)) == ft.tree.structure(tree)
    assert len(seen) == 5


def test_the_first_call_makes_no_guard():
    f = ft.jit(lambda x: x * 1)
    f(X)
    assert f._last.guard is None
    ft.grad(lambda x: np.sum(f(x)))(X)
    assert f._last.guard is None
    f(X)
    assert f._last.guard not in (None, unguarded)


OTHERS = {
    "a key more": {"a": X, "b": X, "c": X},
    "another key": {"a": X, "c": X},
    "a key less": {"a": X},
    "no dict": [X, X],
    "another shape": {"a": X[:3], "b": X[:3]},
    "another dtype": {"a": X.astype("float32"), "b": X},
    "a number": {"a": 1.0, "b": X},
    "a tree below": {"a": [X], "b": X},
    "nothing": {"a": None, "b": X},
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("make", [np.asarray, lambda x: x], ids=["ours", "NumPy's"])
def test_what_differs_is_told_apart(name, make):
    def fun(tree):
        return sum((np.sum(x) for x in ft.tree.leaves(tree)), np.zeros(()))

    f, seen = counted(fun)
    first = {"a": make(X), "b": make(X)}
    other = ft.tree.map(lambda x: make(x) if isinstance(x, numpy.ndarray) else x, OTHERS[name])
    for given in (first, first, other, other, first):
        numpy.testing.assert_array_equal(f(given), fun(given))
    assert len(seen) == 2


def test_an_object_that_only_looks_like_an_array_is_refused():
    class Lookalike:
        _data = numpy.ones(3)

    f = ft.jit(lambda x: x * 1)
    f(np.ones(3))
    with pytest.raises(TypeError, match="is of type Lookalike, not an array"):
        f(Lookalike())
    assert f(np.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_deep_trees_need_no_guard():
    tree = np.ones(3)
    for _ in range(400):
        tree = [tree]
    f = ft.jit(lambda tree: ft.tree.leaves(tree)[0] * 2)
    for _ in range(3):
        assert f(tree).tolist() == [2.0, 2.0, 2.0]

    def nested(x):
        for _ in range(400):
            x = [x]
        return x

    g = ft.jit(nested)
    for _ in range(3):
        assert ft.tree.leaves(g(np.ones(3)))[0].tolist() == [1.0, 1.0, 1.0]


class Turned(namedtuple("Turned", "a b")):
    """Has its leaves in another order."""


class Reversed(namedtuple("Reversed", "a b")):
    """Is gone over from behind."""

    def __iter__(self):
        return iter((self.b, self.a))


class Scaled(namedtuple("Scaled", "a b")):
    """Changes what it is made of."""

    def __new__(cls, a, b):
        return super().__new__(cls, a * 10, b)


class Shaped:
    """Looks at what it is made of."""

    def __init__(self, a):
        self.a, self.n = a, a.ndim


ft.tree.register(Turned, lambda p: ([p.b, p.a], None), lambda _, c: Turned(c[1], c[0]))
ft.tree.register(Shaped, lambda p: ([p.a], None), lambda _, c: Shaped(*c))


@pytest.mark.parametrize("kind", [Turned, Reversed, Scaled])
def test_named_tuples_of_the_users_are_what_they_are_to_trees(kind):
    p = kind(np.asarray(10.0), np.asarray(1.0))
    for f in (lambda p: p.a - 2 * p.b, lambda p: p, lambda p: kind(p.b, p.a * 3)):
        jitted, want = ft.jit(f), ft.tree.leaves(f(p))
        for _ in range(4):
            assert ft.tree.leaves(jitted(p)) == want


def test_registered_classes_of_results_are_made_of_what_is_computed():
    f = ft.jit(lambda x: {"p": Shaped(x * 2), "x": [x]})
    for _ in range(4):
        out = f(X)
        assert (out["p"].n, out["p"].a.tolist()) == (1, (X * 2).tolist())


def test_an_array_of_numpys_that_is_returned_twice_is_one():
    f = ft.jit(lambda x: (x, [x, x + 1]))
    for _ in range(4):
        a, (b, _) = f(X)
        assert a is b
        assert not numpy.shares_memory(a, X)


@pytest.mark.parametrize(
    ("static", "other"),
    [(1.5, 2.5), (0.0, -0.0), ((1, "a"), (1.0, "a")), ((0.0, ()), (-0.0, ())), (True, 1)],
)
def test_equal_static_arguments_are_the_same(static, other):
    f = ft.jit(lambda x, how: x + (how if type(how) is not tuple else how[0]), static_argnums=1)
    for _ in range(3):
        f(X, static)
    entry = f._last
    equal = eval(repr(static))
    assert entry.guard((X, equal), {}) is not UNLIKE
    assert entry.guard((X, other), {}) is UNLIKE


def test_several_arguments_by_name():
    f, seen = counted(lambda x, y, z: {"a": x + z, "b": y})
    for _ in range(3):
        f(x=X, y=2.0, z=X)
    assert f._last.guard((), {"x": X, "y": 3.0, "z": X}) is not UNLIKE
    assert f._last.guard((), {"y": 3.0, "x": X, "z": X}) is UNLIKE
    assert f(z=X, y=3.0, x=X)["b"] == 3.0
    assert len(seen) == 1


def test_very_wide_trees_need_no_guard():
    f = ft.jit(lambda tree: tree)
    for _ in range(3):
        assert len(f([1.0] * 5000)) == 5000
    assert f._last.guard is unguarded


def test_the_text_of_a_guard_tells_the_ways_to_the_leaves_and_the_values_of_constants():
    f = ft.jit(lambda p, rest, how, lr: (p["w"] - lr, rest[1]), static_argnames="how")
    for _ in range(3):
        f({"w": X, "not a word": 1.0}, [X, Pair(X, 2.0)], how="plain", lr=0.5)
    code, legend = guard_source(f._last.guard).split("\n\n")
    for line in (
        "a0_w = a0['w']",
        "(a1_0, a1_1,) = a1",
        "(a1_1_0, a1_1_1,) = a1_1",
        "kw_lr = kwargs",
    ):
        assert line in code
    assert "# static_ = 'plain'" in legend
    assert "test_guards.Pair" in legend
    assert guard_source(unguarded) == ""


def test_a_guard_that_is_not_there_yet_says_so():
    f = ft.jit(lambda x: 2 * x)
    f(1.0)
    assert "second call" in guard_source(f._last.guard)


def test_names_of_parts_of_trees_are_not_mixed_up():
    f, seen = counted(lambda t: [t[key] for key in sorted(t)])
    tree = {"w": [1.0, 2.0], "w_0": 3.0, "w_0_": {"x" * 60: 4.0}, "w_1": [[5.0]]}
    for _ in range(3):
        out = f(tree)
    assert ft.tree.leaves(out) == ft.tree.leaves(tree) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert f._last.guard is not unguarded
    assert len(seen) == 1


def test_buffers_on_devices_are_known_again(monkeypatch):
    from functensor.jitting import guard

    # NumPy's stand for those of a GPU.
    monkeypatch.setattr(guard, "DEVICE_TYPES", {numpy.ndarray: None})
    f, seen = counted(lambda xs: xs[0] + xs[1])
    xs = arrays(2)
    for _ in range(4):
        assert f(xs).tolist() == [1.0] * 4
    text = guard_source(f._last.guard)
    seen_last = f._last.guard.__globals__["seen"]
    (known,) = seen_last
    assert [of() for of in known.references] == [x._data for x in xs]
    assert f(xs).tolist() == [1.0] * 4
    assert seen_last[0] is known
    # Others of the same kind are compared, and take their places.
    ys = [np.full(4, 2.0), xs[1]]
    assert f(ys).tolist() == [3.0] * 4
    assert seen_last[0] is not known
    assert seen_last[0].references[0]() is ys[0]._data
    del ys
    assert seen_last[0].references[0]() is None
    assert f(xs).tolist() == [1.0] * 4
    # Others of another kind are not taken for them.
    assert f([x.astype("f4") for x in xs]).dtype == "float32"
    assert f([np.ones(3), np.ones(3)]).shape == (3,)
    assert f([1.0, 2.0]).tolist() == 3.0
    assert len(seen) == 4
    assert "map(is_, held_0, map(call, known_0.references))" in text


def test_plans_are_told_which_buffers_are_those_of_the_last_call(monkeypatch):
    from functensor.backends.known_buffers import KnownBuffers
    from functensor.jitting import guard

    monkeypatch.setattr(guard, "DEVICE_TYPES", {numpy.ndarray: None})
    f, _ = counted(lambda xs, n: [x * n for x in xs])
    xs = arrays(3)
    for _ in range(3):
        f(xs, 2.0)
    given = []
    compiled = f._last.compiled
    run = compiled.run

    def noted(buffers):
        given.append(buffers)
        return run(buffers)

    monkeypatch.setattr(compiled, "run", noted)
    ys = arrays(3)
    for leaves in (xs, xs, ys, ys, xs):
        assert [x.tolist() for x in f(leaves, 3.0)] == [(x * 3).tolist() for x in leaves]
    assert {type(x) for x in given} == {KnownBuffers}
    for buffers, leaves in zip(given, (xs, xs, ys, ys, xs), strict=True):
        assert all(x is y._data for x, y in zip(buffers, leaves, strict=False))
    first, again, others, others_again, back = [x.known for x in given]
    assert first is again is not others
    assert others is others_again is not back


@pytest.mark.parametrize("by_machine_code", [False, True])
def test_donated_buffers_are_known_apart(monkeypatch, by_machine_code):
    from functensor.jitting import guard
    from functensor.primitives.core.array_slots import array_slots, load_array_slots

    monkeypatch.setattr(guard, "DEVICE_TYPES", {numpy.ndarray: None})
    if by_machine_code:
        load_array_slots()
    else:
        monkeypatch.setattr(array_slots, "same", lambda *given: True)
    f = ft.jit(lambda xs, y: [x * y for x in xs], donate_argnums=0)
    first = np.full(4, 2.0)
    xs = arrays(3)
    for _ in range(3):
        xs = f(xs, first)
    seen = []
    compiled = f._last.compiled

    def in_place(buffers):
        seen.append((buffers.known, buffers.donated))
        for x in buffers[:3]:
            x *= buffers[3]
        return buffers[:3]

    monkeypatch.setattr(compiled, "run", in_place)
    others = [np.full(4, float(i)) for i in (1, 3)]
    for y in (first, first, others[0], others[1], others[1], first):
        wanted = [(x * y).tolist() for x in xs]
        xs = f(xs, y)
        assert [x.tolist() for x in xs] == wanted
    known, donated = zip(*seen, strict=True)
    assert len({*map(id, donated)}) == 1
    assert known[0] is known[1]
    assert known[3] is known[4]
    assert len({*map(id, known)}) == 4
    assert donated[0].owned
    # Another one is copied, and all of them are looked at again.
    held = xs[1]._data
    before = held.copy()
    xs = f(xs, first)
    assert seen[-1] == (None, None)
    assert held.tolist() == before.tolist()


def test_a_function_of_nothing_is_called_again():
    jitted = ft.jit(lambda: np.sin(np.ones(3)))
    for _ in range(3):
        assert np.array_equal(jitted(), np.sin(np.ones(3)))


class There(numpy.ndarray):
    """Stands for the memory of a device."""


@pytest.fixture
def on_device(monkeypatch):
    """Returns an array on a device."""
    monkeypatch.setitem(BY_BUFFER, There, get_backend("numpy"))
    return lambda n, dtype=float: wrap(numpy.full(n, n, dtype).view(There))


def test_leaves_on_devices_are_taken_together(on_device):
    def tree_of(*lengths):
        a, b, c, d, e, f = map(on_device, lengths)
        return {"w": a, "b": b}, [c, d], (e, [f])

    def run(leaves, held):
        assert [x._data is y for x, y in zip(leaves, held, strict=True)] == [True] * 6
        return [*held]

    args = tree_of(*range(1, 7))
    treedef = ft.tree.structure([0] * 6)
    one = guard(args, {}, (), run, treedef, [None] * 6, donated=(2, 3))
    for _ in range(3):
        for some in (args, tree_of(*range(1, 7))):
            assert [x.shape[0] for x in one(some, {})] == [2, 1, 3, 4, 5, 6]
    w, (c, d), rest = args
    unlike = [
        ({**w, "more": c}, [c, d], rest),
        ({"w": w["w"]}, [c, d], rest),
        ({"w": w["w"], "c": w["b"]}, [c, d], rest),
        ({"w": w["b"], "b": w["w"]}, [c, d], rest),
        (w, [c], rest),
        (w, [c, d, d], rest),
        (w, (c, d), rest),
        (w, [c, numpy.ones(4)], rest),
        (w, [c, on_device(4, int)], rest),
        (w, [c, [d]], rest),
    ]
    assert [one(some, {}) is UNLIKE for some in unlike] == [True] * len(unlike)
    assert one(args, {}) is not UNLIKE


def test_a_leaf_that_is_returned_is_found_among_those_taken_together(on_device):
    some = [on_device(n) for n in (1, 2, 3)]
    one = guard((some,), {}, (), None, ft.tree.structure([0, 0]), [2, 0])
    for _ in range(2):
        found = one((some,), {})
        assert found[0] is some[2]
        assert found[1] is some[0]
