"""Arguments and functions that ``jit`` takes; nothing that they meet leaves a trace."""

import builtins
import copy
import functools
import gc
import linecache
import operator
import pickle
import threading
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.jitting.retraces import RetraceWarning
from functensor.jitting.signature import StaticArgumentError
from functensor.primitives.core.errors import ConcretizationError, OperandError
from functensor.primitives.core.trace import slot

X = np.linspace(-1.0, 2.0, 6).reshape(2, 3)
Pair = namedtuple("Pair", "a b")


@dataclass
class Data:
    a: object
    b: object


class Trouble:
    """Raises something when it is compared, hashed, or both."""

    def __init__(self, eq=None, hash=None):
        self.on_eq, self.on_hash = eq, hash

    def __eq__(self, other):
        if self.on_eq is not None:
            raise self.on_eq
        return self is other

    def __hash__(self):
        if self.on_hash is not None:
            raise self.on_hash
        return 1


class Table:
    """Compares like an array, element by element."""

    def __eq__(self, other):
        return np.array([True, False])

    def __hash__(self):
        return 2


class Slow:
    """Counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Slow.compared += 1
        return True

    def __hash__(self):
        return 3


# -- static arguments


def test_static_arguments_that_cannot_be_compared_are_refused_by_type():
    f = ft.jit(lambda x, s: x * 2, static_argnums=1)
    for first, second, words in [
        (Trouble(eq=RuntimeError("mine")), Trouble(), "type Trouble.*RuntimeError: mine"),
        (Table(), Table(), "type Table.*ambiguous"),
    ]:
        np.testing.assert_array_equal(f(X, first), 2 * X)
        np.testing.assert_array_equal(f(X, first), 2 * X)
        with pytest.raises(StaticArgumentError, match=words):
            f(X, second)
        np.testing.assert_array_equal(f(X, first), 2 * X)
    with pytest.raises(StaticArgumentError, match=r"'s'.*hashed \(RuntimeError: mine\)"):
        f(X, Trouble(hash=RuntimeError("mine")))
    assert f.cache_size == 2


def test_a_hit_compares_no_static_argument():
    f = ft.jit(lambda x, s: x * 2, static_argnums=1)
    table = Slow()
    for _ in range(5):
        f(X, table)
    assert Slow.compared == 0
    f(X, Slow())
    assert Slow.compared > 0
    assert f.cache_size == 1


def test_static_arguments_are_the_same_only_in_every_respect():
    f = ft.jit(lambda x, s: (x * s[0], 1 / (x * 0 + s[1])), static_argnums=1)
    x = np.arange(3)
    with np.errstate(all="ignore"):
        for s in [(2, 0.0), (2.0, 0.0), (2, -0.0), (True, 0.0), (1, 0.0), (2, complex(0, -0.0))]:
            for _ in range(2):
                got, wanted = f(x, s), (x * s[0], 1 / (x * 0 + s[1]))
                for a, b in zip(got, wanted, strict=True):
                    assert a.dtype == b.dtype
                    np.testing.assert_array_equal(a, b)
    assert f.cache_size == 6
    f(x, (2, float("nan")))
    f(x, (2, float("nan")))
    assert f.cache_size == 7


# -- kinds of arguments


def test_trees_of_all_kinds():
    ft.tree.register_dataclass(Data)
    values = {
        "dataclass": Data(X, 1.0),
        "named tuple": Pair(X, 1.0),
        "ordered": OrderedDict(b=X, a=1.0),
        "default": defaultdict(list, b=X, a=1.0),
        "nothing": (None, (), {}, [None, []]),
        "numbers of NumPy": [np.float32(1), np.int8(2), np.bool_(True), np.complex64(1j)],
        "no axes": [np.array(2.0), np.array(3, "i4"), fnp.asarray(1.5)],
        "numbers": [True, 2, 3.0, 1j],
    }
    f = ft.jit(lambda tree: ft.tree.map(lambda x: x * 2, tree))
    for name, value in values.items():
        for _ in range(2):
            out = f(value)
            assert ft.tree.structure(out) == ft.tree.structure(value), name
            wanted = ft.tree.map(lambda x: fnp.asarray(x * 2), value)
            for a, b in zip(ft.tree.leaves(out), ft.tree.leaves(wanted), strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape), name
                np.testing.assert_array_equal(a, b)
    assert list(f(values["ordered"])) == ["b", "a"]


def test_what_is_no_tree_and_no_array_is_refused_with_advice():
    class Dict(dict):
        pass

    f = ft.jit(lambda x: x)
    for value, words in [
        (iter([1.0]), "list_iterator.*once only: pass a list"),
        ((x for x in [1.0]), "generator.*once only"),
        (map(float, [1]), "map.*once only"),
        (Dict(a=X), r"Dict.*ft\.tree\.register"),
        ({1.0, 2.0}, "set, not an array"),
        ("name", "str, not an array"),
        (range(3), "range, not an array"),
    ]:
        with pytest.raises(TypeError, match=f"(?s)argument 0 is of type {words}"):
            f(value)
    for array in (np.array([None]), np.array(["a"]), np.zeros(2, [("a", "f4")])):
        with pytest.raises(OperandError, match="arrays hold numbers, not dtype"):
            f(array)
    assert f.cache_size == 0
    np.testing.assert_array_equal(f(X), X)


def test_integers_beyond_64_bits_are_refused_and_not_wrapped():
    f = ft.jit(lambda n, x: n * x)
    for first in (2, 2**63 - 1, -(2**63)):
        np.testing.assert_array_equal(f(first, np.ones(3)), float(first))
    for large in (2**63, -(2**63) - 1, 10**400):
        with pytest.raises(OverflowError, match=f"{large.bit_length()} bits.*pass float"):
            f(large, np.ones(3))
    assert f.cache_size == 1


# -- kinds of functions


class Model:
    def __init__(self):
        self.w = X

    def method(self, x):
        return x * self.w

    def __call__(self, x):
        return x + self.w


def test_callables_of_all_kinds():
    model = Model()
    partial = functools.partial(lambda a, b, n: a * b**n, b=2.0)
    for jitted, args, kwargs, wanted in [
        (ft.jit(functools.partial(operator.mul, 2.0)), (X,), {}, 2 * X),
        (ft.jit(partial, static_argnames="n"), (X,), {"n": 3}, 8 * X),
        (ft.jit(model.method), (X,), {}, X * X),
        (ft.jit(model), (X,), {}, X + X),
        (ft.jit(operator.add), (X, 1), {}, X + 1),
        (ft.jit(abs), (X,), {}, np.abs(X)),
        (ft.jit(pow, static_argnums=1), (X, 2), {}, X**2),
        (ft.jit(np.add), (X, X), {}, 2 * X),
        (ft.jit(fnp.add, static_argnums=1), (X, 3.0), {}, X + 3),
    ]:
        for _ in range(2):
            np.testing.assert_array_equal(jitted(*args, **kwargs), wanted)
    with pytest.raises(ConcretizationError, match="argument 0 and argument 1"):
        ft.jit(builtins.max)(1.0, 2.0)
    with pytest.raises(TypeError, match="jit takes a function as 'fun', but got an int, 3"):
        ft.jit(3)
    with pytest.raises(TypeError, match="positional argument"):
        ft.jit(lambda x: x)(X, X)


def test_recursion():
    @functools.partial(ft.jit, static_argnums=1)
    def power(x, n):
        return x if n == 0 else x * power(x, n - 1)

    for _ in range(2):
        np.testing.assert_allclose(power(X, 4), X**5)
    np.testing.assert_allclose(ft.grad(lambda x: fnp.sum(power(x, 2)))(X), 3 * X**2)

    @ft.jit
    def endless(x):
        return endless(x * 2)

    with pytest.raises(RecursionError), pytest.warns(RetraceWarning, match="calls itself with"):
        endless(X)
    assert slot.trace is None
    assert endless.cache_size == 0


# -- what goes wrong


@pytest.mark.parametrize(
    "error", [KeyError, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, MemoryError]
)
def test_whatever_is_raised_while_staging_leaves_nothing_behind(error):
    raised = []

    @ft.jit
    def f(x):
        y = fnp.sin(x)
        if len(raised) < 2:
            raised.append(1)
            raise error("mine")
        return y

    with pytest.raises(error, match="mine"):
        f(X)
    assert (slot.trace, f.cache_size) == (None, 0)
    with pytest.raises(error, match="mine"):
        ft.vmap(ft.grad(lambda x: fnp.sum(f(x))))(X)
    assert (slot.trace, f.cache_size) == (None, 0)
    np.testing.assert_array_equal(f(X), np.sin(X))
    np.testing.assert_array_equal(ft.grad(lambda x: fnp.sum(f(x)))(X), np.cos(X))
    first, second, third = f.explain().splitlines()[1:4]
    assert first.endswith(f"the first call; it raised {error.__name__}")
    assert "it raised" in second
    assert third.endswith("the first call")


def test_errors_of_values_leave_the_plan_usable_after_each():
    f = ft.jit(lambda a, b: fnp.linalg.solve(a, b) + fnp.linalg.inv(a) @ b)
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError):
            f(np.zeros((2, 2)), np.ones(2))
        np.testing.assert_allclose(f(2 * np.eye(2), np.ones(2)), 1.0)
    assert f.cache_size == 1


# -- threads


def test_threads_have_choices_of_their_own():
    f = ft.jit(lambda x: x @ x.T)
    seen = {}

    def work(name, precision, off):
        with ft.config.using(matmul_precision=precision), ft.disable_jit(off):
            seen[name] = np.asarray(f(X)), slot.trace

    f(X)
    threads = [
        threading.Thread(target=work, args=(f"{p}{off}", p, off))
        for p in ("highest", "tf32")
        for off in (True, False)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    for value, trace in seen.values():
        np.testing.assert_allclose(value, X @ X.T)
        assert trace is None
    # One for each precision: without jit there is none.
    assert f.cache_size == 2


# -- an object like others


def test_copies_pickles_and_weak_references():
    f = ft.jit(np.sin)
    assert copy.copy(f) is copy.deepcopy(f) is f
    assert weakref.ref(f)() is f
    again = pickle.loads(pickle.dumps({"f": f, "same": f}))
    assert again["f"] is again["same"]
    np.testing.assert_array_equal(again["f"](X), np.sin(X))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(ft.jit(lambda x: x))


def plans():
    """Returns the names of plans whose lines are known."""
    return [
        name for name, entry in linecache.cache.items()
        if str(name).startswith("<plan ") and entry[2]
    ]


def test_what_is_dropped_frees_its_plans():
    gc.collect()
    before = len(plans())

    def used(number):
        f = ft.jit(lambda x: fnp.sin(x) @ x.T)
        f(X)
        ft.grad(lambda x: fnp.sum(f(x)))(X)
        return weakref.ref(f), weakref.ref(f._last.compiled.plan), number

    found = [used(number) for number in range(3)]
    assert all(function() is None for function, _, _ in found)
    names = plans()
    assert len(names) > before
    gc.collect()
    assert all(plan() is None for _, plan, _ in found)
    assert len(plans()) == before
    # A debugger may be going through them.
    assert all(name in linecache.cache for name in names)
    linecache.checkcache()
    ft.jit(fnp.cos)(X)
    assert sum(name in linecache.cache for name in names) == before


def test_a_tuple_with_fields_that_cannot_be_made_of_them_is_no_result():
    class Result(tuple):
        _fields = ("statistic",)

    assert ft.tree.leaves([Result([1.0])]) == [(1.0,)]
    with pytest.raises(TypeError, match=r"the output is of type .*Result, not an array"):
        ft.jit(lambda x: Result([x]))(1.0)
