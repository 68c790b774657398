"""Settings of all tests: one BLAS thread, and Hypothesis without a time limit or a fixed seed."""

import gc
import os
from functools import cache

# Before NumPy and SciPy load their libraries: several test processes share the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("FUNCTENSOR_CHECK_PROGRAMS", "1")

import pytest
from hypothesis import HealthCheck, settings
from support.long_forms import sized

from functensor.backends import BackendUnavailable
from functensor.backends import get as get_backend
from functensor.jitting.retraces import History

settings.register_profile(
    "functensor",
    deadline=None,
    derandomize=False,
    max_examples=sized(10, 40),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("functensor")

# Modules of shared checks show the values of a failed assertion as the tests do.
pytest.register_assert_rewrite("error_cases", "registry_cases")


def pytest_collection_modifyitems(items):
    """Marks what Hypothesis draws, of which a long run has more examples."""
    for item in items:
        if getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker("long")


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


def pytest_runtest_setup(item):
    """Skips what needs a GPU where there is none, and says why."""
    # A test is a program of its own, which jits no function as often as all tests together.
    History.anew.clear()
    if item.get_closest_marker("gpu") is not None and missing_gpu():
        pytest.skip(missing_gpu())


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
