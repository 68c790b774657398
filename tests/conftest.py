"""Settings of all tests: one BLAS thread, no objects on the disk, Hypothesis without a limit."""

import gc
import os
from functools import cache
from pathlib import Path

# Before NumPy and SciPy load their libraries: several test processes share the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("FUNCTENSOR_CHECK_PROGRAMS", "1")
# Nothing is left in the user's folders, and nothing comes from there.
os.environ.setdefault("FUNCTENSOR_CACHE_DIR", "")

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from support.long_forms import LONG, cases_of_the_long_form, only_long, sized

from functensor.backends import BackendUnavailable
from functensor.backends import get as get_backend
from functensor.jitting.retraces import History

settings.register_profile(
    "functensor",
    deadline=None,
    derandomize=False,
    max_examples=sized(4, 12),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("functensor")

# One of these is in the text of each module that has a test marked ``long``.
SAYS_LONG = ("mark.long", "on_every_architecture", "with_slow", "thinned", "hypothesis")

# Modules of shared checks show the values of a failed assertion as the tests do.
pytest.register_assert_rewrite("error_cases", "registry_cases")


def pytest_report_header(config):
    """Says which tests are left out, and why."""
    lines = []
    if missing_gpu():
        lines.append(f"tests marked gpu are left out: {missing_gpu()}")
    if not LONG:
        lines.append("tests of the long form alone are left out: FUNCTENSOR_LONG_TESTS=1 runs them")
        lines += ["of tests with many cases one in three runs"] * runs_all_tests(config)
    return lines


def pytest_collection_modifyitems(config, items):
    """Marks what Hypothesis draws, of which a long run has more examples, and leaves tests out.

    Thousands of tests that would only be skipped take time, so that they do not stay.
    """
    kept = [item for item in items if not is_left_out(item)]
    further = set()
    if LONG or runs_all_tests(config):
        further.update(cases_of_the_long_form(kept))
    for item in kept:
        if item in further or getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker("long")
    if not LONG:
        kept = [item for item in kept if item not in further]
    staying = set(kept)
    left_out = [item for item in items if item not in staying]
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def runs_all_tests(config):
    """Says whether no tests were chosen, by a path, a word or a mark."""
    given = [Path(path).resolve() for path in config.args]
    chosen = config.option.keyword or config.option.markexpr
    return given == [Path(__file__).parent] and not chosen


def is_left_out(item):
    """Says whether a test cannot run here: for lack of a GPU, or as its long form is its only."""
    if missing_gpu() and item.get_closest_marker("gpu") is not None:
        return True
    return not LONG and only_long.mark in item.iter_markers("skipif")


def pytest_ignore_collect(collection_path, config):
    """Passes over modules without tests of long forms where only those are asked for."""
    if config.option.markexpr != "long" or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if any(word in text for word in SAYS_LONG) else True


def pytest_collection_finish():
    """Exempts the collected tests from garbage collection, which many tests ask for."""
    gc.collect()
    gc.freeze()


@cache
def missing_gpu():
    """Returns why there is no GPU to test on; empty where there is one."""
    try:
        get_backend("cupy")
    except BackendUnavailable as error:
        return f"needs a GPU: {str(error).splitlines()[0]}"
    return ""


class Running:
    """What this process runs."""

    path = None


def pytest_runtest_setup(item):
    """Begins a program of its own, which jits no function as often as all tests together."""
    History.anew.clear()
    if item.path != Running.path:
        # What other modules left behind is no garbage, but takes time in every collection.
        Running.path = item.path
        pytest_collection_finish()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Runs a test as pytest does; a process of several sends those reports alone that say much.

    Sending the reports of a test takes longer than many a test. Left out are set-ups and
    tear-downs that passed at once.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > 0.005:
            report.keywords = {}
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture
def launches(monkeypatch):
    """Returns a list to which the name of every kernel of ours that is launched is added."""
    from functensor.backends.cuda.launch import Kernel

    names = []
    call = Kernel.__call__

    def noted(self, *args, **kwargs):
        names.append(self.name)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(Kernel, "__call__", noted)
    return names
