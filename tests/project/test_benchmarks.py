"""The command that compares programs runs a row, and finds what differs."""

import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import measure, program_cases

    return measure, program_cases


def test_a_row_of_programs():
    command = ["--programs", "logistic_regression", "--peers", "functensor,functensor-jit-numpy"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.programs", *command, "--quick", "--rounds", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    calls, first_calls, last = done.stdout.split("\n\n")
    for table, title in ((calls, "a call, ms"), (first_calls, "the first call, ms")):
        heading, _, row, *_ = table.splitlines()
        assert heading == f"| {title} | functensor | functensor-jit-numpy |"
        assert re.fullmatch(r"\| `logistic_regression` \| [\d.]+ \| [\d.]+ \|", row)
    assert last.endswith("All outcomes agree.\n")


def test_every_program_has_a_row(benchmarks):
    _, cases = benchmarks
    assert {path.stem for path in cases.FOLDER.glob("*.py")} == cases.PROGRAMS.keys()


def test_other_results_are_found(benchmarks):
    measure, _ = benchmarks
    outcome = {"loss": 0.5, "trained": None, "norms": {"[0]": 0.5, "[1]": 2.0}, "dtypes": {}}
    other = copy.deepcopy(outcome)
    assert measure.disagreements({"a": outcome, "b": other}, measure.PROGRAM_TOLERANCE) == []
    other["norms"]["[1]"] = 2.00001
    (sentence,) = measure.disagreements({"a": outcome, "b": other}, measure.PROGRAM_TOLERANCE)
    assert sentence.startswith("norm of d[1] differs")
    assert measure.disagreements({"a": outcome, "b": other}, measure.RELATIVE_TOLERANCE) == []


@pytest.mark.parametrize("name", ["gaussian_process", "ode_fit"])
def test_a_program_is_read_with_other_imports(benchmarks, name):
    _, cases = benchmarks
    names = cases.loaded(name, {r"import functensor\.numpy as np": "import numpy as np"})
    assert names["np"].__name__ == "numpy"
    assert cases.loaded(name, {})["np"].__name__ == "functensor.numpy"
