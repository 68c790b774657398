"""Collectives, ``spmd`` and the switch that compares, on four MPI processes."""

from pathlib import Path

import pytest
from support.long_forms import with_slow
from support.processes import checks_of, run_checks

HERE = Path(__file__).parent
FILES = {file.stem: file for file in sorted(HERE.glob("checks_of_*.py"))}
QUICK = {"checks_of_data_parallel", "checks_of_the_switch"}


@pytest.mark.long
@pytest.mark.parametrize("name", with_slow(FILES, FILES.keys() - QUICK))
def test_checks_pass_on_four_processes(name, tmp_path):
    file = FILES[name]
    done, said = run_checks(file, 4, tmp_path)
    assert done == checks_of(file), said
