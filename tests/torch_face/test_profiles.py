"""Profiles that begin and end out of order say so, and leave nothing behind."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import functensor.torch as torch
from functensor.torch.profiler import profile, record_function, schedule


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


def measured_memory(**options):
    x, w = torch.ones(1000), torch.ones(100, 1000, requires_grad=True)
    with profile(profile_memory=True, **options) as measured, record_function("all of it"):
        y = w @ x
        z = y.view(10, 10) * 2
        z.sum().backward()
    return measured


def test_the_memory_of_results():
    measured = measured_memory()
    found = {each.key: each for each in measured.key_averages()}
    own = {name: each.self_cpu_memory_usage for name, each in found.items()}
    assert own["matmul"] == own["multiply"] == own["multiply (backward)"] == 400
    assert own["matmul (backward)"] == 400_000
    assert own["reshape"] == own["all of it"] == 0
    whole = found["all of it"].cpu_memory_usage
    assert whole == sum(own.values()) == measured.key_averages().total_average().cpu_memory_usage
    assert found["all of it"].device_memory_usage == 0
    table = measured.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=1)
    head, row = (re.split(" {2,}", table.splitlines()[i].strip()) for i in (1, 3))
    assert head[-3:] == ["CPU Mem", "Self CPU Mem", "# of Calls"]
    assert (row[0], row[-3:]) == ("matmul (backward)", ["390.62 KB", "390.62 KB", "1"])
    with profile() as unmeasured:
        torch.ones(3) + 1
    assert "Mem" not in unmeasured.key_averages().table()
    assert unmeasured.key_averages()[0].cpu_memory_usage == 0


def test_traces_have_the_memory(tmp_path):
    measured_memory().export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    found = {each["name"]: each["args"].get("CPU bytes") for each in events}
    assert (found["matmul"], found["matmul (backward)"]) == (400, 400_000)
