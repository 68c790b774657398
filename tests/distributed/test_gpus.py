"""Collectives over NCCL, on a process for each GPU of this host."""

from pathlib import Path

import pytest
from support.processes import checks_of, run_checks

import functensor as ft

CHECKS = Path(__file__).parent / "gpu_checks_of_nccl.py"


@pytest.mark.gpu
def test_collectives_over_nccl(tmp_path):
    count = len(ft.devices()) - 1
    if count < 2:
        pytest.skip("there is one GPU")
    done, said = run_checks(CHECKS, count, tmp_path)
    assert done == checks_of(CHECKS), said
