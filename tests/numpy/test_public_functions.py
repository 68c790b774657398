"""Puts every public function's cases through every check, the same for all families."""

import pytest
from public_functions import all_cases
from public_functions.harness import CHECKS


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", all_cases(), ids=repr)
def test_public_function(case, check):
    CHECKS[check](case)
