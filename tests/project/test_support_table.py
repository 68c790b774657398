"""The table of what is supported is up to date, and nothing public is missing from it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))

import support


def test_table_is_what_the_generator_writes():
    assert support.TABLE.read_text() == support.table(), "run python docs/support_table.py"


def test_every_public_function_has_a_docstring():
    for namespace in support.NAMESPACES:
        module = support.import_module(f"functensor.{namespace}")
        for name in support.public_names(module):
            assert (getattr(module, name).__doc__ or "").strip(), f"{namespace}.{name}"


def test_a_function_that_no_case_calls_is_found(monkeypatch):
    monkeypatch.setattr(support, "all_cases", list)
    with pytest.raises(support.Missing, match=r"numpy\.sinc.*scipy\.special\.logsumexp"):
        support.table()


def test_a_primitive_without_a_mode_is_found(monkeypatch):
    sine = support.ft.numpy.sin
    monkeypatch.setattr(sine, "jvps", None)
    with pytest.raises(support.Missing, match=r"numpy\.sin lacks its jvp"):
        support.table()
