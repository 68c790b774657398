"""The page of PyTorch's names is up to date, and says of every name whether it is here."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

import torch_names
from torch_face.covered_names import ELSEWHERE, uncovered
from torch_names_reasons import AREA, DIFFERENT


@pytest.fixture(scope="module")
def known():
    return torch_names.states()


def test_page_is_what_the_generator_writes():
    assert torch_names.PAGE.read_text() == torch_names.page(), "run python docs/torch_names.py"


def test_every_name_is_same_different_or_not_here(known):
    for path, names in torch_names.load_names()[1].items():
        if path == "namespaces":
            continue
        assert set(known[path]) == set(names)
        for name, state in known[path].items():
            kind, _, why = state.partition(": ")
            assert kind == "same" or (kind in ("different", "not here") and why), f"{path}.{name}"


def test_what_is_said_to_differ_is_here(known):
    for full in DIFFERENT:
        path = max((p for p in known if full.startswith(f"{p}.")), key=len)
        name = full[len(path) + 1 :]
        assert known[path][name].startswith("different"), full


def test_names_that_programs_use_are_here(known):
    uses = torch_names.load_names()[1]
    used = [(known[p][n], count) for p in AREA for n, count in uses[p].items() if count]
    here = [(state, count) for state, count in used if not state.startswith("not here")]
    assert len(here) / len(used) > 0.93
    assert sum(count for _, count in here) / sum(count for _, count in used) > 0.95


def test_a_used_name_without_a_reason_is_found(monkeypatch):
    names = {"torch": {"relu": 3, "no_such_name_at_all": 1}}
    monkeypatch.setattr(torch_names, "load_names", lambda: ("PyTorch 0", names))
    with pytest.raises(torch_names.Unexplained, match=r"torch\.no_such_name_at_all"):
        torch_names.states()


def test_every_same_name_is_compared_with_pytorchs(known):
    left = {}
    for path, names in known.items():
        missing = uncovered(path, [name for name, state in names.items() if state == "same"])
        tested = [e.split()[0] for places in ELSEWHERE.values() for e in places.get(path, ())]
        if sorted(missing) != sorted(tested):
            left[path] = sorted(set(missing) ^ set(tested))
    assert not left, "write an expression for these, or say in covered_names.py why there is none"
