"""Loops with an operation that machine code has not: the rest of each step is machine code."""

import numpy as np
import pytest
from support.kept_plans import check_another_process, counted, plan_of
from support.native import missing
from support.native_loops import assert_same, loops_of

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

MATRIX = np.linspace(-1, 1, 9).reshape(3, 3) + np.linspace(-1, 1, 9).reshape(3, 3).T
ROWS = np.linspace(-2, 2, 40).reshape(4, 10)


def steps_of(jitted):
    """Returns what runs the steps of the loops of a plan by machine code."""
    calls = jitted._last.compiled.run._calls.values()
    return [call for call in calls if getattr(call, "by_machine_code", False)]


def by_steps(f, *args):
    """Returns a function jitted, whose only loop runs its steps by machine code."""
    jitted = ft.jit(f).compile(*args)
    assert jitted.explain().endswith("as machine code"), jitted.explain()
    assert len(steps_of(jitted)) == 1
    assert loops_of(jitted) == (0, 1)
    return jitted


def work(x):
    """Does what is worth a plan of machine code."""
    return fnp.tanh(fnp.sin(x) * 2 + x) / (1 + x * x) - fnp.cos(x) * fnp.exp(-x * x) + 0.5


def spectrum(x):
    """Returns eigenvalues, which machine code has not, among other work."""
    return work(fnp.linalg.eigvalsh(work(x) + work(x).T))


def scanned(x):
    return ft.scan(lambda c, row: (spectrum(c) * 0.1 + c, (row + 1, c)), x, np.arange(5.0))


def backward(x):
    return ft.scan(lambda c, i: (spectrum(c) * i + c, c[0]), x, np.arange(5.0), reverse=True)


def counted_steps(x):
    return ft.fori_loop(0, 4, lambda i, c: spectrum(c) * 0.1 + c * i, x)


def until_large(x):
    def step(c):
        x, n = c
        return spectrum(x) + x * 1.5, n + 1

    return ft.while_loop(lambda c: (c[1] < 50) & (fnp.sum(c[0] ** 2) < 1e3), step, (x, 0))


def exchanged(x):
    """Carries change places, one stays as it was, and one is returned as it came."""

    def step(carry, _):
        a, b, fixed = carry
        return (b, spectrum(a) + a * 0.5 + fixed, fixed), (a, b)

    return ft.scan(step, (x, x, x), None, 5)


def numbers(x):
    def step(carry, row):
        n, total = carry
        return (n + 1, total + fnp.sum(spectrum(x * row)) * n), n

    return ft.scan(step, (0, 0.0), np.arange(4.0))


LOOPS = {
    "a scan": scanned,
    "backwards": backward,
    "a counted loop": counted_steps,
    "an unbounded loop": until_large,
    "carries change places": exchanged,
    "numbers are carried": numbers,
    "a gradient": ft.grad(lambda x: fnp.sum(scanned(x)[0])),
    "a batch": lambda x: ft.vmap(counted_steps)(fnp.stack([x, x * 2])),
}


@pytest.mark.parametrize("function", LOOPS.values(), ids=LOOPS)
def test_results_are_those_of_eager_mode(function):
    x = MATRIX.copy()
    jitted = ft.jit(function).compile(x)
    assert steps_of(jitted)
    wanted = function(fnp.asarray(x))
    for given in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], fnp.asarray(x)):
        for _ in range(2):
            assert_same(jitted(given), wanted, 1e-10)
        np.testing.assert_array_equal(given, MATRIX)


def remembered(x):
    """The second carry is the first one of the step before."""
    return ft.scan(lambda c, _: ((spectrum(c[0]) + c[1] * 0.5, c[0]), c[0][0]), (x, x), None, 4)


def remembered_until(x):
    def step(c):
        x, before, n = c
        return spectrum(x) + before, x, n + 1

    return ft.while_loop(lambda c: c[2] < 4, step, (x, x, 0))


def returned_twice(x):
    def step(c, _):
        a, b = c
        n = spectrum(a) * 0.1 + a
        return (n, n), spectrum(n + b.T)

    return ft.scan(step, (x, x), None, 4)


def constant_for_a_carry(x):
    def step(c, _):
        return (spectrum(c[0]) + c[1] * 0.5, MATRIX), c[0][0]

    return ft.scan(step, (x, x), None, 4)


@pytest.mark.parametrize(
    "function", [remembered, remembered_until, returned_twice, constant_for_a_carry]
)
def test_memory_that_others_have_is_not_written_to(function):
    wanted = function(fnp.asarray(MATRIX))
    jitted = by_steps(function, MATRIX)
    x, matrix = MATRIX.copy(), MATRIX.copy()
    for _ in range(2):
        assert_same(jitted(x), wanted, 1e-10)
        np.testing.assert_array_equal(x, matrix)
    np.testing.assert_array_equal(MATRIX, matrix)


def trained(weights, images, labels):
    def loss(weights, x, y):
        h = nn.relu(nn.conv(x, weights[0], padding=1))
        h = nn.layer_norm(h.reshape(len(x), -1))
        return fnp.mean(nn.softmax_cross_entropy(nn.gelu(h) @ weights[1], y))

    def step(weights, given):
        value, grads = ft.value_and_grad(loss)(weights, *given)
        return [w - 0.1 * g for w, g in zip(weights, grads, strict=True)], value

    return ft.scan(step, weights, (images, labels))


def test_training_steps():
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(2, 1, 3, 3)) * 0.3, rng.normal(size=(72, 3)) * 0.1]
    args = weights, rng.normal(size=(4, 5, 1, 6, 6)), rng.integers(0, 3, (4, 5))
    jitted = by_steps(trained, *args)
    assert_same(jitted(*args), trained(*args), 1e-10)


def test_loops_in_steps():
    def f(x):
        def outer(c, _):
            inner = ft.fori_loop(0, 3, lambda i, c: work(c) * 0.2 + c, c)
            return spectrum(inner) + counted_steps(c), fnp.sum(inner)

        return ft.scan(outer, x, None, 3)

    assert_same(by_steps(f, MATRIX)(MATRIX), f(MATRIX), 1e-10)


def test_steps_with_little_machine_code_stay_over_numpy():
    def f(x):
        return ft.scan(lambda c, _: (fnp.linalg.eigvalsh(c)[None] + c, c), x, None, 3)

    jitted = ft.jit(lambda x: [*f(x), work(x)]).compile(MATRIX)
    assert not steps_of(jitted)
    assert loops_of(jitted) == (0, 1)


def test_elements_that_are_updated_in_place_stay_so():
    def f(x):
        def step(i, c):
            rows, x = c
            return rows.at[i].set(spectrum(x)), work(x)

        return ft.fori_loop(0, 3, step, (fnp.zeros((50, 3)), x))

    jitted = ft.jit(lambda x: [*f(x), work(x)]).compile(MATRIX)
    assert not steps_of(jitted)


def test_errors_in_steps_name_the_line():
    def f(x, i):
        def step(c, k):
            return spectrum(c) + c[k] + c, c

        return ft.scan(step, x, i)

    told = []
    for make in (by_steps, lambda f, *args: ft.jit(f)):
        jitted = make(f, MATRIX, np.array([0, 1]))
        with pytest.raises(IndexError) as info:
            jitted(MATRIX, np.array([0, 7]))
        told.append((str(info.value), [note for note in info.value.__notes__ if "index" in note]))
    assert told[0] == told[1]


def test_the_text_of_a_step_is_shown():
    jitted = by_steps(scanned, MATRIX)
    text = jitted._last.compiled.run.source
    assert "# each step of scan" in text
    assert "scan, step by step" in text


@pytest.mark.parametrize("function", LOOPS.values(), ids=LOOPS)
def test_plans_of_steps_are_kept(function, tmp_path, monkeypatch):
    counts = counted(tmp_path, monkeypatch)
    first = ft.jit(function).compile(MATRIX)
    scheduled = counts.scheduled
    counts.compiled = 0
    again = ft.jit(function).compile(MATRIX)
    assert (counts.scheduled, counts.compiled) == (scheduled, 0)
    assert len(steps_of(again)) == len(steps_of(first)) > 0
    for x in (MATRIX, MATRIX + 1, np.asfortranarray(MATRIX)):
        assert_same(first(x), again(x), 0)
    assert plan_of(again).source == plan_of(first).source


def test_errors_in_kept_steps_name_the_line(tmp_path, monkeypatch):
    def f(x, i):
        return ft.scan(lambda c, k: (spectrum(c) + c[k] + c, c), x, i)

    counts = counted(tmp_path, monkeypatch)
    inside, told = np.array([0, 1]), []
    for _ in range(2):
        jitted = by_steps(f, MATRIX, inside)
        scheduled = counts.scheduled
        with pytest.raises(IndexError) as info:
            jitted(MATRIX, np.array([0, 7]))
        told.append((str(info.value), info.value.__notes__))
        assert_same(jitted(MATRIX, inside), f(fnp.asarray(MATRIX), inside), 1e-10)
    assert scheduled == 2
    assert told[0] == told[1]
    assert told[0][1]


PROGRAM = """
import sys
import numpy as np
import functensor as ft, functensor.numpy as fnp
def step(c, row):
    x = fnp.tanh(fnp.sin(c) * 2 + c) / (1 + c * c) - fnp.cos(c) * fnp.exp(-c * c) + row
    y = fnp.linalg.eigvalsh(x + x.T)
    return fnp.tanh(y * x + c) / (1 + fnp.exp(-x)) - fnp.cos(c * y) * 0.5, y
f = ft.jit(lambda x: ft.scan(step, x, fnp.arange(5.0)))
x = np.linspace(-1, 1, 9).reshape(3, 3)
f.compile(x)
assert f.explain().endswith("as machine code")
assert "step by step" in f._last.compiled.run.source
print(*[np.asarray(y).tobytes().hex() for y in f(x)])
names = "llvmlite.binding", "functensor.backends.native.printer", "functensor.backends.kernels"
print(*[name in sys.modules for name in names])
"""


def test_another_process_needs_neither_llvm_nor_the_printer(tmp_path):
    check_another_process(PROGRAM, tmp_path)
