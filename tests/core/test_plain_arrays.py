"""Results share no memory with plain arrays that were given, of which there may be many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
from functensor.backends.memory_search import ManyArrays
from functensor.primitives.core import plain_arrays as module
from functensor.primitives.core.plain_arrays import plain_arrays

MANY = 200


def halves(params):
    return [0.5 * x for x in params]


def views(params):
    return [x[..., 1:] for x in params]


TRANSFORMED = {
    "vmap": lambda f, params: ft.vmap(f)(params),
    "jvp": lambda f, params: ft.jvp(f, (params,), (params,))[0],
    "value_and_grad": lambda f, params: ft.value_and_grad(
        lambda p: (sum(x.sum() for x in p), f(p)), has_aux=True
    )(params)[0][1],
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("fun", [halves, views])
def test_each_array_is_asked_a_few_times(name, fun, monkeypatch):
    params = [np.random.default_rng(i).normal(size=(4, 2)) for i in range(MANY)]
    asked = []
    ask = np.may_share_memory
    monkeypatch.setattr(np, "may_share_memory", lambda x, y: asked.append(1) or ask(x, y))
    outs = TRANSFORMED[name](fun, params)
    # One walk over all, and not one for each result.
    assert len(asked) <= 4 * MANY
    monkeypatch.undo()
    for out, expected in zip(outs, fun(params), strict=True):
        np.testing.assert_array_equal(out, expected)
        assert not any(np.may_share_memory(np.asarray(out), x) for x in params)


places = st.tuples(st.integers(0, 60), st.integers(0, 60), st.sampled_from([1, -1, 2, -3]))


@given(st.lists(places, min_size=module.MANY, max_size=40), st.lists(places, min_size=1))
def test_memory_is_found_as_numpy_finds_it(lying, asked):
    memory = np.zeros(60, np.int16)
    cut = lambda start, stop, step: memory[start:stop:step]  # noqa: E731
    many = plain_arrays([cut(*place) for place in lying])
    assert type(many) is ManyArrays
    for place in asked:
        x = cut(*place)
        assert many.meet(x) == any(np.may_share_memory(x, y) for y in many)


def test_an_array_without_elements_is_no_result():
    given = [np.zeros((0, 2)) for _ in range(MANY)]
    outs = ft.vmap(lambda p: p, in_axes=1, out_axes=1)(given)
    assert not any(out is x for out, x in zip(outs, given, strict=True))
    many = plain_arrays(given)
    assert all(many.meet(x) for x in given)
    assert not many.meet(np.zeros(0))
