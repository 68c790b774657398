"""Collectives, ``spmd`` and the switch that compares, on four MPI processes."""

from pathlib import Path

import pytest
from support.processes import checks_of, run_checks

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("checks_of_*.py"))


@pytest.mark.long
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_checks_pass_on_four_processes(file, tmp_path):
    done, said = run_checks(file, 4, tmp_path)
    assert done == checks_of(file), said
