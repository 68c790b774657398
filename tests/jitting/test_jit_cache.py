"""Plans that jitted functions keep, when they drop them, and what they say of it."""

import gc
import os
import signal
import threading
import weakref
from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.jitting.guard import unguarded
from functensor.jitting.retraces import History, RetraceWarning
from functensor.jitting.signature import StaticConstant
from functensor.primitives.core import donation, reference_counts
from functensor.scipy import special

X = np.linspace(-1.0, 2.0, 6)
Pair = namedtuple("Pair", "a b")
WEAK = ft.ShapeDtype((), "float64", float)


@dataclass(frozen=True)
class Point:
    a: object
    b: object = None


@dataclass
class Own:
    a: object

    def __eq__(self, other):
        return self.a.sum() == other.a.sum()

    def __hash__(self):
        return 5


@dataclass
class Noted:
    a: object
    notes: list = field(default_factory=list)

    def __hash__(self):
        return 6


def reasons(f):
    return [line.split(": ", 1)[1] for line in f.explain().splitlines()[1:]]


# -- types in the place of arrays


def test_types_are_staged_for_each_shape_dtype_and_weakness():
    f = ft.jit(lambda x: x * 2)
    types = [
        ft.ShapeDtype((3,), "float32"),
        ft.ShapeDtype((4,), "float32"),
        ft.ShapeDtype((3,), "float64"),
        ft.ShapeDtype((), "float64"),
        WEAK,
    ]
    for known in types:
        assert f.lower(known).program.inputs[0].type == known
    assert f.cache_size == len(types)
    assert reasons(f)[1] == "argument 0 was float32[3], and is float32[4]"


def test_types_share_the_plans_of_the_arrays_that_they_stand_for():
    f = ft.jit(lambda x, s: x * s)
    low = f.lower(ft.ShapeDtype((6,), "float64"), WEAK)
    np.testing.assert_array_equal(f(X, 2.0), 2 * X)
    assert f.lower(X, 3.0).program is low.program
    assert f.cache_size == 1


def test_types_have_no_values_to_call_with():
    f = ft.jit(lambda x: x * 2)
    known = ft.ShapeDtype((6,), "float64")
    for _ in range(2):
        with pytest.raises(TypeError, match=r"called with a ShapeDtype.*f\.lower"):
            f(known)
        f.lower(known)
    for _ in range(2):
        np.testing.assert_array_equal(f(X), 2 * X)
    # Its guard is made for arrays, though types came first.
    assert f._last.guard not in (None, unguarded)


# -- without jit


def test_a_warm_function_can_be_run_as_it_was_written():
    seen = []
    f = ft.jit(lambda x: seen.append(1) or x * 2)
    f(X)
    f(X)
    assert len(seen) == 1
    with ft.disable_jit():
        f(X)
        f(X)
        with ft.disable_jit(False):
            f(X)
    assert len(seen) == 3
    f(X)
    assert len(seen) == 3


# -- static arguments


@pytest.mark.parametrize("make", [Point, lambda x: Pair(x, 0), lambda x: (Point((x,)),)])
def test_static_arguments_are_looked_into(make):
    values = [1, 1.0, True, 1 + 0j, 0.0, -0.0, 0, False, float("nan")]
    constants = [StaticConstant(make(value)) for value in values]
    assert len(set(constants)) == len(values)
    assert set(constants) == {StaticConstant(make(value)) for value in [*values, float("nan")]}


def test_named_tuples_differ_by_class():
    assert (
        len({StaticConstant(Pair(1, 2)), StaticConstant((1, 2)), StaticConstant(Point(1, 2))}) == 3
    )


def test_dataclasses_keep_the_equality_and_the_hash_that_they_were_given():
    assert StaticConstant(Own(np.array([1.0, 2.0]))) == StaticConstant(Own(np.array([2.0, 1.0])))
    assert StaticConstant(Noted(1, [2])) == StaticConstant(Noted(1, [2]))
    assert StaticConstant(Noted(1, [2])) != StaticConstant(Noted(1.0, [2]))
    assert StaticConstant(Noted(1, [2])) != StaticConstant(Noted(1, [2.5]))
    f = ft.jit(lambda x, p: x * p.a, static_argnums=1)
    assert f(np.arange(3), Point(2)).dtype == np.int64
    assert f(np.arange(3), Point(2.0)).dtype == np.float64
    unhashable = dataclass(type("Unhashable", (), {"__annotations__": {"a": int}}))
    with pytest.raises(TypeError, match="cannot be hashed"):
        f(X, unhashable(1))


# -- what is dropped


def test_what_was_not_used_for_longest_is_dropped(monkeypatch):
    from functensor.jitting import jitted

    monkeypatch.setattr(jitted, "MOST_KEPT_PLANS", 3)
    seen = []
    f = ft.jit(lambda x: seen.append(x.shape) or x * 2)
    for n in (1, 2, 3, 1, 4, 1, 3):
        f(np.ones(n))
    assert seen == [(1,), (2,), (3,), (4,)]
    f(np.ones(2))
    assert seen[-1] == (2,)
    assert reasons(f)[-1] == "its plan was dropped, to make room for others: 3 are kept"


def test_explanations_tell_of_dropped_plans():
    f = ft.jit(lambda x: x * 2)
    f(X)
    f.clear_cache()
    f(X)
    f.clear_cache()
    f(X[:2])
    f(X[:3])
    assert reasons(f) == [
        "the first call",
        "its plan was dropped, by clear_cache()",
        "the first call after all plans were dropped",
        "argument 0 was float64[2], and is float64[3]",
    ]


class Thing:
    pass


def test_static_arguments_live_no_longer_than_their_plans(monkeypatch):
    from functensor.jitting import jitted

    monkeypatch.setattr(jitted, "MOST_KEPT_PLANS", 2)
    f = ft.jit(lambda x, thing: x * 2, static_argnums=1)
    seen = []
    for _ in range(4):
        thing = Thing()
        seen.append(weakref.ref(thing))
        f(X, thing)
    del thing
    gc.collect()
    assert [ref() is not None for ref in seen] == [False, False, True, True]
    f.clear_cache()
    gc.collect()
    assert [ref() for ref in seen] == [None] * 4


def test_code_that_is_gone_is_not_counted():
    def make():
        scope = {"ft": ft}
        exec("f = ft.jit(lambda x: x * 2)", scope)
        return scope["f"]

    before = len(History.anew)
    f = make()
    f(X)
    assert len(History.anew) == before + 1
    del f
    gc.collect()
    assert len(History.anew) == before


# -- what it closes over


def test_functions_that_close_over_traced_values_are_told_what_to_do():
    kept = []

    def loss(w):
        f = ft.jit(lambda x: fnp.sum(x * w))
        total = 0.0
        for _ in range(20):
            total = total + f(X)
        kept.append(f)
        return total

    with pytest.warns(RetraceWarning, match=r"20 times: it closes over traced values") as caught:
        ft.grad(loss)(2.0)
    assert "fix: pass what it closes over as arguments" in str(caught[0].message)
    assert reasons(kept[0])[1].startswith("it closed over traced values the last time; ")


# -- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_stages_though_a_thread_was_staging():
    begun, go_on = threading.Event(), threading.Event()

    def fun(x):
        if threading.current_thread() is worker:
            begun.set()
            go_on.wait(10)
        return x * 2

    f = ft.jit(fun)
    worker = threading.Thread(target=lambda: f(X[:3]))
    worker.start()
    begun.wait(10)
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if f(X)[0] == 2 * X[0] else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    worker.join()
    assert os.waitstatus_to_exitcode(status) == 0


# -- donation


def test_references_are_counted_as_they_are():
    assert reference_counts.ALONE == reference_counts._references_alone() > 0


def test_an_interpreter_that_counts_otherwise_gets_copies(monkeypatch):
    monkeypatch.setattr(reference_counts, "getrefcount", lambda x: 1)
    assert reference_counts._references_alone() == 0
    monkeypatch.setattr(donation, "ALONE", 0)
    f = ft.jit(lambda w: 0.5 * w, donate_argnums=0)
    w = fnp.ones(1000) + 1
    address = np.asarray(w).ctypes.data
    buffer = w._data
    np.testing.assert_array_equal(f(w), 1.0)
    np.testing.assert_array_equal(buffer, 2.0)
    assert buffer.ctypes.data == address


def test_a_donated_array_can_be_shown():
    f = ft.jit(lambda w: 0.5 * w, donate_argnums=0)
    w = fnp.ones(3) + 1
    f(w)
    assert repr(w) == str(w) == f"{w}" == "<donated Array, which jit of <lambda> took>"
    with pytest.raises(ft.errors.DonatedArrayError, match=r"python -m functensor\.errors 23"):
        w + 1


def test_many_functions_of_the_library_are_no_retraces():
    # Public functions are wrappers of one code: each is a function of its own.
    functions = [
        special.erf, special.wofz, fnp.tanh, fnp.cbrt, fnp.sinc, fnp.nan_to_num, fnp.fix, fnp.trace,
        fnp.tril, fnp.triu, fnp.flip, fnp.rot90,
    ]  # fmt: skip
    before = dict(History.anew)
    for f in functions:
        ft.jit(f)(np.eye(2))
    more = [count - before.get(code, 0) for code, count in History.anew.items()]
    assert max(more) == 1
