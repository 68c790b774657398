"""Puts every public function's cases through the checks, the same for all families.

The first case of each function, and each third one, goes through all checks. The others have no
second derivatives, no derivatives of batches and no staging here; the long form of
``test_jit_registry.py`` puts all cases through all checks, with jitted calls.
"""

import pytest
from public_functions import all_cases
from public_functions.harness import CHECKS

LEFT_OUT = ("batched_derivatives", "staging")
CASES = [
    pytest.param(case, check, id=f"{case!r}-{check}")
    for case in all_cases()
    for check in CHECKS
    if case.index % 3 == 0 or check not in LEFT_OUT
]


@pytest.mark.parametrize(("case", "check"), CASES)
def test_public_function(case, check):
    if check == "derivatives" and case.index % 3:
        CHECKS[check](case, most_orders=1)
    else:
        CHECKS[check](case)
