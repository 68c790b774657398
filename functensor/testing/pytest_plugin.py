"""A plugin of pytest: options that have tests checked, and keys by a test's name.

It is asked for: by ``pytest -p functensor.testing.pytest_plugin``, or by ``pytest_plugins =
["functensor.testing.pytest_plugin"]`` in the ``conftest.py`` of one's tests.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from .. import __version__
from ..backends.config import config as choices
from ..random.keys import key as random_key

__all__ = ["functensor_key", "pytest_addoption", "pytest_report_header", "pytest_runtest_call"]

# The choices of `functensor.config` that tests may run under, by the options that ask for them.
CHECKING_OPTIONS = {
    "--functensor-check-finite": "check_finite",
    "--functensor-check-buffers": "check_buffers",
    "--functensor-check-tracer-leaks": "check_tracer_leaks",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that have tests run under a check of `functensor.config`."""
    group = parser.getgroup("functensor")
    for option, choice in CHECKING_OPTIONS.items():
        group.addoption(
            option, action="store_true", help=f"run tests under functensor.config.{choice}"
        )


def chosen_checks(config: pytest.Config) -> dict[str, bool]:
    """Returns the choices that options ask for."""
    return {
        choice: True for option, choice in CHECKING_OPTIONS.items() if config.getoption(option)
    }


def pytest_report_header(config: pytest.Config) -> str:
    """Returns the line that names the version, and the checks that are on."""
    checks = ", ".join(chosen_checks(config))
    return f"functensor: {__version__}" + (f", under {checks}" if checks else "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """Runs a test under the checks that options ask for."""
    checks = chosen_checks(item.config)
    if not checks:
        return (yield)
    with choices.using(**checks):
        return (yield)


@pytest.fixture
def functensor_key(request: pytest.FixtureRequest) -> Any:
    """A random key of the test's own, which follows from its name: the same in every run."""
    return random_key(zlib.crc32(request.node.nodeid.encode()))
