"""Advice of staging: the fix fits what was asked for, and is right code."""

import warnings
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as fnp
from functensor.errors import ConcretizationError, RetraceError, RetraceWarning, StaticArgumentError
from functensor.jitting.retraces import differences

X = np.linspace(-1.0, 2.0, 3)
BRANCH = "np.where(condition, a, b) instead of if/and/or/min, or ft.cond(condition, f, g, x)"
NUMBER = "x.astype(int) instead of int(x)"
LOOP = "ft.while_loop(condition, body, init) instead of while"
STATIC = "; or make the argument static: "
Pair = namedtuple("Pair", "left right")


def fix_of(error, f, *args, **kwargs):
    with pytest.raises(error) as caught:
        f(*args, **kwargs)
    (line,) = [x for x in str(caught.value).splitlines() if x.startswith("  fix: ")]
    return line.removeprefix("  fix: ")


# -- values that are not known


def power(x, n=2, flag=False):
    if flag:
        return x
    return x ** int(n)


@pytest.mark.parametrize(
    ("args", "kwargs", "options", "fix"),
    [
        ((X, 3, True), {}, {}, f"{BRANCH}{STATIC}static_argnums=2"),
        ((X, 3), {"flag": True}, {}, f'{BRANCH}{STATIC}static_argnames="flag"'),
        ((X, 3), {}, {}, f"{NUMBER}{STATIC}static_argnums=1"),
        ((X, 3, False), {}, {"static_argnums": 2}, f"{NUMBER}{STATIC}static_argnums=1"),
        ((X,), {"n": 3}, {}, f'{NUMBER}{STATIC}static_argnames="n"'),
    ],
)
def test_the_argument_that_can_be_static_is_told(args, kwargs, options, fix):
    assert fix_of(ConcretizationError, ft.jit(power, **options), *args, **kwargs) == fix
    # The advice is right code.
    name, _, value = fix.rpartition(STATIC)[2].partition("=")
    both = [options.get(name), eval(value)]
    options = options | {name: [x for x in both if x is not None]}
    out = ft.jit(power, **options)(*args, **kwargs)
    np.testing.assert_array_equal(out, power(*args, **kwargs))


def first(tree):
    return 1.0 if tree["n"] > 0 else 2.0


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: x if x.sum() > 0 else -x, (X,)),
        (lambda n: 1.0 if n > 0 else 2.0, (np.array(3),)),
        (first, ({"n": 3},)),
        (lambda a, b: min(a, b), (1, 2)),
        (ft.jit(lambda n: 1.0 if n > 0 else 2.0), (3,)),
        (ft.vmap(lambda x: x if x > 0 else -x), (X,)),
        (lambda x: ft.scan(lambda c, a: (c + 1 if a > 0 else c, a), 0.0, x), (X,)),
    ],
)
def test_what_cannot_be_static_is_not_offered(f, args):
    assert fix_of(ConcretizationError, ft.jit(f), *args) == BRANCH


def test_what_an_outer_transformation_traces_cannot_be_static():
    f = ft.jit(lambda x, n: x * 2 if n > 0 else x)
    assert fix_of(ConcretizationError, ft.grad(f), 1.0, 3) == BRANCH
    fix = fix_of(ConcretizationError, ft.jit(ft.grad(lambda x, n: x * 2 if n > 0 else x)), 1.0, 3)
    assert fix == f"{BRANCH}{STATIC}static_argnums=1"


@pytest.mark.parametrize("form", [ft.vmap, ft.make_program, ft.jit])
def test_branches_and_loops_are_told_apart(form):
    def branching(x):
        return x if x > 0 else -x

    def looping(x):
        while x.sum() > 1:
            x = x / 2
        return x

    x = X if form is ft.vmap else np.array(2.0)
    assert fix_of(ConcretizationError, form(branching), x) == BRANCH
    assert fix_of(ConcretizationError, form(looping), x) == LOOP
    scope = {}
    exec("def f(x):\n  while x > 0: x = x - 1", scope)
    assert fix_of(ConcretizationError, form(scope["f"]), x) == BRANCH


# -- lengths that depend on values


@pytest.mark.parametrize("form", [ft.jit, ft.vmap, ft.make_program])
@pytest.mark.parametrize(
    "counts",
    [lambda c: c, lambda c: [c[0], 2, 1], lambda c: (c[0], 2, 1), lambda c: c[0]],
)
def test_repeat_tells_of_the_length(form, counts):
    lead = (2,) if form is ft.vmap else ()
    c = np.broadcast_to([1, 0, 2], (*lead, 3))
    x = np.broadcast_to(X, (*lead, 3))
    fix = "np.repeat(x, counts, total_repeat_length=n), which tells the length of the result"
    with pytest.raises(ConcretizationError, match=r"python -m functensor\.errors 5"):
        form(lambda x, c: fnp.repeat(x, counts(c)))(x, c)
    assert fix_of(ConcretizationError, form(lambda x, c: fnp.repeat(x, counts(c))), x, c) == fix

    def told(x, c):
        return fnp.repeat(x, counts(c), total_repeat_length=int(np.sum(counts([1, 0, 2]))))

    if isinstance(counts([1, 0, 2]), list | tuple) and form is not ft.make_program:
        out = form(told)(x, c)
        want = np.repeat(X, counts([1, 0, 2]))
        np.testing.assert_array_equal(out, np.broadcast_to(want, (*lead, *want.shape)))


def test_repeat_by_one_number_can_be_static():
    fix = fix_of(ConcretizationError, ft.jit(fnp.repeat), X, 2)
    assert fix.endswith(f", which tells the length of the result{STATIC}static_argnums=1")


@given(
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
    st.sampled_from([list, tuple, np.array, fnp.array]),
)
def test_repeat_by_known_counts(counts, kind):
    want = np.repeat(X, counts)
    np.testing.assert_array_equal(fnp.repeat(X, kind(counts)), want)
    np.testing.assert_array_equal(ft.jit(lambda x: fnp.repeat(x, kind(counts)))(X), want)


@pytest.mark.parametrize("form", [ft.jit, ft.vmap, ft.make_program])
@pytest.mark.parametrize("options", [{}, {"minlength": 7}])
def test_bincount_tells_of_the_length(form, options):
    c = np.array([[1, 0, 3]])[() if form is ft.vmap else 0]
    fix = "np.bincount(x, length=n), with a number above the largest integer"
    assert fix_of(ConcretizationError, form(lambda x: fnp.bincount(x, **options)), c) == fix
    if form is not ft.make_program:
        out = form(lambda x: fnp.bincount(x, length=7))(c)
        np.testing.assert_array_equal(np.ravel(out), np.bincount(c.ravel(), minlength=7))


# -- why it is staged again


@dataclass
class Layer:
    w: object
    act: str = field(default="relu", metadata={"static": True})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"w1": 1.0, "w3": (1.0, 2.0)}, {"w1": 1.0, "w3": [1.0, 2.0]},
         "argument 0['w3'] was a tuple, and is a list"),
        ({"a": 1.0, "b": [1.0, 2.0]}, {"a": 1.0}, "argument 0['b'] is gone"),
        ({"a": 1.0}, {"a": 1.0, "b": None}, "argument 0['b'] is new"),
        ([1.0], [1.0, {"x": 1.0, "y": 2.0}], "argument 0[1] is new"),
        ([X], [(X, X)], "argument 0[0] was float64[3], and is a tuple"),
        ([None], [X], "argument 0[0] was None, and is float64[3]"),
        ({"a": X}, OrderedDict(a=X), "argument 0 was a dict, and is an OrderedDict"),
        ((X, X), Pair(X, X), "argument 0 was a tuple, and is a Pair"),
        (Pair(X, [X]), Pair(X, ()), "argument 0.right was a list, and is a tuple"),
        (Layer(X), Layer(X, "tanh"),
         "argument 0 was Layer(w=*, act='relu'), and is Layer(w=*, act='tanh')"),
        ({"a": (X,), "b": X}, {"a": [X], "b": X[:2]},
         ("argument 0['a'] was a tuple, and is a list; "
          "argument 0['b'] was float64[3], and is float64[2]")),
    ],
)  # fmt: skip
def test_the_places_that_differ_are_named(old, new, words):
    f = ft.jit(lambda x: 1.0)
    f(old)
    f(new)
    assert f.explain().splitlines()[2].endswith(f": {words}")


def test_arguments_that_come_and_go_are_named():
    f = ft.jit(lambda *args, **kwargs: 1.0)
    f(X)
    f(X, X)
    f(X, X, flag=(1.0, 2.0))
    f(X, X, flag=[1.0, 2.0])
    reasons = [line.split(": ", 1)[1] for line in f.explain().splitlines()[1:]]
    assert reasons == [
        "the first call",
        "argument 1 is new",
        "argument 'flag' is new",
        "argument 'flag' was a tuple, and is a list",
    ]


def test_a_deep_tree_is_compared():
    deep, other = (), []
    for _ in range(2000):
        deep, other = [deep], [other]
    keys = [(ft.tree.structure(((x,), {})), (), ()) for x in (deep, other)]
    (words,) = differences(*keys, [])
    assert words == f"argument 0{'[0]' * 2000} was a tuple, and is a list"


def test_the_first_call_is_not_again():
    f = ft.jit(lambda x: x)
    with f.assert_no_retrace(), pytest.raises(RetraceError) as caught:
        f(X)
    assert " was staged: the first call" in str(caught.value)
    f(X)
    with f.assert_no_retrace(), pytest.raises(RetraceError, match="was staged again: argument 0 "):
        f(X[:2])


def test_warnings_are_of_the_users_line():
    f = ft.jit(lambda x: x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(25):
            f(np.ones(n))
    (found,) = caught
    assert found.category is RetraceWarning
    assert found.filename == __file__
    assert f"  at {__file__}:{found.lineno}" in str(found.message).splitlines()


# -- static arguments that have no hash


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ([1], "pass a tuple instead of a list, or {}"),
        ((1, [2]), "pass a tuple instead of a list, or {}"),
        ({"a": 1}, "pass tuple(sorted(d.items())) instead of a dict, or {}"),
        ({1}, "pass a frozenset instead of a set, or {}"),
        (X, "{}: an array is not part of what a function is staged for"),
        (fnp.ones(2), "{}: an array is not part of what a function is staged for"),
        (Layer(1), "give its class a __hash__, as @dataclass(frozen=True) does, or {}"),
    ],
)
@pytest.mark.parametrize("options", [{"static_argnums": 1}, {"static_argnames": "how"}])
def test_what_has_no_hash_has_a_way_out(value, fix, options):
    (name,) = options
    want = fix.format(f"drop it from {name} so that it is traced")
    f = ft.jit(lambda x, how: x, **options)
    assert fix_of(StaticArgumentError, f, X, value) == want
    assert fix_of(StaticArgumentError, f, X, how=value) == want
