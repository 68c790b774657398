"""Sharing that is measured: which way stays, when it is asked again, and that results stay."""

import threading

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.threads import sharing as module
from functensor.backends.cpu.plan.threads.pool import threads
from functensor.backends.cpu.plan.threads.sharing import (
    CALLS_BETWEEN,
    FEWEST_CALLS,
    LONG_WORK,
    MEASURED_CALLS,
    SECONDS_BETWEEN,
    MeasuredSharing,
)


class Clock:
    """A clock that calls move on: those of one thread by one time, those of several by another."""

    def __init__(self, alone, shared):
        self.now = 1000.0
        self.alone, self.shared = alone, shared
        self.numbers = []

    def __call__(self):
        return self.now

    def share(self, work, number):
        self.numbers.append(number)
        work()
        took = self.shared if number > 1 else self.alone
        self.now += took() if callable(took) else took


@pytest.fixture
def clock(monkeypatch):
    def made(alone, shared):
        clock = Clock(alone, shared)
        monkeypatch.setattr(module, "perf_counter", clock)
        monkeypatch.setattr(module, "share", clock.share)
        return clock

    return made


def called(sharing, times, number=4):
    """Calls it so many times, with a clock's `share`, which does the work once."""
    done = []
    for _ in range(times):
        sharing(lambda: done.append(1), number)
    assert len(done) == times


@pytest.mark.parametrize(("alone", "shared", "pays"), [(1e-4, 6e-5, True), (1e-4, 1.2e-4, False)])
def test_the_quicker_way_stays(clock, alone, shared, pays):
    told = clock(alone, shared)
    sharing = MeasuredSharing()
    called(sharing, 2 * FEWEST_CALLS)
    assert sorted(told.numbers) == [1] * FEWEST_CALLS + [4] * FEWEST_CALLS
    assert told.numbers[0] == 1
    assert sharing.pays is pays
    called(sharing, 100)
    assert set(told.numbers[2 * FEWEST_CALLS :]) == {4 if pays else 1}


def test_calls_that_end_behind_a_decision_are_no_error(clock):
    clock(1e-4, 6e-5)
    sharing = MeasuredSharing()
    called(sharing, 1)

    # Calls within calls stand for those of other threads: all begin before what the last one does.
    def begun(count):
        sharing(lambda: begun(count - 1) if count else called(sharing, 4 * FEWEST_CALLS), 4)

    begun(FEWEST_CALLS + 1)
    assert sharing.pays
    called(sharing, 2 * CALLS_BETWEEN)


def test_a_few_slow_calls_do_not_decide(clock):
    slow = iter([5e-3, 4e-3])
    told = clock(1e-4, lambda: next(slow, 6e-5))
    sharing = MeasuredSharing()
    called(sharing, 2 * MEASURED_CALLS)
    assert sharing.pays
    assert told.numbers.count(4) == MEASURED_CALLS


def test_it_is_asked_again(clock):
    told = clock(1e-4, 6e-5)
    sharing = MeasuredSharing()
    called(sharing, 2 * MEASURED_CALLS)
    assert sharing.pays
    told.shared = 3e-4  # another process wants the cores now
    told.now += SECONDS_BETWEEN
    called(sharing, CALLS_BETWEEN + 2 * FEWEST_CALLS)
    assert not sharing.pays
    told.shared = 6e-5
    told.now += SECONDS_BETWEEN
    called(sharing, CALLS_BETWEEN + 2 * FEWEST_CALLS)
    assert sharing.pays


def test_long_work_is_shared_from_the_second_call(clock):
    told = clock(2 * LONG_WORK, LONG_WORK)
    sharing = MeasuredSharing()
    called(sharing, 20)
    assert told.numbers == [1] + [4] * 19
    assert "pays" in repr(sharing)


def test_one_thread_is_not_measured(clock):
    told = clock(1.0, 1.0)
    called(MeasuredSharing(), 5, number=1)
    assert told.numbers == []


def test_an_error_goes_through_and_the_next_call_works():
    sharing = MeasuredSharing()

    def fail():
        raise ValueError("wrong")

    for _ in range(3):
        with pytest.raises(ValueError, match="wrong"):
            sharing(fail, 2)
    done = []
    for _ in range(3 * MEASURED_CALLS):
        left = iter([1])  # a helper that comes late finds nothing
        sharing(lambda left=left: done.extend(left), 2)
    assert len(done) == 3 * MEASURED_CALLS


def test_several_callers_at_once():
    sharing, count = MeasuredSharing(), [0] * 4

    def call(number):
        for _ in range(100):
            left = iter(range(3))
            sums = []
            sharing(lambda left=left, sums=sums: sums.extend(left), 2)
            count[number] += sorted(sums) == [0, 1, 2]

    callers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert count == [100] * 4


def test_bits_do_not_depend_on_the_way(monkeypatch):
    monkeypatch.setattr(threads, "number", 2)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(700, 600)).astype("f"), rng.normal(size=(600, 500)).astype("f")

    def f(x, w):
        h = fnp.tanh(x @ w)
        return fnp.sum(h * h), h @ w.T, (x[0] @ w) + 1, fnp.exp(x) * 2

    plan = get_backend("numpy").plan(ft.make_program(f)(x, w))
    first = plan([x, w])
    assert "sharing_" in plan.source
    for _ in range(2 * MEASURED_CALLS + 2):
        for again, wanted in zip(plan([x, w]), first, strict=True):
            np.testing.assert_array_equal(again, wanted)
