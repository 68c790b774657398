"""Scopes that do not end in the order in which they began: those of generators."""

import asyncio
import functools
import threading

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as np
from functensor.programs.named_scope import active, active_scope, scoped

X = numpy.linspace(0.1, 0.9, 4)


def paths():
    """Returns the scopes that are active, the innermost last."""
    return [entry.path for entry in active.entries]


def kept(scope):
    with scope:
        yield


def opened(name):
    """Returns a generator that stopped within a scope."""
    generator = kept(ft.named_scope(name))
    next(generator)
    return generator


def test_a_generator_that_is_closed_within_another_scope_ends_its_own():
    generator = opened("rows")
    with ft.named_scope("block"):
        assert active_scope() == "rows/block"
        generator.close()
        assert active_scope() == "rows/block"
        with ft.named_scope("inner"):
            assert active_scope() == "rows/block/inner"
    assert paths() == [""]


def test_a_generator_that_outlives_the_scope_around_it_ends_its_own():
    with ft.named_scope("block"):
        generator = opened("rows")
    with ft.named_scope("other"):
        generator.close()
    assert paths() == [""]


def test_programs_have_the_scope_that_is_left():
    def f(x):
        generator = opened("rows")
        with ft.named_scope("block"):
            x = np.sin(x)
            generator.close()
            x = np.cos(x)
        return np.exp(x)

    program = ft.make_program(f)(X)
    assert [(e.primitive.name, e.scope) for e in program.equations] == [
        ("sin", "rows/block"),
        ("cos", "rows/block"),
        ("exp", ""),
    ]


def test_what_is_kept_for_others_is_left_alone():
    generator = opened("rows")
    with scoped(""):
        generator.close()
        assert active_scope() == ""
    assert paths() == [""]


def test_a_scope_of_another_thread_is_not_ended():
    made = []
    thread = threading.Thread(target=lambda: made.append(opened("theirs")))
    thread.start()
    thread.join()
    with ft.named_scope("mine"):
        made[0].close()
        assert active_scope() == "mine"
    assert paths() == [""]


@given(st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 9)), max_size=12))
def test_whatever_the_order_nothing_is_left(steps):
    # The same object may be entered several times.
    scopes = [ft.named_scope(name) for name in "abc"]
    running = []
    for step, number in steps:
        if step == "-" and running:
            running.pop(number % len(running)).close()
        else:
            running.append(kept(scopes[number % 3]))
            next(running[-1])
        assert len(paths()) == len(running) + 1
    for generator in running:
        generator.close()
    assert paths() == [""]


async def later():
    return 1


async def many():
    yield 1


LATER = {"kept": kept, "later": later, "many": many, "partial": functools.partial(kept, None)}


@pytest.mark.parametrize("name", LATER)
def test_what_runs_after_its_call_is_not_decorated(name):
    def decorate():
        return ft.named_scope("block")(LATER[name])

    with pytest.raises(TypeError) as caught:
        decorate()
    assert str(caught.value) == (
        f"named_scope('block') decorates {name}, a generator function or an asynchronous one, "
        "which runs only after the call\n"
        f"  at {__file__}:{decorate.__code__.co_firstlineno + 1}\n"
        '  fix: with ft.named_scope("block"), within the function'
    )
    assert paths() == [""]


def test_within_asynchronous_functions_a_block_works():
    async def main():
        with ft.named_scope("block"):
            return active_scope()

    assert asyncio.run(main()) == "block"
    assert paths() == [""]
