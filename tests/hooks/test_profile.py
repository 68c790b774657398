"""Profiled runs: which operations are told, in which phases and scopes, and which memory is."""

import re
from collections import Counter

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as np
from functensor.hooks.operation import Operation
from functensor.hooks.profiling.recording import Event, Lifetime, Recording
from functensor.hooks.profiling.report import Report
from functensor.hooks.profiling.timeline import bars

profile = ft.hooks.profile
W, X = numpy.ones((3, 4)), numpy.ones((2, 3))


def loss(w, x):
    with ft.scope("layer"), ft.scope("product"):
        y = np.matmul(x, w)
    return np.sum(np.tanh(y))


def told(report):
    """Returns the names and phases of a report's operations."""
    return [(event.name, event.phase) for event in report.events]


FORWARD = [("matmul", "forward"), ("tanh", "forward"), ("sum", "forward")]
BACKWARD = [("sum", "backward"), ("tanh", "backward"), ("matmul", "backward")]


def with_tensors(w, x):
    w = ft.tensor(w, requires_grad=True)
    loss(w, x).backward()
    return w.grad


@pytest.mark.parametrize(
    ("fun", "phases"),
    [
        (loss, FORWARD),
        (ft.grad(loss), FORWARD + BACKWARD),
        (ft.jit(ft.grad(loss)), FORWARD + BACKWARD),
        (ft.grad(ft.jit(loss)), FORWARD + BACKWARD),
        (with_tensors, FORWARD + BACKWARD),
        (
            lambda w, x: ft.jvp(loss, (w, x), (w, x)),
            [(name, "tangent") for name, _ in FORWARD],
        ),
        (
            ft.grad(lambda w, x: ft.checkpoint(loss)(w, x)),
            [*FORWARD, *((name, "replay") for name, _ in FORWARD), *BACKWARD],
        ),
    ],
    ids=["plain", "grad", "jit", "inner jit", "tensors", "jvp", "checkpoint"],
)
def test_operations_of_every_transformation(fun, phases):
    report = profile(fun)(W, X)
    assert told(report) == phases
    for got, wanted in zip(ft.tree.leaves(report.result), ft.tree.leaves(fun(W, X)), strict=True):
        assert numpy.array_equal(numpy.asarray(got), numpy.asarray(wanted))
    scopes = {event.name: event.scope for event in report.events}
    assert scopes == {"matmul": "layer/product", "tanh": "", "sum": ""}
    lines = {event.name: event.line for event in report.events}
    assert all(line.rpartition(":")[0] == __file__ for line in lines.values())
    assert lines["tanh"] == lines["sum"] != lines["matmul"]


def test_times_follow_each_other():
    report = profile(ft.grad(loss))(W, X)
    moments = [moment for event in report.events for moment in (event.begin, event.end)]
    assert moments == sorted(moments)
    assert moments[0] >= 0
    assert moments[-1] <= report.total
    own = [event.end - event.begin for event in report.events]
    assert report.own_times == own
    assert sum(row.time for row in report.by_primitive()) == sum(own)
    assert sum(row.time for row in report.by_line()) == sum(own)


def test_shapes_and_bytes_of_examples():
    report = profile(ft.vmap(lambda x: np.sin(x)))(numpy.ones((5, 2)))
    [event] = report.events
    assert event.batch_size == 5
    assert event.shapes == "(float64[2]) → float64[2]"
    assert event.bytes == 80
    assert profile(np.sin)(1.0).events[0].shapes.startswith("(float")


def test_several_outputs_are_one_operation():
    @ft.custom_vjp
    def pair(x):
        return np.sin(x), np.cos(x)

    pair.defvjp(lambda x: (pair(x), x), lambda x, gs: (gs[0] * x,))

    def fun(x):
        a, b = pair(x)
        return np.sum(a * b)

    report = profile(ft.grad(fun))(numpy.ones(3))
    assert Counter(told(report))["pair", "forward"] == 1
    [event] = [e for e in report.events if e.name == "pair" and e.phase == "forward"]
    assert event.shapes == "(float64[3]) → float64[3], float64[3]"
    assert event.bytes == 48


def test_rows_by_scope_hold_inner_scopes():
    def fun(x):
        for _ in range(3):
            with ft.scope("outer"):
                x = np.sin(x)
                with ft.scope("inner"):
                    x = np.cos(np.exp(x))
        return np.tan(x)

    report = profile(fun)(numpy.ones(4))
    rows = {row.name: (row.calls, row.bytes, row.backward) for row in report.by_scope()}
    assert rows == {"outer": (9, 288, 0), "outer/inner": (6, 192, 0)}
    assert report.by_scope()[0].name == "outer"


def test_the_memory_of_a_chain():
    def chain(x):
        for _ in range(5):
            x = np.sin(x)
        return np.sum(x)

    report = profile(chain)(numpy.ones(1000))
    # The argument, what is computed, and what it is computed of.
    assert report.peak == 3 * 8000
    assert [(held.maker, held.arrays, held.bytes) for held in report.at_peak()] == [
        ("sin", 2, 16000),
        ("argument", 1, 8000),
    ]
    # The argument lives on; the last result was freed.
    assert report.memory[-1][1] == 8000
    assert [life.end is None for life in report.lifetimes] == [True, *[False] * 5]


def test_residuals_are_alive_until_the_way_back():
    def chain(x):
        for _ in range(5):
            x = np.sin(x)
        return np.sum(x)

    report = profile(ft.grad(chain), backward=False)(numpy.ones(1000))
    assert {event.phase for event in report.events} == {"forward"}
    kept = [held for held in report.at_peak() if held.maker == "sin"]
    # Sine keeps its operand: of five the last result is not kept, but still there for the sum.
    assert [held.arrays for held in kept] == [5]
    assert report.peak >= 6 * 8000
    assert not report.watched
    assert profile(ft.grad(chain))(numpy.ones(1000)).watched


def test_tangents_are_counted():
    def chain(x):
        return np.sum(np.sin(x))

    x = numpy.ones(1000)
    report = profile(lambda x: ft.jvp(chain, (x,), (x * 2,)))(x)
    # The result of the multiplication is the tangent.
    assert [(event.name, event.bytes) for event in report.events] == [
        *(("sin", 16000), ("sum", 16))
    ]
    makers = {held.maker: held.bytes for held in report.at_peak()}
    assert makers == {"argument": 8000, "constant": 8000, "sin": 16000}


def test_an_operation_that_a_plan_shows_again_is_another_one():
    recording = Recording()
    op = Operation("sin", {})
    x, y = np.ones(3), np.ones(3)
    for out in (x, y):
        recording.before(op, (x,))
        recording.forward(op, (x,), out)
    recording.forward(op, (y,), x)
    assert len(recording.events) == 3
    recording.forward(op, (y,), x)
    assert [event.bytes for event in recording.events] == [24, 24, 48]
    # Without a word before it, an operation begins when the last one was written down.
    assert recording.events[1].end <= recording.events[2].begin <= recording.events[2].end


def test_views_and_constants_are_counted_once():
    constant = np.ones(500)

    def fun(x):
        y = np.reshape(x, (10, 100))
        return np.sum(y[2:4]) + np.sum(constant) + np.sum(y.T)

    # Of a NumPy array, which may be changed, a view would be a copy.
    report = profile(fun)(np.ones(1000))
    assert report.peak == 8000 + 4000
    makers = {held.maker: held.bytes for held in report.at_peak()}
    assert makers == {"argument": 8000, "constant": 4000}


def test_recording_keeps_nothing_alive():
    def fun(x):
        return np.sum(np.sin(x))

    report = profile(fun)(numpy.ones(1000))
    [made] = [life for life in report.lifetimes if getattr(life.maker, "name", "") == "sin"]
    assert made.end is not None
    assert made.end <= report.total


def test_exceptions_pass_and_the_next_run_is_its_own():
    def fails(x):
        y = np.sin(x)
        try:
            np.matmul(y, np.ones(7))
        except ValueError:
            return np.cos(y)
        raise AssertionError

    report = profile(fails)(numpy.ones(3))
    assert told(report)[-1] == ("cos", "forward")
    with pytest.raises(ZeroDivisionError):
        profile(lambda x: 1 // 0)(1.0)
    assert told(profile(np.sin)(numpy.ones(3))) == [("sin", "forward")]


def test_nothing_is_computed():
    report = profile(lambda x: x)(numpy.ones(3))
    assert report.events == []
    assert report.peak == 24
    assert str(report).startswith("<lambda>: ")
    empty = profile(lambda: None)()
    assert empty.peak == 0
    assert empty.at_peak() == []


def test_the_text():
    text = str(profile(ft.grad(loss))(W, X))
    number = r"[\d,]+\.\d{3}"
    first, head, *rows = text.splitlines()
    times, memory = first.split("; ")
    assert re.fullmatch(rf"loss: {number} ms, {number} ms of them in 6 operations", times)
    assert re.fullmatch(r"at most [\d,]+ bytes alive", memory)
    assert head.split() == ["ms", "forward", "backward", "calls", "bytes", "primitive"]
    assert {row.split()[-1]: row.split()[3] for row in rows} == {
        "matmul": "2", "tanh": "2", "sum": "2"
    }  # fmt: skip


def test_the_text_is_cut():
    events = [Event(f"f{i}", "", "", "forward", i, i + 1, "", 0, None) for i in range(30)]
    text = str(Report("fun", None, 30, True, events, []))
    assert len(text.splitlines()) == 23
    assert text.endswith("... and 10 more")


def test_wrong_arguments():
    with pytest.raises(TypeError, match="profile"):
        profile(3)


@st.composite
def recorded(draw):
    """Draws events as a run writes them down: they end in order, and some lie within others."""
    events, moment = [], 0

    def grow(depth):
        nonlocal moment
        for _ in range(draw(st.integers(0, 3))):
            moment += draw(st.integers(1, 5))
            begin = moment
            scope = draw(st.sampled_from(["", "a", "a/b", "b", "a/c"]))
            phase = draw(st.sampled_from(["forward", "backward"]))
            if depth < 2:
                grow(depth + 1)
            moment += draw(st.integers(1, 5))
            events.append(Event("f", scope, "", phase, begin, moment, "", 0, None))

    grow(0)
    return events


@given(recorded())
def test_own_times_add_up(events):
    report = Report("fun", None, 1000, True, events, [])
    covered = {t for event in events for t in range(event.begin, event.end)}
    assert sum(report.own_times) == len(covered)
    assert all(own > 0 for own in report.own_times)


@given(recorded())
def test_bars_lie_below_the_scopes_that_they_are_in(events):
    found = bars(events)
    assert sorted(bar.event for bar in found if bar.event >= 0) == list(range(len(events)))
    for bar in found:
        if bar.event < 0:
            continue
        event = events[bar.event]
        assert (bar.row, bar.begin, bar.end) == (
            event.phase == "backward", event.begin, event.end
        )  # fmt: skip
        names = event.scope.split("/") if event.scope else []
        for level, name in enumerate(names):
            assert any(
                (b.row, b.level, b.name, b.event) == (bar.row, level, name, -1)
                and b.begin <= bar.begin
                and bar.end <= b.end
                for b in found
            )


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 20), st.one_of(st.none(), st.integers(0, 30)))
    )
)
def test_the_curve_of_memory(drawn):
    lifetimes = [
        Lifetime(size, begin, None if length is None else begin + length, "constant", "")
        for begin, size, length in drawn
    ]
    report = Report("fun", None, 100, True, [], lifetimes)
    for moment, alive in report.memory:
        there = [x for x in lifetimes if x.begin <= moment and (x.end is None or x.end > moment)]
        assert alive == sum(life.bytes for life in there)
    assert report.peak == max(alive for _, alive in report.memory)
    assert sum(held.bytes for held in report.at_peak()) == report.peak


@pytest.mark.gpu
def test_on_a_gpu():
    x = ft.to_device(np.ones(1000), "cuda")
    report = profile(ft.grad(lambda x: np.sum(np.sin(x))), backward=False)(x)
    assert [event.name for event in report.events] == ["sin", "sum"]
    assert report.peak >= 16000
