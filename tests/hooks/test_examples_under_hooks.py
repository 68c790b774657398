"""An identity hook leaves the values of every example as they are, bit by bit.

Compiled functions stay plans over NumPy, since machine code takes over at a time of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import only_long

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "tests" / "support" / "values_of_an_example.py"
# They have what several examples need, and print nothing themselves; the backend is for PyTorch.
HELPERS = {"backend", "cart_pole", "common", "digits"}
# Of the scripts for PyTorch these have all kinds of layers, gradients of gradients and own rules.
OF_PYTORCH = {"char_rnn", "dcgan", "min_gpt", "neural_ode", "wgan_gp"}
EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").rglob("*.py")
    if path.stem not in HELPERS and (path.parent.name != "torch" or path.stem in OF_PYTORCH)
)
# The quick ones.
SHORT = {"linear_regression", "newton"}


def values(path, hook, folder):
    """Returns a digest of the values that leave functensor, their number, and the hook's calls."""
    environment = {
        **os.environ,
        "FUNCTENSOR_EXAMPLE_STEPS": "5",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": str(folder),
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "error", str(RUNNER), str(path), hook]
    if "--output" in path.read_text(encoding="utf-8"):
        command += ["--output", str(folder)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    digest, count, calls = done.stdout.split()
    return digest, int(count), int(calls)


def check(path, folder):
    digest, count, calls = values(path, "none", folder)
    assert count
    assert not calls
    hooked = values(path, "identity", folder)
    assert hooked[:2] == (digest, count)
    assert hooked[2]


@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.stem in SHORT], ids=lambda p: p.stem)
def test_values_of_quick_examples_stay(path, tmp_path):
    check(path, tmp_path)


@only_long
@pytest.mark.long
@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.stem not in SHORT], ids=lambda p: p.stem)
def test_values_of_other_examples_stay(path, tmp_path):
    check(path, tmp_path)
