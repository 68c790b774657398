"""Programs of optimizers, modules and attributes give what PyTorch gave: see ``programs.py``."""

from pathlib import Path

import pytest
from torch_face.programs import RECORDED, check, programs

import functensor.torch

RECORDS = [Path(__file__).with_name(f"{name}_programs.txt") for name in RECORDED]
ALL = [program for path in RECORDS for program in programs(path)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("lines", "wanted"), ALL)
def test_the_result_is_pytorchs(lines, wanted):
    check(functensor.torch, lines, wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_record_is_pytorchs(path):
    torch = pytest.importorskip("torch")
    for program in programs(path):
        check(torch, *program.values)
