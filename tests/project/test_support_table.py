"""The table of what is supported is up to date, and nothing public is missing from it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

import support_table

import functensor as ft


def test_table_is_what_the_generator_writes():
    written = support_table.TABLE.read_text()
    assert written == support_table.table(), "run python docs/support_table.py"


def test_every_public_function_has_a_docstring():
    for namespace in support_table.NAMESPACES:
        module = support_table.import_module(f"functensor.{namespace}")
        for name in support_table.public_names(module):
            assert (getattr(module, name).__doc__ or "").strip(), f"{namespace}.{name}"


def test_a_function_that_no_case_calls_is_found(monkeypatch):
    monkeypatch.setattr(support_table, "all_cases", list)
    with pytest.raises(support_table.Missing, match=r"numpy\.sinc.*scipy\.special\.logsumexp"):
        support_table.table()


def test_a_primitive_without_a_mode_is_found(monkeypatch):
    sine = ft.numpy.sin
    monkeypatch.setattr(sine, "jvps", None)
    with pytest.raises(support_table.Missing, match=r"numpy\.sin lacks its jvp"):
        support_table.table()
