"""Collectives and ``spmd`` on four MPI processes."""

from pathlib import Path

import pytest
from support.processes import assert_passed, checks_of

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("checks_of_*.py"))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        pytest.param(file, name, id=f"{file.stem[10:]}-{name[6:]}")
        for file in FILES
        for name in checks_of(file)
    ],
)
def test_on_four_processes(file, name, tmp_path_factory):
    assert_passed(name, file, 4, tmp_path_factory)
