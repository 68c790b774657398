"""Segments whose kernels and products threads share: results, bits, parts, and the desk."""

import os
import threading

import numpy as np
import pytest
from support.native import missing, run_python

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.blas_threads import controlled
from functensor.backends.cpu.plan.native import shared_segments
from functensor.backends.cpu.plan.threads.pool import call_helpers, threads
from functensor.backends.cpu.plan.threads.sharing import MeasuredSharing
from functensor.backends.native import team
from functensor.backends.native.array_objects import OBJECT_HEADER
from functensor.backends.native.entry import objects_call
from functensor.backends.native.instructions import Lines
from functensor.backends.native.machine import machine_code
from functensor.backends.native.printer import Module
from functensor.jitting.tiers import native_plan

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(controlled() is None, reason="BLAS has threads that nobody controls"),
]


@pytest.fixture
def shared(monkeypatch):
    """Has four threads share all that may be shared."""
    monkeypatch.setattr(threads, "number", 4)
    monkeypatch.setattr(
        MeasuredSharing, "__call__", lambda self, work, number: self.shared(work, number)
    )


def normal(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def planned(f, *args):
    """Returns the plan of machine code of a function."""
    return native_plan(ft.make_program(f)(*args), ())


def perceptron(params, x, labels):
    w, a, v, b = params
    hidden = nn.gelu(nn.layer_norm(x @ w + a, normal(1, 256)[0], normal(1, 256)[0]))
    return fnp.mean(nn.softmax_cross_entropy(hidden @ v + b, labels))


PARAMS = normal(128, 256), normal(256), normal(256, 128) * 0.1, normal(128)
BATCH = normal(512, 128), np.arange(512) % 128


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("number", [1, 4])
def test_a_step_is_one_segment_with_the_eager_results(number, monkeypatch):
    monkeypatch.setattr(threads, "number", number)
    step = ft.value_and_grad(perceptron)
    plan = planned(step, PARAMS, *BATCH)
    code = plan.source.split("\n\n")[0]
    assert "segment_0(" in code
    assert "segment_1(" not in code
    assert "matmul" not in code
    assert "region" not in code
    value, grads = step(PARAMS, *BATCH)
    for _ in range(5):
        found = plan([*PARAMS, *BATCH])
        np.testing.assert_allclose(found[0], value, rtol=1e-6)
        for got, wanted in zip(found[1:], grads, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-7)


@pytest.mark.usefixtures("shared")
def test_regions_have_the_same_bits_on_any_number_of_threads(monkeypatch):
    x = normal(300, 1000)

    def folds(x):
        y = fnp.exp(fnp.sin(x))
        return fnp.sum(y, axis=0), fnp.max(y, axis=0), fnp.mean(y * y, axis=0), fnp.sum(y)

    found = {}
    for number in (1, 2, 4):
        monkeypatch.setattr(threads, "number", number)
        plan = planned(folds, x)
        assert "threads share" in plan.source
        found[number] = [plan([x]) for _ in range(10)]
    first = found[1][0]
    for outs in found.values():
        for each in outs:
            assert all(map(np.array_equal, each, first))
    for got, wanted in zip(first, folds(fnp.asarray(x)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def attention(x, w):
    q, k, v = (
        fnp.transpose(fnp.reshape(part, (4, 64, 4, 32)), (0, 2, 1, 3))
        for part in fnp.split(x @ w, 3, axis=-1)
    )
    weights = nn.softmax(q @ fnp.transpose(k, (0, 1, 3, 2)), axis=-1)
    return fnp.reshape(fnp.transpose(weights @ v, (0, 2, 1, 3)), (4, 64, 128))


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stacks_of_products_read_views_where_they_lie(dtype):
    x, w = normal(4, 64, 128, dtype=dtype), normal(128, 384, dtype=dtype) * 0.1
    weight = normal(4, 64, 128, dtype=dtype, seed=1)

    def loss(x, w, weight):
        return fnp.sum(attention(x, w) * weight)

    plan = planned(ft.grad(loss, (0, 1)), x, w, weight)
    code = plan.source.split("\n\n")[0]
    assert "segment_1(" not in code
    assert not any(name in code for name in ("matmul", "transpose", "scatter_add", "reshape"))
    rtol = 1e-4 if dtype == "float32" else 1e-11
    found, grads = plan([x, w, weight]), ft.grad(loss, (0, 1))(x, w, weight)
    for got, wanted in zip(found, grads, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("sizes", [(1024, 40, 33), (33, 40, 1024), (17, 600, 90), (1, 1024, 900)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products_in_parts(sizes, turned, monkeypatch):
    monkeypatch.setattr(shared_segments, "SMALLEST_SHARED_PRODUCT", 1)
    rows, terms, columns = sizes
    shapes = [(rows, terms), (terms, columns)]
    x, y = (
        normal(*(shape[::-1] if turn else shape), dtype="float64")
        for shape, turn in zip(shapes, turned, strict=True)
    )

    def product(x, y):
        x, y = (v.T if turn else v for v, turn in zip((x, y), turned, strict=True))
        return fnp.sin(x @ y)

    plan = planned(product, x, y)
    assert "threads share" in plan.source
    (found,) = plan([x, y])
    np.testing.assert_allclose(found, product(fnp.asarray(x), fnp.asarray(y)), atol=1e-10)


@pytest.mark.usefixtures("shared")
def test_joined_parts_have_no_negative_zeros():
    x = normal(8, 100, 128)

    def halves(x):
        first, second = fnp.split(x, 2, axis=-1)
        return fnp.sum(fnp.sin(first)) + fnp.sum(-0.0 * second)

    plan = planned(ft.grad(halves), x)
    (found,), wanted = plan([x]), np.asarray(ft.grad(halves)(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.usefixtures("shared")
def test_callers_in_several_threads_have_their_own_teams():
    plan = planned(ft.value_and_grad(perceptron), PARAMS, *BATCH)
    wanted = plan([*PARAMS, *BATCH])
    found = []

    def call():
        found.extend(plan([*PARAMS, *BATCH]) for _ in range(20))

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 120
    assert all(all(map(np.array_equal, each, wanted)) for each in found)


@pytest.mark.usefixtures("shared")
def test_the_desk_is_clear_behind_a_call_even_one_that_fails():
    def picked(table, indices):
        return fnp.sum(fnp.exp(table[indices]), axis=0)

    table, indices = normal(50, 1000), np.arange(400) % 50
    plan = planned(picked, table, indices)
    assert "threads share" in plan.source
    np.testing.assert_allclose(
        plan([table, indices])[0], np.exp(table[indices]).sum(0), rtol=1e-5
    )
    assert not team.desk[team.TEAM_PLACES // 8 :].any()
    with pytest.raises(IndexError, match="out of bounds"):
        plan([table, indices + 1])
    assert not team.desk[team.TEAM_PLACES // 8 :].any()


COUNT_TEXT = """
define internal void @count(ptr %counts, i64 %number) {
  %place = getelementptr i64, ptr %counts, i64 %number
  %before = atomicrmw add ptr %place, i64 1 monotonic, align 8
  ret void
}"""


def counting_function(parts):
    """Returns a function of an array and a team's memory, whose parts count themselves."""
    module, lines = Module(), Lines()
    module.functions["count"] = COUNT_TEXT
    lines.begin("entry")
    array = lines.let("load ptr, ptr %objects")
    place = lines.let(f"getelementptr i8, ptr {array}, i64 {OBJECT_HEADER}")
    counts = lines.let(f"load ptr, ptr {place}")
    for _ in range(3):
        team.shared_call(lines, module, "%team", "count", counts, parts)
    lines.add("ret i64 0")
    team.opened_and_closed(lines, module, 1)
    module.declared.update(lines.declared)
    body = "\n".join(["define i64 @counting(ptr %objects) {", *lines.text, "}"])
    return objects_call(machine_code(module.text(body), ["counting"]), "counting", 2)


@pytest.mark.parametrize("parts", [1, 7, 200])
def test_threads_take_each_part_once(parts):
    counting = counting_function(parts)
    for helped in (False, True) * 100:
        call_helpers(team.serve_teams, 3)
        own = team.Team.taken(helped)
        counts = np.zeros(parts, np.int64)
        assert counting(counts, own.memory) is None
        assert (counts == 3).all()
        own.give_back()


def test_helpers_end_when_there_is_no_work():
    call_helpers(team.serve_teams, 3)
    done = threading.Event()
    threading.Thread(target=lambda: (team.serve_teams(), done.set())).start()
    assert done.wait(60)


FORKING = """
import os, numpy as np
import functensor as ft, functensor.numpy as fnp
from functensor.backends.native.team import AWAKE, desk
f = ft.jit(lambda x: fnp.sum(fnp.exp(fnp.sin(x)), axis=0))
x = np.ones((300, 1000), "float32")
f.compile(x)
first = [np.asarray(f(x)) for _ in range(20)][-1]
desk[AWAKE // 8] = 3
child = os.fork()
if child == 0:
    fine = not desk.any() and all(np.array_equal(f(x), first) for _ in range(20))
    os._exit(0 if fine else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_the_child_of_a_fork_has_a_clear_desk():
    assert run_python(FORKING, FUNCTENSOR_NUM_THREADS="2").strip() == "0"


@pytest.mark.parametrize(
    ("rows", "columns", "parts", "held"),
    [(256, 64, 4, False), (256, 128, 6, False), (1024, 256, 2, True)],
)
def test_blas_is_held_to_one_thread_where_it_would_take_more(
    rows, columns, parts, held, monkeypatch
):
    monkeypatch.setattr(threads, "number", 2)
    made = []
    add = shared_segments.SharedSegment._add_product

    def noted(self, *given):
        work = add(self, *given)
        made.append(self._calls[-1].kernel)
        return work

    monkeypatch.setattr(shared_segments.SharedSegment, "_add_product", noted)
    plan = planned(lambda x, w: fnp.tanh(x @ w), normal(rows, 64), normal(64, columns))
    (product,) = made
    assert product.parts == parts
    assert "threads share" in plan.source
    assert plan.parts.shares == held


def test_plans_without_products_leave_blas_alone(monkeypatch):
    monkeypatch.setattr(threads, "number", 2)
    plan = planned(lambda x: fnp.sum(fnp.exp(x), axis=0), normal(1000, 300))
    assert "threads share" in plan.source
    assert not plan.parts.shares


def test_products_with_vectors_hold_blas_beside_other_threads(monkeypatch):
    monkeypatch.setattr(threads, "number", 2)
    plan = planned(lambda x, v: fnp.exp(x) @ v, normal(1000, 300), normal(300))
    assert "threads share" in plan.source
    assert plan.parts.shares


def test_work_of_some_microseconds_has_even_parts(monkeypatch):
    counts = []
    in_parts = shared_segments.region_in_parts

    def noted(region, count):
        counts.append(count)
        return in_parts(region, count)

    monkeypatch.setattr(shared_segments, "region_in_parts", noted)
    planned(lambda x, y: x[:, :, None] * y[:, None, :], normal(256, 64), normal(256, 64))
    assert counts == [16]
