"""Programs whose result depends on who shares memory with whom, as in PyTorch: see `programs`."""

from pathlib import Path

import pytest
from torch_face.programs import check, programs

import functensor.torch

RECORD = Path(__file__).with_name("memory_programs.txt")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("lines", "wanted"), list(programs(RECORD)))
def test_memory_is_shared_as_in_pytorch(lines, wanted):
    check(functensor.torch, lines, wanted, 1e-6, 1e-7)


@pytest.mark.filterwarnings("ignore")
def test_the_record_is_pytorchs():
    torch = pytest.importorskip("torch")
    for program in programs(RECORD):
        check(torch, *program.values, 1e-6, 1e-7)
