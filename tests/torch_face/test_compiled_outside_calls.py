"""`torch.compile`: calls that print, log, write or ask for the time do so every time."""

import gc
import logging
import sys
import time
import warnings
from datetime import datetime

import pytest

import functensor.torch as torch
from functensor.torch import nn

logger = logging.getLogger(__name__)

TOLD = {
    "printed": lambda: print("told"),
    "logged": lambda: logger.warning("told"),
    "written": lambda: sys.stdout.write("told\n"),
}
CLOCKS = {
    "a counter": lambda: time.perf_counter(),
    "a clock": lambda: time.time_ns(),
    "a date": lambda: datetime.now().timestamp(),
}


def made(call, of_module):
    class Running(nn.Module):
        def forward(self, x):
            return call(x)

    return torch.compile(Running() if of_module else call)


@pytest.mark.parametrize("of_module", [False, True])
@pytest.mark.parametrize("name", TOLD)
def test_messages_come_with_every_call(name, of_module, capsys, caplog):
    def telling(x):
        TOLD[name]()
        return x * 2

    compiled = made(telling, of_module)
    with pytest.warns(UserWarning, match="it (calls|logs)"):
        assert [compiled(torch.ones(1)).item() for _ in range(4)] == [2, 2, 2, 2]
    assert capsys.readouterr().out.count("told") + caplog.text.count("told") == 4


@pytest.mark.parametrize("of_module", [False, True])
@pytest.mark.parametrize("name", CLOCKS)
def test_the_time_goes_on(name, of_module):
    seen = []

    def timed(x):
        return x * 2, torch.tensor(CLOCKS[name](), dtype=torch.float64)

    compiled = made(timed, of_module)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(5):
            seen.append(compiled(torch.ones(1))[1].item())
            time.sleep(0.001)
    assert sorted({*seen}) == seen


@pytest.mark.parametrize("read", [lambda path: path.read_text(), lambda path: path.open().read()])
def test_files_are_read_in_every_call(read, tmp_path):
    path = tmp_path / "number"
    compiled = torch.compile(lambda x: x * float(read(path)))
    with warnings.catch_warnings(action="ignore"):
        for number in "1233":
            path.write_text(number)
            assert compiled(torch.ones(1)).item() == float(number)


@pytest.mark.filterwarnings("error")
def test_messages_that_do_not_come_end_no_plans():
    def told_by(x, wanted):
        if wanted:
            print("told")
        logger.debug("told")
        return x * 2

    compiled = torch.compile(lambda x: told_by(x, False), fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(1)).item() == 2


def test_a_profiler_that_runs_stays():
    def telling(x):
        print("told")
        return x

    events = []
    sys.setprofile(lambda *event: events.append(event))
    try:
        profiler = sys.getprofile()
        with warnings.catch_warnings(action="ignore"):
            torch.compile(telling)(torch.ones(1))
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    with warnings.catch_warnings(action="ignore"):
        torch.compile(telling)(torch.ones(1))
    assert sys.getprofile() is None


def test_what_the_collector_of_garbage_calls_is_none_of_the_users_calls():
    times = []

    def asking(phase, info):
        times.append(time.perf_counter())

    def collecting(x):
        if x is None:
            time.perf_counter()
        gc.collect()
        return x * 2

    compiled = torch.compile(collecting, fullgraph=True)
    gc.callbacks.append(asking)
    try:
        assert compiled(torch.ones(1)).item() == 2
    finally:
        gc.callbacks.remove(asking)
    assert times
