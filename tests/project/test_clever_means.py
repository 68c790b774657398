"""Means that lean on the insides of others stand in the modules that CONTRIBUTING.md lists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("backends", "primitives", "functensor")


def listed():
    """Returns the modules of every means in the table, by the text that is looked for."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Clever means\n")[2]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", text.partition("\n## ")[0], re.MULTILINE)
    return {means: set(re.findall(r"`([^`]+)`", modules)) for means, modules in rows}


def users(means, sources):
    """Returns the modules whose text has a means, by the sources of all."""
    pattern = re.compile(re.escape(means) + r"(?!\w)")
    return {path for path, source in sources.items() if pattern.search(source)}


def test_every_means_stands_where_the_table_says():
    sources = {
        str(path.relative_to(ROOT)): path.read_text()
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*.py")
    }
    assert len(listed()) > 5
    assert {means: users(means, sources) for means in listed()} == listed()


def test_a_planted_means_is_found():
    assert users("import dis", {"a.py": "import dis\n", "b.py": "import display"}) == {"a.py"}
