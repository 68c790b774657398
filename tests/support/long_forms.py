"""The length of tests: short by default, in full with FUNCTENSOR_LONG_TESTS=1, as in a step of CI.

What has a long form is marked ``long``, so that CI's step finds it. ``conftest.py`` marks what
Hypothesis draws.
"""

import os

import pytest

LONG = os.environ.get("FUNCTENSOR_LONG_TESTS") == "1"

only_long = pytest.mark.skipif(not LONG, reason="FUNCTENSOR_LONG_TESTS=1 runs it")


def with_slow(names, slow):
    """Returns names for ``parametrize``, of which some are tested in the long form alone."""
    marks = [only_long, pytest.mark.long]
    return [pytest.param(name, marks=marks) if name in slow else name for name in names]


def sized(short, long):
    """Returns the first of two sizes, and the second where tests run in full."""
    return long if LONG else short
