"""The picture of the house is what the imports say, and the pages name files that are there."""

import re
import sys
from pathlib import Path

import pytest
from support.long_forms import only_long

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import house_map  # noqa: E402 - the pages are no package that is installed

NAMED = re.compile(r"`((?:backends|primitives|functensor|tests|docs|examples)/[\w./]+)`")


@only_long
@pytest.mark.long
def test_the_picture_is_what_the_script_draws():
    assert house_map.PICTURE.read_text() == house_map.picture(), "run python docs/house_map.py"


@only_long
@pytest.mark.long
def test_every_folder_stands_above_what_it_imports():
    heights = {name: h for floor in house_map.levels().values() for name, h in floor.items()}
    for name, targets in house_map.folders().items():
        for other in targets:
            below = house_map.FLOORS.index(other.partition(".")[0])
            own = house_map.FLOORS.index(name.partition(".")[0])
            assert (below, heights[other]) < (own, heights[name]), (name, other)


@only_long
@pytest.mark.long
def test_a_planted_import_moves_a_folder_up(monkeypatch):
    graph = house_map.folders()
    before = house_map.levels()["backends"]["backends.arrays"]
    graph["backends.planted"] = graph["backends.arrays"]
    graph["backends.arrays"] = {"backends.planted"}
    monkeypatch.setattr(house_map, "folders", lambda: graph)
    assert house_map.levels()["backends"]["backends.arrays"] == before + 1


def test_pages_name_files_that_are_there():
    for page in ("docs/architecture.md", "CONTRIBUTING.md", "README.md"):
        text = (ROOT / page).read_text()
        named = NAMED.findall(text)
        assert named or page == "README.md"
        assert [name for name in named if not (ROOT / name).exists()] == [], page
