"""Pickles of version 0.1.0, with the places where modules were then, are loaded."""

import base64
import json
import pickle
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.faces.old_pickles import MOVED_MODULES
from functensor.primitives import registry
from functensor.primitives.core.primitive import unpickled
from functensor.primitives.core.registry import OLD_NAMES

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
# The modules of primitives that are declared when a namespace is imported that uses them.
OLD_MODULES = {
    "affine_normalize_slope": "normalization",
    "betainc_slope": "special.incomplete",
    "cross_entropy_slope": "losses",
    "gammainc_slope": "special.incomplete",
    "log_ndtr_slope": "special.error",
    "normalize_slope": "normalization",
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
    np.testing.assert_array_equal(loaded("loop")(np.ones(3)), 31.0)
    assert loaded("program")(1.0).item() == 2 * fnp.sin(1.0).item()


def test_all_old_names_are_of_modules():
    for old, new in MOVED_MODULES.items():
        assert import_module(new).__name__ == new
        assert import_module(old).__doc__ is None


@pytest.mark.parametrize("old", OLD_NAMES)
def test_primitives_are_found_by_their_old_names(old):
    primitive = unpickled(f"functensor.primitives.{OLD_MODULES.get(old, 'activation')}", old)
    assert primitive is registry[OLD_NAMES[old]]
    assert old not in registry


def test_programs_with_old_names_of_primitives_compute():
    program = ft.make_program(ft.grad(fnp.tanh))(0.5)
    # Protocol 2 writes a string's length in front of it.
    own, earlier = b"\x09\0\0\0tanh_grad", b"\x0f\0\0\0tanh_derivative"
    old = pickle.dumps(program, protocol=2).replace(own, earlier)
    assert earlier in old
    np.testing.assert_allclose(pickle.loads(old)(0.5), 1 / np.cosh(0.5) ** 2, rtol=1e-14)
