"""Primitives and public functions pass all their checks when they are jitted."""

import weakref

import numpy as np
import pytest
import registry_cases as cases
from placed import calls_jitted
from surface import all_cases
from surface.harness import CHECKS
from test_primitives import PRIMITIVES

from functensor.backends.plan import Plan
from functensor.primitives.registry import registry

pytestmark = pytest.mark.filterwarnings("ignore::functensor.retracing.RetraceWarning")


@pytest.fixture(autouse=True)
def memory_of_their_own(monkeypatch):
    """Sees to it that plans write into no argument, and into no result that they gave before."""
    given = weakref.WeakKeyDictionary()
    run = Plan.__call__

    def same(arrays, copies):
        return all(map(lambda a, b: np.array_equal(a, b, equal_nan=True), arrays, copies))

    def copied(arrays):
        return [np.array(x) for x in arrays]

    def watched(plan, buffers):
        before = copied(buffers)
        outs = run(plan, buffers)
        assert same(buffers, before), f"an argument was written into by\n{plan.source}"
        assert same(*given.get(plan, ((), ()))), f"a result was written into by\n{plan.source}"
        given[plan] = outs, copied(outs)
        return outs

    monkeypatch.setattr(Plan, "__call__", watched)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitive(name):
    with calls_jitted():
        for check in cases.SAMPLE_CHECKS.values():
            cases.run_check(check, registry[name])


@pytest.mark.parametrize("case", all_cases(), ids=repr)
def test_public_function(case):
    if case.static:
        return
    with calls_jitted():
        for check in CHECKS.values():
            check(case)
