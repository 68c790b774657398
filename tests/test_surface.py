"""Puts every public function's cases through every check, the same for all families."""

import importlib
import pkgutil

import pytest
import surface
from surface.harness import CHECKS, numbered

FAMILIES = [name for _, name, _ in pkgutil.iter_modules(surface.__path__) if name != "harness"]
CASES = numbered(
    [
        case
        for name in FAMILIES
        for case in importlib.import_module(f"{surface.__name__}.{name}").CASES
    ]
)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_public_function(case, check):
    CHECKS[check](case)
