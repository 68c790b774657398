"""The sessions that the documentation shows give what it shows."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if ">>> " in path.read_text())


def test_there_are_sessions():
    assert {"coming_from.md", "sparse.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_sessions(page):
    failed, tried = doctest.testfile(str(DOCS / page), module_relative=False, verbose=False)
    assert tried > 0
    assert failed == 0
