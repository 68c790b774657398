"""The plugin of pytest: its options, its line in the header, its fixture."""

pytest_plugins = "pytester"

PLUGIN = ("-p", "functensor.testing.pytest_plugin", "-p", "no:cacheprovider", "-W", "ignore")
FILE = """
import functensor as ft, functensor.numpy as np

def test_key(functensor_key):
    assert 0 <= ft.random.uniform(functensor_key).item() < 1
    print("drew", ft.random.uniform(functensor_key).item())

def test_logarithm():
    assert np.log(np.zeros(2) + 1e-300).shape == (2,)
    np.exp(np.full(2, 1e3))
"""


def drawn(result):
    return [line for line in result.outlines if "drew" in line]


def test_a_key_follows_from_the_tests_name(pytester):
    pytester.makepyfile(test_it=FILE)
    first, second = (pytester.runpytest_inprocess("-s", *PLUGIN) for _ in range(2))
    first.assert_outcomes(passed=2)
    assert drawn(first) == drawn(second) != []
    first.stdout.fnmatch_lines(["functensor: *"])


def test_options_have_tests_checked(pytester):
    pytester.makepyfile(test_it=FILE)
    result = pytester.runpytest_inprocess("--functensor-check-finite", *PLUGIN)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["functensor: *, under check_finite", "*NonFiniteError*"])
