"""The programs of docs/coming_from compute the same before and after."""

import re
from pathlib import Path

import numpy
import pytest

import functensor as ft

PAGES = Path(__file__).resolve().parents[2] / "docs" / "coming_from"
BLOCK = re.compile(r"^```(python|\{code-cell\})\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs(page):
    """Returns the first block of a page that is not run, and the first cell that is."""
    blocks = BLOCK.findall((PAGES / page).read_text())
    before = next(code for kind, code in blocks if kind == "python")
    return before, next(code for kind, code in blocks if kind != "python")


def numbers(code, capsys):
    """Runs a program, and returns the numbers that it prints."""
    exec(compile(code, "program", "exec"), {"__name__": "__main__"})
    return [float(word) for word in capsys.readouterr().out.split()]


def test_the_chooser_leads_to_every_page():
    text = (PAGES / "index.md").read_text()
    pages = {path.stem for path in PAGES.glob("*.md")} - {"index"}
    assert pages == set(re.findall(r"\]\((\w+)\.md\)", text))
    assert pages == set(text.partition(":hidden:\n")[2].partition("```")[0].split())


def test_a_program_prints_the_same_with_autograd(capsys):
    pytest.importorskip("autograd")
    before, after = programs("autograd.md")
    expected = numbers(before, capsys)
    assert len(expected) == 10
    # Both sum in another order; 300 steps of Adam carry that on.
    assert numbers(after, capsys) == pytest.approx(expected, rel=1e-9)


def test_the_gradient_that_was_derived_by_hand_is_that_of_the_energy():
    before, after = programs("cupy.md")
    by_hand, ours = {}, {}
    exec(before.partition("rng = ")[0].replace("import cupy as cp", "import numpy as cp"), by_hand)
    exec(after.partition("@ft.jit")[0], ours)
    u, noisy = numpy.random.default_rng(0).normal(size=(2, 9, 8))
    found = ft.grad(ours["energy"])(u, noisy, 0.5)
    assert numpy.asarray(found) == pytest.approx(by_hand["gradient"](u, noisy, 0.5), abs=1e-14)


def test_a_script_for_pytorch_changes_in_its_imports_alone():
    before, after = (code.splitlines() for code in programs("pytorch.md"))
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) == 3
    for line, other in changed:
        assert other == line.replace("import torch", "import functensor.torch") + (
            " as torch" if line == "import torch" else ""
        )
