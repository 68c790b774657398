"""An error from within a hook names the same transformations in place of a plan as in one.

Under hooks a jitted function first runs operation by operation. Its plan calls them from then on.
"""

import pytest
from support.error_cases import defined, text

import functensor as ft
import functensor.numpy as np
from functensor.errors import ShapeError

X = np.array([0.5, 1.0, 2.0])


def sines(x):
    return np.sum(np.sin(x))


def scanned(xs):
    return ft.scan(step, 0.0, xs)[0]


def step(carry, x):
    return carry + np.sin(x), None


def counted(x):
    return ft.fori_loop(0, 2, following, x)


def following(i, x):
    return np.sin(x)


def looped(x):
    return ft.while_loop(is_large, shrunk, x)


def is_large(x):
    return np.sum(x) > 3.0


def shrunk(x):
    return np.sin(x)


def chosen(x):
    return ft.cond(np.sum(x) > 0, shrunk, np.zeros_like, x)


def switched(x):
    return ft.switch(np.argmax(x), [np.zeros_like, np.zeros_like, shrunk], x)


def inner(x):
    return ft.jit(sines)(x)


IN_GRAD = f"jit({defined(sines)}) of grad({defined(sines)})"
IN_SCAN = f"jit({defined(scanned)}) of scan({defined(step)})"
IN_SWITCH = f"jit({defined(switched)}) of switch: branches[2]({defined(shrunk)})"
# A function, whether the hook sees cotangents, and what messages say of transformations. The hook's
# operand is an array of three elements, or has no axes.
RUNS = {
    "jit": (ft.jit(sines), False, f"jit({defined(sines)})"),
    "jit of grad": (ft.jit(ft.grad(sines)), True, IN_GRAD),
    "jit of scan": (ft.jit(scanned), False, IN_SCAN),
    "jit of fori_loop": (
        ft.jit(counted), False, f"jit({defined(counted)}) of fori_loop({defined(following)})"
    ),
    "jit of while_loop": (
        ft.jit(looped), False, f"jit({defined(looped)}) of while_loop({defined(shrunk)})"
    ),
    "jit of cond": (
        ft.jit(chosen), False, f"jit({defined(chosen)}) of cond: true_fun({defined(shrunk)})"
    ),
    "jit of switch": (ft.jit(switched), False, IN_SWITCH),
    "jit of jit": (ft.jit(inner), False, f"jit({defined(inner)}) of jit({defined(sines)})"),
}  # fmt: skip


@pytest.mark.parametrize("traceable", [None, False])
@pytest.mark.parametrize("run", RUNS)
def test_the_stack_is_that_of_the_jitted_function(run, traceable):
    function, backward, under = RUNS[run]
    function.clear_cache()
    wrong = []

    def look(op, inputs, output):
        if wrong:
            np.ravel(output).reshape(17)

    hook = ft.hooks.FnHook(**{"backward" if backward else "forward": look})
    hook.traceable = traceable
    size = 1 if run == "jit of scan" else 3
    line = f"{__file__}:{look.__code__.co_firstlineno + 2}"
    fix = f"give lengths whose product is {size}; one of them may be -1"
    what = f"reshape: ({size},) has {size} elements, which do not fill (17,)"
    with ft.hooks.use(hook, match="sin"):
        for calls in (0, 1, 2):
            # The first one runs operation by operation, the others by a plan.
            function.clear_cache()
            function._hooks.clear()
            for _ in range(calls):
                function(X)
            wrong.append(1)
            with pytest.raises(ShapeError) as info:
                function(X)
            wrong.clear()
            assert str(info.value) == text(what, line, fix, 16, under)


def test_loops_of_python_are_not_named_outside_of_jit():
    def look(op, inputs, output):
        output.reshape(17)

    with ft.hooks.use(ft.hooks.FnHook(forward=look), match="sin"):
        for run in (scanned, counted, looped, chosen):
            with pytest.raises(ShapeError) as info:
                run(X)
            assert "under" not in str(info.value)
            with ft.disable_jit(), pytest.raises(ShapeError) as info:
                ft.jit(run)(X)
            assert "under" not in str(info.value)
