"""The command that compares programs runs a row, and finds what differs."""

import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import only_long

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import measure, program_cases

    return measure, program_cases


@only_long
@pytest.mark.long
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


@pytest.mark.parametrize("number", [["--first-calls", "-1"], ["--threads", "0"]])
def test_numbers_out_of_range_are_refused(benchmarks, number, capsys):
    from benchmarks import programs

    with pytest.raises(SystemExit):
        programs.parser().parse_args(number)
    assert f"argument {number[0]}: must be at least" in capsys.readouterr().err


def test_cores_are_kept_busy_within_a_block(benchmarks, monkeypatch):
    from benchmarks import busy

    started, start = [], subprocess.Popen

    def noted(*args, **options):
        started.append(start(*args, **options))
        return started[-1]

    monkeypatch.setattr(busy.subprocess, "Popen", noted)
    with busy.busy_cores(2):
        assert [process.poll() for process in started] == [None, None]
    assert None not in [process.poll() for process in started]


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


@only_long
@pytest.mark.long
def test_the_wait_for_machine_code():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.native_wait", "--workloads", "logreg", "--rounds", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    heading, empty, filled = done.stdout.splitlines()
    assert heading.startswith("workload")
    assert heading.endswith("what stays")
    for line, cache in ((empty, "empty"), (filled, "filled")):
        number = r"(-|[\d.,]+)"
        stays = "(as machine code|over NumPy)"
        assert re.fullmatch(rf"logreg\s+{cache}(\s+{number}){{4}}\s+{stays}", line), line


def test_the_table_of_gpu_steps_has_a_row_for_each_workload(benchmarks, capsys):
    from benchmarks import gpu

    found = {"mlp-small": {"torch": {"ms": 1.25}, "jax-jit": {"failed": "no JAX"}}}
    gpu.print_table(found, ["torch", "jax-jit"])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "| workload | torch | jax-jit |",
        "|---|---|---|",
        "| mlp-small | 1.250 | - |",
    ]


def test_what_a_call_costs_the_host_is_a_median(benchmarks, monkeypatch):
    from benchmarks import gpu_calls

    # A round takes 1, 2, 4, 8 and so on; the clock is read twice in each.
    ticks = [0, 1, 1, 3, 3, 7, 7, 15, 15, 31, 31, 63, 63, 127]
    monkeypatch.setattr(gpu_calls, "synchronize", lambda: None)
    monkeypatch.setattr(gpu_calls, "CALLS", 1)
    monkeypatch.setattr(gpu_calls.time, "perf_counter", iter(ticks).__next__)
    assert gpu_calls.host_seconds(lambda: None) == 8


def test_steps_of_gpu_workloads_give_figures_to_compare(benchmarks):
    from benchmarks import gpu_workloads as workloads

    def grad(x, *batch):
        return ("gradient", x, batch)

    def value_and_grad(x, *batch):
        return ("value", grad(x, *batch))

    def problem(name):
        return workloads.Problem(name, "gradient", {})

    made = workloads.differentiated(problem("cross-entropy"), value_and_grad, grad)
    assert made(1, 2) == (("gradient", 1, (2,)), None)
    made = workloads.differentiated(problem("gpt-body"), value_and_grad, grad)
    assert made(1, 2) == ("value", ("gradient", 1, (2,)))
    made = workloads.differentiated(problem("adam-100"), value_and_grad, grad)
    params = {"a": 1, "b": 2}
    loss, grads = made(params, 3, 4)
    assert (loss, grads) == (None, {"a": 3, "b": 4})
    assert workloads.figure(loss, params) == 1
    assert workloads.figure(0.5, params) == 0.5
    assert {workloads.UPDATE, *workloads.GRADIENTS_ALONE} <= workloads.WORKLOADS.keys()
