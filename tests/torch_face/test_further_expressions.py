"""Names that no other record has, and odd arguments, give what they do in PyTorch."""

import re
from pathlib import Path

import pytest
from torch_face.covered_names import ELSEWHERE
from torch_face.expressions import outcomes
from torch_face.further_expressions import FURTHER
from torch_face.recorded import load, unlike, unlike_the_record

import functensor.torch as torch

pytestmark = [
    # Some operands are outside of a function's domain, on purpose.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
VERSION, RECORDED = load("further_expressions")
PARTS = 4


def test_there_are_enough_of_them():
    assert len(FURTHER) > 500
    assert set(FURTHER) == set(RECORDED)


@pytest.mark.parametrize("part", range(PARTS))
def test_further_expressions_are_pytorchs(part):
    bad = unlike(torch, FURTHER[part::PARTS], RECORDED, outcomes)
    assert not bad, "\n".join(bad)


def test_a_change_of_settings_is_undone():
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.are_deterministic_algorithms_enabled()


def test_names_that_are_tested_elsewhere_are_there():
    for places in ELSEWHERE.values():
        for entry in (entry for entries in places.values() for entry in entries):
            name, file = entry.split()
            text = (Path(__file__).parent / file).read_text()
            assert re.search(rf"\b{name}\b", text), entry


def test_the_further_record_is_pytorchs():
    there = pytest.importorskip("torch")
    bad = unlike_the_record(there, FURTHER, RECORDED, outcomes)
    assert not bad, f"recorded with PyTorch {VERSION}"
