"""How Hypothesis runs here: without a time limit per example, and never with a fixed seed."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "functensor",
    deadline=None,
    derandomize=False,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("functensor")
