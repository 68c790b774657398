"""The length of tests: short by default, in full with FUNCTENSOR_LONG_TESTS=1, as in a step of CI.

What has a long form is marked ``long``, so that CI's step finds it. ``conftest.py`` marks what
Hypothesis draws.
"""

import os
import zlib
from collections import Counter

import pytest

LONG = os.environ.get("FUNCTENSOR_LONG_TESTS") == "1"

only_long = pytest.mark.skipif(not LONG, reason="FUNCTENSOR_LONG_TESTS=1 runs it")


def with_slow(names, slow):
    """Returns names for ``parametrize``, of which some are tested in the long form alone."""
    marks = [only_long, pytest.mark.long]
    return [pytest.param(name, marks=marks) if name in slow else name for name in names]


def thinned(cases, every, start=0):
    """Returns one in so many cases for ``parametrize``; in the long form the others as well.

    Only those others are marked ``long``, as every run of the short form has the first ones.
    """
    cases = list(cases)
    if not LONG:
        return cases[start::every]
    return [case if i % every == start else further(case) for i, case in enumerate(cases)]


def further(case):
    """Returns a case that only the long form has."""
    if isinstance(case, type(pytest.param())):
        return case._replace(marks=(*case.marks, pytest.mark.long))
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.long)


def sized(short, long):
    """Returns the first of two sizes, and the second where tests run in full."""
    return long if LONG else short


# Of a test with so many cases the short form of all tests runs one in so many.
MANY_CASES, CASES_FOR_ONE = 30, 3


def cases_of_the_long_form(items):
    """Returns those cases of tests with many cases that the short form of all tests leaves out.

    A case stays where it is, whatever other cases there are.
    """
    counts = Counter(map(test_of, items))
    return [
        item
        for item in items
        if counts[test_of(item)] >= MANY_CASES
        and zlib.crc32(item.nodeid.encode()) % CASES_FOR_ONE
    ]


def test_of(item):
    """Returns what the cases of a test have in common."""
    return item.nodeid.partition("[")[0]
