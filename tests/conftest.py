"""How Hypothesis runs here: without a time limit per example, and never with a fixed seed."""

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
