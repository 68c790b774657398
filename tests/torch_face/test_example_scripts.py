"""Scripts that are written for PyTorch have its loss curves from the same weights and data."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from support.long_forms import only_long, sized
from torch_face.example_curves import CURVES, FILE, SCRIPTS, curve, of_pytorch

import functensor as ft

with np.load(FILE) as file:
    RECORDED = dict(file)

# Both libraries round sums differently, by 2e-7 in the first steps of float32. Where a unit is
# nearly zero, ReLU lets a gradient through in one library alone, and curves part, by up to 1e-2
# after 20 steps. So the long form compares in float64.
TOLERANCES = {"float32": 1e-5, "float64": 1e-10}


def furthest(found, wanted):
    """Returns how far curves are apart, relative to the largest value of each loss."""
    return np.max(abs(found - wanted) / abs(wanted).max(axis=0))


def check(name, steps, dtype):
    found = curve(name, steps, dtype)
    assert furthest(found, RECORDED[f"{name} {dtype}"][:steps]) < TOLERANCES[dtype]


def test_all_are_recorded():
    assert {key.split()[0] for key in RECORDED} == set(CURVES)
    assert all(len(RECORDED[f"{name} float64"]) == steps for name, (_, steps) in CURVES.items())


def test_losses_change():
    for name in CURVES:
        losses = RECORDED[f"{name} float64"]
        assert furthest(losses[:2], losses[:1]) > 1e-3


@pytest.mark.parametrize("name", CURVES)
def test_curve_is_pytorchs(name):
    check(name, CURVES[name][0], "float32")


@pytest.mark.long
@pytest.mark.parametrize("name", CURVES)
def test_curve_is_pytorchs_in_double_precision(name):
    check(name, sized(2, CURVES[name][1]), "float64")


@pytest.mark.gpu
@pytest.mark.parametrize("name", CURVES)
def test_curve_is_pytorchs_on_a_gpu(name):
    with ft.default_device("cuda"):
        check(name, CURVES[name][0], "float64")


def test_the_table_has_every_script():
    table = re.findall(r"^\| `(\w+)\.py` \|", (SCRIPTS / "README.md").read_text(), re.MULTILINE)
    scripts = [path.stem for path in SCRIPTS.glob("*.py") if "def train(" in path.read_text()]
    assert set(scripts) <= set(table)
    assert set(CURVES) <= set(scripts)


@only_long
@pytest.mark.long
@pytest.mark.parametrize("name", CURVES)
def test_script_prints_its_progress(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPTS / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "FUNCTENSOR_EXAMPLE_STEPS": "3", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"(step|episode) 0: \w.* -?\d+\.\d", done.stdout)
    assert len(done.stdout.splitlines()) == 2


def test_the_record_is_pytorchs():
    pytest.importorskip("torch")
    for key, found in of_pytorch({name: steps for name, (steps, _) in CURVES.items()}).items():
        wanted = RECORDED[key][: len(found)]
        assert furthest(found, wanted) < TOLERANCES[key.split()[1]]
