"""How tests run: on one BLAS thread each, and Hypothesis without a time limit or a fixed seed."""

import os

# Before NumPy and SciPy load their libraries: several test processes share the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "functensor",
    deadline=None,
    derandomize=False,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("functensor")

# Modules of shared checks show the values of a failed assertion as the tests do.
pytest.register_assert_rewrite("error_cases", "registry_cases")
