"""Names of values: what gets one, and what is refused."""

import numpy
import pytest

import functensor as ft

X = numpy.array([0.5, -1.0, 2.0])


@pytest.mark.parametrize("function", ["checkpoint_name", "tag"])
def test_lists_of_numbers_are_no_arrays(function):
    public = getattr(ft, function)
    for numbers in ([1.0, 2.0], (1, True)):
        with pytest.raises(TypeError, match="of numbers, which is no array") as info:
            public(numbers, "h")
        text = str(info.value)
        assert f"{function}('h') was given a {type(numbers).__name__}" in text
        assert f"fix: ft.{function}(np.array(x), 'h')" in text
    assert public([], "h") == []
    assert public(2.0, "h") == 2.0
    assert public([X, 2.0], "h")[1] == 2.0
    with pytest.raises(TypeError, match=f"{function}: the name is a string, not int"):
        public(X, 3)


def test_names_pass_all_that_is_no_array():
    tree = {"a": X, "b": 2.0, "c": "text", "d": 3}
    named = ft.checkpoint_name(tree, "t")
    numpy.testing.assert_array_equal(named["a"], X)
    assert named["b"] == 2.0
    assert type(named["b"]) is float
    assert named["c"] == "text"
    assert type(named["d"]) is int
    assert ft.optimization_barrier(tree)["b"] == 2.0
