"""What version 0.1.0 pickled, by the places where modules were then, is loaded."""

import base64
import json
import pickle
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import functensor.numpy as fnp
from functensor.faces.old_pickles import MOVED_MODULES

PICKLES = json.loads(
    (Path(__file__).resolve().parents[1] / "support" / "old_pickles.json").read_text()
)
# The values of pickled transformations of the sine (of the hyperbolic tangent: nested) at 0.5.
VALUES = {
    "checkpoint": np.sin(0.5),
    "elementwise_grad": np.cos(0.5),
    "grad": np.cos(0.5),
    "hessian": -np.sin(0.5),
    "jacfwd": np.cos(0.5),
    "jacobian": np.cos(0.5),
    "jacrev": np.cos(0.5),
    "jit": np.sin(0.5),
    "remat": np.sin(0.5),
}


def loaded(name):
    """Returns what an old pickle holds."""
    return pickle.loads(base64.b64decode(PICKLES[name]))


@pytest.mark.parametrize("name", PICKLES)
def test_old_pickles_are_loaded_and_pickled_again(name):
    value = loaded(name)
    again = pickle.loads(pickle.dumps(value))
    assert type(again) is type(value)


@pytest.mark.parametrize("name", VALUES)
def test_transformed_functions_compute(name):
    np.testing.assert_allclose(loaded(name)(0.5), VALUES[name], rtol=1e-14)


def test_batches_and_pairs_compute():
    x = np.array([0.5, 1.0])
    np.testing.assert_allclose(loaded("vmap")(x), np.sin(x), rtol=1e-14)
    np.testing.assert_allclose(loaded("nested")(x), 1 / np.cosh(x) ** 2, rtol=1e-14)
    value, slope = loaded("value_and_grad")(0.5)
    np.testing.assert_allclose([value, slope], [np.sin(0.5), np.cos(0.5)], rtol=1e-14)
    assert loaded("primitive") is fnp.sin
    assert loaded("program")(1.0).item() == 2 * fnp.sin(1.0).item()


def test_all_old_names_are_of_modules():
    for old, new in MOVED_MODULES.items():
        assert import_module(new).__name__ == new
        assert import_module(old).__doc__ is None
