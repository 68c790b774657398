"""Puts every public function's cases through the checks, the same for all families.

The first case of each function, and each third one, goes through all checks. The others have
second derivatives, derivatives of batches and staging in the long form alone.
"""

import pytest
from public_functions import all_cases
from public_functions.harness import CHECKS, check_derivatives
from support.long_forms import LONG, further


def checked(case):
    """Returns a case with the names of the checks that it goes through."""
    if case.index % 3 == 0:
        return [pytest.param(case, check, id=f"{case!r}-{check}") for check in CHECKS]
    found = [
        pytest.param(case, check, id=f"{case!r}-{check}")
        for check in ("value", "first_derivatives", "batching")
    ]
    if LONG:
        found += [
            further(pytest.param(case, check, id=f"{case!r}-{check}"))
            for check in ("derivatives", "batched_derivatives", "staging")
        ]
    return found


CASES = [each for case in all_cases() for each in checked(case)]


@pytest.mark.parametrize(("case", "check"), CASES)
def test_public_function(case, check):
    if check == "first_derivatives":
        check_derivatives(case, most_orders=1)
    else:
        CHECKS[check](case)
