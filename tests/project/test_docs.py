"""The sessions that the documentation shows give what it shows."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    # Folders that a build of the site makes have copies.
    if not {"_build", "jupyter_execute"} & set(path.relative_to(DOCS).parts)
    and ">>> " in path.read_text()
)
# A block that needs a GPU stands below this mark.
ON_GPU = re.compile(r"^<!-- gpu -->\n```python\n.*?^```$", re.MULTILINE | re.DOTALL)


def run(page, text):
    """Returns how many of a page's examples fail, and how many there are."""
    examples = doctest.DocTestParser().get_doctest(text, {}, page, str(DOCS / page), 0)
    return doctest.DocTestRunner(verbose=False).run(examples)


def test_there_are_sessions():
    assert {"coming_from/autograd.md", "gpu.md", "sparse.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_sessions(page):
    failed, tried = run(page, ON_GPU.sub("", (DOCS / page).read_text()))
    assert tried > 0
    assert failed == 0


@pytest.mark.gpu
@pytest.mark.parametrize("page", [p for p in PAGES if ON_GPU.search((DOCS / p).read_text())])
def test_sessions_on_a_gpu(page):
    assert run(page, (DOCS / page).read_text()).failed == 0
