"""Collectives and training over NCCL, on a process for each GPU of this host."""

from pathlib import Path

import pytest
from support.processes import checks_of, run_checks

import functensor as ft

FILES = sorted(Path(__file__).parent.glob("gpu_checks_of_*.py"))


@pytest.mark.gpu
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_checks_pass_over_nccl(file, tmp_path):
    count = len(ft.devices()) - 1
    if count < 2:
        pytest.skip("there is one GPU")
    done, said = run_checks(file, count, tmp_path)
    assert done == checks_of(file), said
