"""The parts that tests of messages share: a whole message, put together as a reader sees it."""

import pytest

import functensor as ft


def line_of(traceback, path):
    """Returns ``file:line`` of a traceback's innermost frame in a file."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == path:
            found = f"{path}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found


def defined(fun):
    """Returns how messages mention a function: its name, and where it is defined."""
    return f"{fun.__name__} ({fun.__code__.co_filename}:{fun.__code__.co_firstlineno})"


def text(what, line, fix, number, under=""):
    """Returns a message."""
    stack = f"\n  under {under}" if under else ""
    return f"{what}\n  at {line}{stack}\n  fix: {fix}\n  see python -m functensor.errors {number}"


def check(error, call, what, fix, number, under="", line=""):
    """Calls a function that must fail, and compares the whole message.

    Args:
        error: the class of the error.
        call: a function of the test.
        what, fix, number, under: the parts of the message.
        line: ``file:line`` that the message must name, by default the innermost of the test's file.
    """
    with pytest.raises(error) as info:
        call()
    assert type(info.value) is error
    line = line or line_of(info.tb, call.__code__.co_filename)
    assert str(info.value) == text(what, line, fix, number, under)


def staged(f):
    """Returns a function that stages another one for its arguments."""
    return lambda *args: ft.make_program(f)(*args)


FORMS = {"plain": lambda f: f, "staged": staged}
both = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def stack(form, f, *more):
    """Returns the transformations that a message names, for one of those forms of a function."""
    outer = [f"make_program({defined(f)})"] if form is staged else []
    return " of ".join([*outer, *(more if form is staged else ())])
