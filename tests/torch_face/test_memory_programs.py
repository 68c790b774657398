"""Programs whose result depends on who shares memory with whom, with what they give in PyTorch.

``memory_programs.txt`` has them: a name, the lines, and behind ``#>`` what PyTorch's ``r`` was.
They use ``torch``; nothing but the module that it stands for is changed.
"""

from ast import literal_eval
from pathlib import Path

import numpy as np
import pytest

import functensor.torch

RECORD = Path(__file__).with_name("memory_programs.txt")


def programs():
    """Yields the name of every program, its lines and its result."""
    for part in RECORD.read_text().split("# ")[1:]:
        lines, _, result = part.partition("#> ")
        name, _, lines = lines.partition("\n")
        yield pytest.param(lines, literal_eval(result), id=name)


def check(torch, lines, wanted):
    torch.manual_seed(0)
    names = {"torch": torch, "__name__": "program"}
    exec(lines, names)
    found = names["r"].tolist()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    assert np.shape(found) == np.shape(wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("lines", "wanted"), list(programs()))
def test_memory_is_shared_as_in_pytorch(lines, wanted):
    check(functensor.torch, lines, wanted)


@pytest.mark.filterwarnings("ignore")
def test_the_record_is_pytorchs():
    torch = pytest.importorskip("torch")
    for program in programs():
        check(torch, *program.values)
