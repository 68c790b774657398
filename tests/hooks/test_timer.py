"""The timer: what it counts and adds up, what nests, and the file of its timeline."""

import json
import threading
from itertools import count

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import TimerHook, timer, use
from functensor.hooks.operation import Operation

X = numpy.array([0.3, -0.7, 1.1])


@pytest.fixture
def clock(monkeypatch):
    """A clock that is a millisecond further each time that it is read."""
    ticks = count(0, 1_000_000)
    monkeypatch.setattr(timer, "perf_counter_ns", lambda: next(ticks))


def ms(times):
    return times.calls, round(times.inclusive * 1e3, 6), round(times.exclusive * 1e3, 6)


def layer(x):
    with ft.scope("layer"):
        y = np.sin(x)
        with ft.scope("inner"):
            return np.exp(y) * np.sin(y)


def test_times_by_primitive_and_phase(clock):
    hook = TimerHook()
    with use(hook):
        ft.grad(lambda x: np.sum(layer(x)))(X)
        ft.jvp(np.sin, (X,), (X,))
    found = {key: ms(t) for key, t in hook.times().items()}
    assert found == {
        ("sin", "forward"): (2, 2, 2),
        ("exp", "forward"): (1, 1, 1),
        ("multiply", "forward"): (1, 1, 1),
        ("sum", "forward"): (1, 1, 1),
        ("sum", "backward"): (1, 1, 1),
        ("multiply", "backward"): (1, 1, 1),
        ("sin", "backward"): (2, 2, 2),
        ("exp", "backward"): (1, 1, 1),
        ("sin", "tangent"): (1, 1, 1),
    }


def test_times_by_scope(clock):
    hook = TimerHook()
    with use(hook):
        ft.grad(lambda x: np.sum(layer(x)))(X)
    found = {key: ms(t) for key, t in hook.times("scope").items()}
    assert found == {
        ("", "forward"): (5, 5, 1),
        ("layer", "forward"): (4, 4, 1),
        ("layer/inner", "forward"): (3, 3, 3),
        ("", "backward"): (5, 5, 1),
        ("layer", "backward"): (4, 4, 1),
        ("layer/inner", "backward"): (3, 3, 3),
    }


def operation(name, scope=""):
    return Operation(name, {}, "model.py:1", scope)


def test_operations_within_operations(clock):
    """``outer`` from 1 to 8 ms runs ``sin`` from 2 to 3, and ``outer`` again from 4 to 7."""
    hook = TimerHook()
    outer, inner, again, deep = (operation(name, "a") for name in ("outer", "sin", "outer", "sin"))
    for op, ends in [
        (outer, False), (inner, False), (inner, True), (again, False), (deep, False),
        (deep, True), (again, True), (outer, True),
    ]:  # fmt: skip
        if ends:
            hook.forward(op, (X,), X)
        else:
            hook.before(op, (X,))
    found = {key: ms(t) for key, t in hook.times().items()}
    assert found[("outer", "forward")] == (2, 7, 5)
    assert found[("sin", "forward")] == (2, 2, 2)
    assert ms(hook.times("scope")["a", "forward"]) == (4, 7, 7)
    assert ms(hook.times("scope")["", "forward"]) == (4, 7, 0)


def test_a_hook_that_is_registered_twice_counts_time_once(clock):
    hook = TimerHook()
    with use(hook), use(hook):
        np.sin(X)
    assert ms(hook.times()["sin", "forward"]) == (2, 3, 3)


def test_an_operation_that_raises_leaves_others_their_times(clock):
    hook = TimerHook()
    bad = ft.hooks.FnHook(forward=lambda op, inputs, output: 1 / 0)
    with use(hook):
        for _ in range(3):
            with use(bad, match="cos"), pytest.raises(ZeroDivisionError):
                np.cos(X)
    hook = TimerHook()
    for _ in range(3):
        with use(bad, match="cos"), use(hook), pytest.raises(ZeroDivisionError):
            np.cos(X)
    with use(hook):
        np.cos(np.sin(X))
        ft.grad(np.sin)(1.0)
    assert {key: ms(t) for key, t in hook.times().items()} == {
        ("sin", "forward"): (2, 2, 2),
        ("cos", "forward"): (1, 1, 1),
        ("sin", "backward"): (1, 1, 1),
    }


def test_operations_of_several_outputs_count_once(clock):
    hook = TimerHook()

    @ft.custom_vjp
    def pair(x):
        return np.sin(x), np.cos(x)

    pair.defvjp(lambda x: (pair(x), x), lambda x, gs: (gs[0] * np.cos(x),))
    with use(hook):
        ft.grad(lambda x: sum(pair(x)))(1.0)
    assert hook.times()["pair", "forward"].calls == 1
    assert hook.times()["pair", "backward"].calls == 1


def test_operations_that_run_again_are_a_phase(clock):
    hook = TimerHook()
    with use(hook):
        ft.grad(ft.checkpoint(np.sin))(1.0)
    found = {key: t.calls for key, t in hook.times().items()}
    assert found == {("sin", "forward"): 1, ("sin", "replay"): 1, ("sin", "backward"): 1}


def test_report_is_sorted_and_aligned(clock):
    hook = TimerHook()
    with use(hook):
        layer(X)
    assert hook.report() == (
        "<TimerHook: 4 operations, 4.000 ms>\n\n"
        "   ms  own ms  calls  phase    primitive\n"
        "2.000   2.000      2  forward  sin\n"
        "1.000   1.000      1  forward  exp\n"
        "1.000   1.000      1  forward  multiply\n\n"
        "   ms  own ms  calls  phase    scope\n"
        "4.000   0.000      4  forward  (all)\n"
        "4.000   1.000      4  forward  layer\n"
        "3.000   3.000      3  forward  layer/inner"
    )


def test_report_of_nothing():
    assert TimerHook().report().startswith("<TimerHook: 0 operations, 0.000 ms>")


def nested(events):
    """Says whether complete events of a thread lie within each other or apart."""
    open_until = []
    for event in events:
        while open_until and open_until[-1] <= event["ts"]:
            open_until.pop()
        end = event["ts"] + event["dur"]
        if open_until and end > open_until[-1]:
            return False
        open_until.append(end)
    return True


def test_trace_file(tmp_path):
    hook = TimerHook()

    def work():
        with handle.shared():
            ft.vmap(ft.grad(lambda x: np.sum(layer(ft.tag(x, "input")))))(numpy.ones((4, 3)))

    with use(hook) as handle:
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        layer(X)
        thread.join()
    path = tmp_path / "trace.json"
    hook.save_trace(path)
    found = json.loads(path.read_text())
    assert found["displayTimeUnit"] == "ms"
    events = found["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert set(names.values()) == {"worker", threading.current_thread().name}
    complete = [e for e in events if e["ph"] == "X"]
    assert len(complete) + len(names) == len(events)
    assert len(complete) == sum(t.calls for t in hook.times().values()) == 4 + 2 * 6
    for event in complete:
        assert set(event) == {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"}
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        assert event["args"]["line"].rpartition(":")[0].endswith("test_timer.py")
    for tid in names:
        assert nested([e for e in complete if e["tid"] == tid])
    (first,) = [e for e in complete if e["name"] == "exp" and names[e["tid"]] != "worker"]
    assert first["args"]["scope"] == "layer/inner"
    assert first["args"]["inputs"] == first["args"]["outputs"] == "float64[3]"
    batched = [e for e in complete if names[e["tid"]] == "worker"]
    assert {e["args"]["examples of vmap"] for e in batched} == {4}
    assert {e["cat"] for e in batched} == {"forward", "backward"}
    assert [e["args"]["tag"] for e in batched if "tag" in e["args"]] == ["input", "input"]


def test_trace_file_nests_operations_within_operations(tmp_path):
    hook = TimerHook()
    outer, inner = operation("outer"), operation("inner")
    hook.before(outer, (X,))
    hook.before(inner, (X,))
    hook.forward(inner, (X,), X)
    hook.forward(outer, (X,), X)
    hook.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"][1:]
    assert [e["name"] for e in events] == ["outer", "inner"]
    assert nested(events)
    assert events[1]["ts"] + events[1]["dur"] <= events[0]["ts"] + events[0]["dur"]


def test_trace_file_holds_the_last_events(tmp_path):
    hook = TimerHook(events=2)
    with use(hook):
        layer(X)
    hook.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == ["sin", "multiply"]


def test_staged_operations_take_no_time():
    hook = TimerHook()

    def staged(x):
        with use(hook):
            return np.sin(x)

    ft.make_program(staged)(X)
    assert hook.times() == {}


@pytest.mark.gpu
def test_a_gpu_is_waited_for():
    import cupy

    x = ft.to_device(np.ones((4096, 4096), "float32"), "cuda")
    hook = TimerHook()
    with use(hook):
        y = x @ x
    assert cupy.cuda.get_current_stream().done
    assert y.shape == (4096, 4096)
    assert hook.times()["matmul", "forward"].calls == 1
