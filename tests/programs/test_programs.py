"""Whole programs reach their goals, and the results of HIPS autograd."""

import re
import warnings
from pathlib import Path

import numpy
import pytest
from support.long_forms import with_slow

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "examples" / "programs"

# By program: how many steps, and what its results have to be.
GOALS = {
    "gaussian_process": (
        100,
        lambda r: r["worst error"] < 0.2 and 0.08 < r["noise"] < 0.15 and 0.5 < r["width"] < 1.5,
    ),
    "gaussian_mixture": (200, lambda r: r["worst distance of a mean"] < 0.15),
    "logistic_regression": (8, lambda r: r["gradient"] < 1e-14 and r["correct"] > 0.8),
    "character_lstm": (40, lambda r: r["last loss"] < 0.6 * r["first loss"]),
    "variational_inference": (400, lambda r: abs(r["mean of x"] - 1) < 0.05 and r["bound"] < 0),
    "fluid_simulation": (
        25,
        lambda r: r["distance at last"] < 0.015 and r["distance at first"] > 0.2,
    ),
    "ode_fit": (40, lambda r: r["misfit"] < 6e-4 and r["worst error of a rate"] < 0.03),
    "bayesian_network_hmc": (120, lambda r: r["accepted"] > 0.6 and r["error of the mean"] < 0.3),
    "kalman_filter": (20, lambda r: 0.2 < r["motion"] < 0.9 and abs(r["blur"] - 0.1) < 0.02),
    "drum": (60, lambda r: r["discord at last"] < 1e-4 and r["discord at first"] > 0.3),
    "wave_inverse_design": (
        30,
        lambda r: r["brightness at last"] > 3 * r["brightness at first"],
    ),
    "springs": (6, lambda r: r["force that is left"] < 1e-9),
}
# Programs without a counterpart in autograd: an adjoint over trees, sparse derivatives.
OURS_ALONE = {"ode_fit", "springs"}
FEW_STEPS = {"character_lstm": 3, "variational_inference": 20, "bayesian_network_hmc": 8}
IMPORTS = {
    r"import functensor\.numpy(.*)": r"import autograd.numpy\1",
    r"from functensor import(.*)": r"from autograd import\1",
    r"from functensor\.scipy(.*)": r"from autograd.scipy\1",
}


@pytest.fixture
def loaded(monkeypatch):
    """Returns the benchmarks' function that runs a program's source with other imports."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.program_cases import loaded

    return loaded


def test_every_program_is_tested():
    assert {path.stem for path in PROGRAMS.glob("*.py")} == GOALS.keys()
    table = (PROGRAMS / "README.md").read_text()
    above, below = table.split("| --- |")
    assert set(re.findall(r"`(\w+)\.py`", below)) == OURS_ALONE
    assert set(re.findall(r"^\| `(\w+)\.py`", above, re.MULTILINE)) == GOALS.keys() - OURS_ALONE


@pytest.mark.parametrize("name", with_slow(GOALS, {"fluid_simulation", "kalman_filter", "ode_fit"}))
def test_program(name, loaded):
    steps, reached = GOALS[name]
    results = loaded(name, {})["run"](steps)
    assert reached(results), results


@pytest.mark.parametrize(
    "name", with_slow(sorted(GOALS.keys() - OURS_ALONE), {"fluid_simulation", "kalman_filter"})
)
def test_autograd_gives_the_same(name, loaded):
    steps = FEW_STEPS.get(name, 5)
    with warnings.catch_warnings():
        # Those of autograd, which calls what NumPy has deprecated since.
        warnings.simplefilter("ignore")
        wanted = loaded(name, IMPORTS)["run"](steps)
    results = loaded(name, {})["run"](steps)
    assert results.keys() == wanted.keys()
    for key, value in wanted.items():
        numpy.testing.assert_allclose(results[key], value, rtol=1e-6, atol=1e-12, err_msg=key)
