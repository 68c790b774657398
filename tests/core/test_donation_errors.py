"""The message about an array that was donated, whatever it is used for."""

import copy
import math
import operator
import pickle

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.backends.cpu.plan.codegen.source import Source
from functensor.backends.errors.words import shown
from functensor.backends.frames import user_line
from functensor.errors import DonatedArrayError


def halved(w):
    return 0.5 * w


STEP = ft.jit(halved, donate_argnums=0)

USES = {
    "step(w)": STEP,
    "w[0]": lambda w: w[0],
    "w[:2]": lambda w: w[:2],
    "w[None]": lambda w: w[None],
    "float(w)": lambda w: float(w),
    "int(w)": lambda w: int(w),
    "complex(w)": lambda w: complex(w),
    "index(w)": lambda w: operator.index(w),
    "bool(w)": lambda w: bool(w),
    "if w": lambda w: 1 if w else 2,
    "len(w)": lambda w: len(w),
    "iter(w)": lambda w: iter(w),
    "1 in w": lambda w: 1 in w,
    "round(w)": lambda w: round(w),
    "floor(w)": lambda w: math.floor(w),
    "f'{w:.3f}'": lambda w: f"{w:.3f}",
    "w.tolist()": lambda w: w.tolist(),
    "w.item()": lambda w: w.item(),
    "w.at": lambda w: w.at[0].set(1),
    "w.shape": lambda w: w.shape,
    "w.dtype": lambda w: w.dtype,
    "w.T": lambda w: w.T,
    "-w": lambda w: -w,
    "1 + w": lambda w: 1 + w,
    "w @ w": lambda w: w @ w,
    "w == 1": lambda w: w == 1,
    "numpy.asarray(w)": lambda w: numpy.asarray(w),
    "numpy.add(w, 1)": lambda w: numpy.add(w, 1),
    "numpy.sum(w)": lambda w: numpy.sum(w),
    "numpy.ones(3) + w": lambda w: numpy.ones(3) + w,
    "numpy.stack": lambda w: numpy.stack([w, w]),
    "np.stack": lambda w: np.stack([w, w]),
    "np.array": lambda w: np.array(w),
    "a list": lambda w: np.asarray([w, 1.0]),
    "Tensor of a dtype": lambda w: ft.Tensor(w, dtype="float32"),
    "pickle": lambda w: pickle.dumps(w),
}


def donated(x):
    """Returns an array whose buffer another function took."""
    w = np.asarray(x) + 1
    STEP(w)
    return w


def text_at(line):
    """Returns the whole message, for a line of this file."""
    return (
        "an array was used after it had been donated to jit of halved, which wrote its result "
        "into the same memory\n"
        f"  at {__file__}:{line}\n"
        "  fix: use what the function returned, or leave the argument out of donate_argnums\n"
        "  see python -m functensor.errors 23"
    )


@pytest.mark.parametrize("shape", [(3,), ()], ids=str)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_use_gets_the_whole_message(use, shape):
    w = donated(numpy.ones(shape))
    with pytest.raises(DonatedArrayError) as caught:
        use(w)
    line = caught.tb.tb_lineno if use is STEP else use.__code__.co_firstlineno
    assert str(caught.value) == text_at(line)


def test_the_second_call_tells_the_users_line_by_the_guard_too():
    # Two calls before: a guard is made by the second.
    for pack in (lambda w: w, lambda w: {"w": w, "b": [w]}):
        step = ft.jit(lambda p: ft.tree.map(halved, p), donate_argnums=0)
        for _ in range(2):
            step(pack(np.ones(3) + 1))
        w = donated(numpy.ones(3))
        with pytest.raises(DonatedArrayError) as caught:
            step(pack(w))
        assert str(caught.value) == text_at(caught.tb.tb_lineno)


def test_a_buffer_that_is_gone_refuses_whatever_a_buffer_can_do():
    gone = donated(numpy.ones(3))._data
    compared = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
    both = [operator.add, operator.matmul, operator.iadd, divmod, pow, operator.and_]
    for use in (*compared, *both):
        with pytest.raises(DonatedArrayError):
            use(gone, 1)
        with pytest.raises(DonatedArrayError):
            use(1, gone)
    for use in (bool, int, float, complex, len, iter, abs, copy.copy, copy.deepcopy):
        with pytest.raises(DonatedArrayError):
            use(gone)
    with pytest.raises(DonatedArrayError):
        gone[0] = 1
    with pytest.raises(DonatedArrayError):
        del gone[0]
    assert hash(gone) == hash(gone)


def test_the_frames_of_plans_are_not_the_users():
    def told():
        return eval("line()", {**Source().scope, "line": user_line})

    assert told() == f"{__file__}:{told.__code__.co_firstlineno + 1}"


def test_no_tensor_is_made_of_what_was_donated():
    gone = np.ones(3) + 1
    ft.jit(lambda w: 2 * w, donate_argnums=0)(gone)
    for dtype in (None, "float32"):
        with pytest.raises(RuntimeError, match="an array was used after it had been donated"):
            ft.Tensor(gone, dtype=dtype)


def test_messages_of_other_errors_show_what_was_donated():
    # An error in the middle of a donating call, such as one for want of memory, is what is raised.
    assert shown([donated(numpy.ones(3)), 1.0]) == "[Array, 1.0]"
