"""Plans of loops and choices are taken from the disk, with the same results and the same errors."""

import numpy as np
import pytest
from support.kept_plans import (
    DAMAGES,
    bits,
    check_another_process,
    compiled,
    counted,
    files,
    plan_of,
)
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.native.object_cache import PLAN, user_cache
from functensor.jitting import program_key

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

X = np.linspace(-2, 2, 24).reshape(4, 6)
HELD = np.linspace(0.5, 1.5, 6)


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """Returns counts, with an empty folder for plans."""
    return counted(tmp_path, monkeypatch)


def scanned(x, factor=1.0, reverse=False):
    def step(carry, row):
        return carry * row * factor, fnp.tanh(carry) + HELD

    return ft.scan(step, x[0], x, reverse=reverse)[1] + fnp.sin(x)


def chosen(x):
    return ft.cond(x[0, 0] > 0, fnp.sin, lambda x: fnp.cos(x) * HELD, x) * 2 + x


def squared(x, limit=100.0):
    return ft.while_loop(lambda c: fnp.sum(c) < limit, lambda c: c * c + 1, x)


def added(x):
    return ft.fori_loop(0, 4, lambda i, c: c.at[i].add(x[i, 0]) + x[i], x)


def taken(x, i):
    """Takes rows at places that only the loop knows."""
    return ft.fori_loop(0, len(i), lambda k, c: c + x[i[k]] * 2, fnp.zeros(6))


def inner_loops(x):
    def row(carry, v):
        total = ft.while_loop(lambda c: c < 3, lambda c: c * 1.5 + fnp.max(v) ** 2, 1.0)
        return ft.cond(total > 5, fnp.sin, fnp.cos, carry) * v, total

    return ft.scan(row, x[0], x)


FUNCTIONS = {
    "a scan": scanned,
    "a choice": chosen,
    "an unbounded loop": squared,
    "a counted loop": added,
    "loops in loops": inner_loops,
    "a gradient of a scan": ft.grad(lambda x: fnp.sum(scanned(x))),
    "a gradient of a choice": ft.grad(lambda x: fnp.sum(chosen(x))),
    "a batch of loops": ft.vmap(lambda x: ft.while_loop(lambda c: c[0] < 9, lambda c: c + 1, x)),
    "a batch of choices": ft.vmap(lambda x: ft.cond(x[0] > 0, fnp.sin, fnp.cos, x)),
    "a loop of jitted steps": lambda x: ft.scan(
        lambda c, v: (ft.jit(lambda y: y * fnp.sin(y))(c) * v, c), x[0], x
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_the_second_plan_comes_from_the_disk(function, counts):
    first = compiled(function, X)
    assert (counts.scheduled, counts.compiled > 0) == (1, True)
    counts.compiled = 0
    again = compiled(function, X)
    assert (counts.scheduled, counts.compiled) == (1, 0)
    assert plan_of(first) is not plan_of(again)
    for x in (X, X + 0.5, X[::-1].copy()[::-1]):
        assert bits(first(x)) == bits(again(x))
    assert plan_of(first).source == plan_of(again).source


OTHERS = {
    "a scan": lambda: scanned,
    "a number of the body": lambda: lambda x: scanned(x, 2.0),
    "backwards": lambda: lambda x: scanned(x, reverse=True),
    "fewer steps": lambda: lambda x: scanned(x[:3]),
    "a choice": lambda: chosen,
    "an unbounded loop": lambda: squared,
    "a number of the condition": lambda: lambda x: squared(x, 99.0),
    "at most some steps": lambda: lambda x: ft.while_loop(
        lambda c: fnp.sum(c) < 100.0, lambda c: c * c + 1, x, max_steps=3
    ),
    "more steps": lambda: lambda x: ft.while_loop(
        lambda c: fnp.sum(c) < 100.0, lambda c: c * c + 1, x, max_steps=4
    ),
    "branches": lambda: lambda x: ft.cond(x[0, 0] > 0, fnp.sin, fnp.cos, x) + x,
    "other branches": lambda: lambda x: ft.cond(x[0, 0] > 0, fnp.cos, fnp.sin, x) + x,
    "a switch": lambda: lambda x: ft.switch(
        fnp.astype(x[0, 0], int), [fnp.sin, fnp.cos, fnp.tanh], x
    ),
}


def test_other_bodies_have_other_plans(counts):
    keys = set()
    for number, make in enumerate(OTHERS.values(), 1):
        function = make()
        compiled(function, X)
        assert counts.scheduled == number
        keys.add(program_key.told_program(ft.make_program(function)(X), ()).text)
    assert len(keys) == len(OTHERS)


def test_a_changed_constant_of_a_body_is_another_key(counts):
    for factor, number in ((1, 1), (2, 2), (1, 2)):
        held = HELD * factor

        def f(x, held=held):
            return ft.scan(lambda c, v: (c * held, c + v), x[0], x)[1]

        assert bits(compiled(f, X)(X)) == bits(ft.jit(f)(X))
        assert counts.scheduled == number


def test_a_body_that_stands_twice_is_told_once():
    def twice(x):
        step = ft.jit(lambda x: ft.scan(lambda c, v: (c * v, c), x[0], x)[1])
        return step(step(x))

    text = program_key.told_program(ft.make_program(twice)(X), ()).text
    assert text.count("scan") >= 2
    assert text.count("body 0") == 1


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_plan_is_made_anew(damage, counts):
    wanted = bits(compiled(scanned, X)(X))
    (path,) = files(PLAN)
    cache, key = user_cache(), path.stem
    cache.put(key, damage(cache.get(key, PLAN)), PLAN)
    assert bits(compiled(scanned, X)(X)) == wanted
    assert counts.scheduled == 2


def test_a_plan_without_its_object_is_made_anew(counts):
    wanted = bits(compiled(scanned, X)(X))
    for path in files(".o"):
        path.unlink()
    assert bits(compiled(scanned, X)(X)) == wanted
    assert counts.scheduled == 2


MOVED = {
    "given": lambda x, i: taken(x, i),
    "made before": lambda x, i: taken(fnp.tanh(x), i) * 2,
}


@pytest.mark.parametrize("function", MOVED.values(), ids=MOVED)
def test_errors_of_loops_name_the_same_lines(function, counts):
    inside, outside = np.array([0, 3, 1]), np.array([0, 9, 1])
    told = []
    for _ in range(2):
        jitted = compiled(function, X, inside)
        assert counts.scheduled == 1
        with pytest.raises(IndexError) as info:
            jitted(X, outside)
        told.append((str(info.value), info.value.__notes__))
        wanted = function(fnp.asarray(X), inside)
        np.testing.assert_allclose(jitted(X, inside), wanted, rtol=1e-14)
    # The plan from the disk is made once more: it has no equations.
    assert counts.scheduled == 2
    assert told[0] == told[1]
    assert told[0][1]


def test_a_plan_that_is_not_made_again_is_told_of(counts, monkeypatch):
    inside, outside = np.array([0, 3, 1]), np.array([0, 9, 1])
    compiled(taken, X, inside)
    jitted = compiled(taken, X, inside)
    plan = plan_of(jitted)
    (again,) = {id(v._anew): v._anew for v in plan._scope.values() if hasattr(v, "_anew")}.values()
    monkeypatch.setattr(again, "_make", lambda: None)
    with pytest.raises(RuntimeError, match="cannot be made again"):
        jitted(X, outside)


def of_python(x):
    def step(c, v):
        return fnp.linalg.eigvalsh(c * v[:, None]), c

    return ft.scan(step, x[0], x)[1] + fnp.sin(x)


def until_python(x):
    """Solves systems of which machine code has none: they are large."""
    matrix = fnp.asarray(np.eye(300) * 2 + 0.001)
    found = ft.while_loop(
        lambda c: c[0] > 0.1, lambda c: fnp.linalg.solve(matrix, c), fnp.ones(300) * (x[0, 0] + 9)
    )
    return found[:6] + fnp.sin(x)


def chosen_by_python(x):
    def larger(x):
        return fnp.linalg.eigvalsh(x.T @ x)

    return ft.cond(x[0, 0] > 0, larger, lambda x: larger(x) * 2, x) + fnp.sin(x)


LEFT_TO_NUMPY = {
    "a scan": of_python,
    "an unbounded loop": until_python,
    "a choice": chosen_by_python,
    "a gradient": ft.grad(lambda x: fnp.sum(chosen_by_python(x) ** 2)),
    "a batch": lambda x: ft.vmap(of_python)(fnp.stack([x, x + 1])),
}


@pytest.mark.parametrize("function", LEFT_TO_NUMPY.values(), ids=LEFT_TO_NUMPY)
def test_plans_that_call_loops_of_python_are_kept(function, counts):
    first = compiled(function, X)
    scheduled, counts.compiled = counts.scheduled, 0
    again = compiled(function, X)
    assert (counts.scheduled, counts.compiled) == (scheduled, 0)
    assert len(plan_of(first).called) == len(plan_of(again).called) > 0
    for x in (X, X + 0.5, X[::-1].copy()[::-1]):
        assert bits(first(x)) == bits(again(x))
    assert plan_of(first).source == plan_of(again).source


def test_errors_of_loops_of_python_name_the_same_lines(counts):
    def f(x, i):
        def step(c, k):
            return fnp.linalg.eigvalsh(x.T @ x)[k] + c, c

        return ft.scan(step, x[0], i)[1] + fnp.sin(x[: len(i)])

    told, scheduled = [], []
    for _ in range(2):
        jitted = compiled(f, X, np.array([0, 1]))
        scheduled.append(counts.scheduled)
        with pytest.raises(IndexError) as info:
            jitted(X, np.array([0, 9]))
        told.append((str(info.value), info.value.__notes__))
    assert scheduled[0] == scheduled[1]
    assert told[0] == told[1]
    assert told[0][1]


PROGRAM = """
import sys
import numpy as np
import functensor as ft, functensor.numpy as fnp
def step(carry, row):
    return ft.cond(carry[0] > 0, fnp.sin, fnp.cos, carry) * row, fnp.tanh(carry)
f = ft.jit(ft.grad(lambda x: fnp.sum(ft.scan(step, x[0], x)[1])))
x = np.linspace(-2, 2, 24).reshape(4, 6)
f.compile(x)
assert f.explain().endswith("as machine code")
print(np.asarray(f(x)).tobytes().hex())
names = "llvmlite.binding", "functensor.backends.native.printer", "functensor.backends.kernels"
print(*[name in sys.modules for name in names])
"""


def test_another_process_needs_neither_llvm_nor_the_printer(tmp_path):
    check_another_process(PROGRAM, tmp_path)
