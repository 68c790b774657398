"""Profiles that begin and end out of order say so, and leave nothing behind."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import functensor.torch as torch
from functensor.torch.profiler import profile, schedule


def test_a_profile_that_has_not_begun_does_not_end():
    with pytest.raises(AssertionError, match=r"stop\(\) of a profile that has not begun"):
        profile().stop()
    ended = profile(schedule=schedule(wait=0, warmup=1, active=1))
    with ended:
        ended.step()
    for call in (ended.stop, ended.step):
        with pytest.raises(AssertionError, match="has not begun"):
            call()


def test_a_profile_begins_once():
    twice = profile()
    with twice:
        with pytest.raises(RuntimeError, match="has begun already"):
            twice.start()
        torch.ones(2) + 1
    torch.ones(2) * 2
    assert [x.name for x in twice.events()] == ["add"]
    with twice:
        torch.ones(2) * 2
    assert [x.name for x in twice.events()] == ["multiply"]


def test_a_profile_ends_in_its_own_thread():
    with ThreadPoolExecutor(1) as pool, profile() as measured:
        with pytest.raises(RuntimeError, match="has begun in another thread"):
            pool.submit(measured.stop).result()
        torch.ones(2) + 1
    assert [x.name for x in measured.events()] == ["add"]
