"""The short form of the tests leaves out cases that the long form has, and nothing else."""

from types import SimpleNamespace

from support.long_forms import CASES_FOR_ONE, MANY_CASES, cases_of_the_long_form


def cases(test, count):
    """Returns the cases of a test, as pytest names them."""
    return [SimpleNamespace(nodeid=f"tests/test_x.py::{test}[{i}-a[b]]") for i in range(count)]


def test_one_in_three_cases_of_a_test_with_many_stays():
    many, few = cases("test_many", 300), cases("test_few", MANY_CASES - 1)
    gone = cases_of_the_long_form([*many, *few])
    assert not [item for item in few if item in gone]
    assert abs(len(gone) - 300 * (1 - 1 / CASES_FOR_ONE)) < 30


def test_a_case_stays_where_it_is_whatever_others_there_are():
    fewer, more = cases("test_many", 50), cases("test_many", 500)
    gone = {item.nodeid for item in cases_of_the_long_form(more)}
    assert {item.nodeid for item in cases_of_the_long_form(fewer)} <= gone
