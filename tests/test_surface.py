"""Puts every public function's cases through every check, the same for all families."""

import pytest
from surface import all_cases
from surface.harness import CHECKS


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", all_cases(), ids=repr)
def test_public_function(case, check):
    CHECKS[check](case)
