"""Primitives and public functions on a GPU pass all the checks that they pass on the CPU."""

import numpy as np
import pytest
import support.registry_cases as cases
from core.test_primitives import PRIMITIVES
from public_functions import all_cases
from public_functions.harness import CHECKS
from support.run_on_device import calls_on

import functensor as ft
from functensor.primitives.core.registry import registry

pytestmark = pytest.mark.gpu

# Primitives that are not computed on a GPU, and say so: docs/gpu.md lists them.
ABSENT = {"complex_erf", "complex_erfc", "complex_erfcx", "complex_erfi", "complex_ndtr"}
ABSENT |= {"faddeeva", "logm", "solve_sylvester", "sqrtm"}
ABSENT_FUNCTIONS = {
    "scipy.linalg.fractional_matrix_power-0",
    "scipy.linalg.logm-0",
    "scipy.linalg.logm-1",
    "scipy.linalg.solve_continuous_lyapunov-0",
    "scipy.linalg.solve_lyapunov-0",
    "scipy.linalg.solve_sylvester-0",
    "scipy.linalg.sqrtm-0",
    "scipy.linalg.sqrtm-1",
    # Of complex numbers.
    "scipy.special.erf-1",
    "scipy.special.erfc-1",
    "scipy.special.erfcx-1",
    "scipy.special.erfi-1",
    "scipy.special.ndtr-1",
    "scipy.special.wofz-0",
    # Of orders that are not whole.
    "scipy.special.jv-1",
    "scipy.special.yv-1",
}
# Its samples leave the GPU, which the others must not; test_devices.py has tests of its own.
LEAVING = {"to_device"}
# A GPU keeps the factors of transposed matrices; test_factors_of_gpus.py has tests of its own.
NOT_KEPT = {"kept_factors"}


@pytest.mark.parametrize("name", [name for name in PRIMITIVES if name not in LEAVING | NOT_KEPT])
def test_primitive(name):
    with calls_on("cuda"):
        if name in ABSENT:
            with pytest.raises(NotImplementedError, match="is not computed on a GPU"):
                cases.run_check(cases.SAMPLE_CHECKS["forward"], registry[name])
            return
        for check in cases.SAMPLE_CHECKS.values():
            cases.run_check(check, registry[name])


@pytest.mark.parametrize("case", all_cases(), ids=repr)
def test_public_function(case):
    with calls_on("cuda"):
        if repr(case) in ABSENT_FUNCTIONS:
            with pytest.raises(NotImplementedError, match="is not computed on a GPU"):
                CHECKS["value"](case)
            return
        for check in CHECKS.values():
            check(case)


def test_what_is_absent_is_left_to_the_cpu_as_the_message_says():
    def root(x):
        there = ft.scipy.linalg.sqrtm(ft.to_device(x, "cpu"))
        return ft.to_device(there, "cuda").sum()

    x = np.array([[4.0, 1.0], [1.0, 9.0]])
    with pytest.raises(NotImplementedError, match="is not computed on a GPU"):
        ft.scipy.linalg.sqrtm(ft.to_device(x, "cuda"))
    got = ft.grad(root)(ft.to_device(x, "cuda"))
    assert got.device == ft.to_device(0.0, "cuda").device
    wanted = ft.grad(lambda x: ft.scipy.linalg.sqrtm(x).sum())(x)
    np.testing.assert_allclose(ft.to_device(got, "cpu"), wanted)
