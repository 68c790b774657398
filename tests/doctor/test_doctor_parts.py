"""The doctor's parts: rounding that is told from faults, the block to paste, processes that end."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy
import pytest

import functensor.numpy as np
from functensor.doctor import children, report
from functensor.doctor.finding import ABSENT, PRESENT, WRONG, Finding
from functensor.doctor.trials import trials_of_numbers, tried


def rounded(x, bits):
    """Returns float32 numbers rounded to so many bits behind the leading one."""
    mantissa, exponent = numpy.frexp(x)
    return numpy.ldexp(numpy.round(mantissa * 2.0 ** (bits + 1)), exponent - bits - 1).astype(
        "float32"
    )


@pytest.mark.parametrize("trial", trials_of_numbers(), ids=lambda trial: trial.name)
def test_right_numbers_pass_and_wrong_ones_do_not(trial):
    state, what = tried(trial, "cpu")
    assert state == PRESENT
    assert what.endswith("the numbers are right")
    for spoil in (lambda y: y * (1 + 1e-4), lambda y: y.at[3, 3].set(numpy.nan)):
        state, what = tried(trial._replace(run=lambda *x, s=spoil: s(trial.run(*x))), "cpu")
        assert state == WRONG
        assert "WRONG NUMBERS: off by " in what
    state, what = tried(trial._replace(run=lambda *x: trial.run(*x)[1:]), "cpu")
    assert (state, "in place of" in what) == (WRONG, True)


def test_a_product_in_tf32_is_told():
    product = next(trial for trial in trials_of_numbers() if trial.name == "product")
    low = product._replace(run=lambda a, b: np.matmul(rounded(a, 10), rounded(b, 10)))
    assert tried(low, "cpu")[0] == WRONG


def test_the_block_holds_any_text():
    texts = ['a "b" \\ c', "tab\tdel\x7f nul\0", "\N{SNOWMAN}\U0001f600", "lone \ud800", ""]
    findings = [Finding(f"s {t}", t, PRESENT, t) for t in texts]
    findings += [Finding("same", "part", WRONG, t, t) for t in texts]
    lines = list(report.pasted_block(findings))
    assert (lines[0], lines[-1]) == ("```toml", "```")
    found = tomllib.loads("\n".join(lines[1:-1]))
    plain = [t.replace("\ud800", "?") for t in texts]
    assert [found[f"s {t}"] for t in plain] == [{t: t} for t in plain]
    assert [fault["command"] for fault in found["mend"]] == plain


def test_the_block_names_no_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path.home() == tmp_path
    text = "\n".join(report.pasted_block([Finding("s", "p", PRESENT, f"{tmp_path}/x {tmp_path}s")]))
    assert f'"~/x {tmp_path}s"' in text


def test_lines_and_the_verdict():
    found = [
        Finding("one", "a", PRESENT, "1.0"),
        Finding("one", "b", ABSENT, "without", "pip install b"),
        Finding("two", "c", WRONG, "broken", "pip install c"),
        Finding("three", "d", WRONG, "broken"),
    ]
    lines = [
        line
        for finding, before in zip(found, [None, *found])
        for line in report.section_lines(finding, before)
    ]
    assert lines == [
        "", "one", f"  yes    {'a':18}  1.0", f"  no     {'b':18}  without   [pip install b]",
        "", "two", f"  WRONG  {'c':18}  broken", "", "three", f"  WRONG  {'d':18}  broken",
    ]  # fmt: skip
    # A cause is told once.
    assert list(report.verdict(found)) == [
        "", "One to mend:", "  1. c: broken", "     pip install c"
    ]  # fmt: skip


def test_a_process_that_takes_too_long():
    (found,) = children.examined("trials", "cpu", section="s", name="n", seconds=0.0)
    assert found == Finding("s", "n", WRONG, "it did not end within 0 seconds")


def test_causes_in_one_line():
    traceback = "noise\nTraceback (most recent call last):\n  File x\nValueError: one\ntwo\n"
    assert children.cause_of(1, traceback) == "ValueError: one"
    assert children.cause_of(1, "killed\nlast words\n") == "last words"
    assert children.cause_of(3, "") == "the process ended with status 3"
    assert children.cause_of(-9, "") == "the process was ended by SIGKILL"


def test_a_reader_that_has_enough():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "functensor", "doctor"],
        stdout=writer, stderr=subprocess.PIPE, text=True, cwd=os.sep,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_import_brings_no_doctor():
    source = "import sys, functensor; print([n for n in sys.modules if 'doctor' in n])"
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, cwd=os.sep)
    assert done.stdout == "[]\n"
