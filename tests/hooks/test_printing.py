"""Lines that are printed: what they say under each transformation, and of all kinds of numbers."""

import io
import re

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import PrintHook, use

X = numpy.array([0.5, -1.0, 2.0])


def printed(fun, *args, match=None, on_replay=False, **options):
    """Returns what a hook prints while a function runs, without the folders of files."""
    file = io.StringIO()
    with use(PrintHook(file=file, **options), match=match, on_replay=on_replay):
        fun(*args)
    return re.sub(r"\S*/(\w+\.py):\d+", r"\1", file.getvalue()).splitlines()


def test_a_line_says_what_where_and_how_large(capsys):
    def layer(x):
        with ft.scope("block"), ft.scope("layer"):
            return np.square(x)

    with use(PrintHook()):
        layer(np.asarray(X))
    line = layer.__code__.co_firstlineno + 2
    assert capsys.readouterr().out == (
        "forward square: float64[3] -> float64[3], 0.25 to 4, mean 1.75, "
        f"in block/layer at {__file__}:{line}\n"
    )


def test_both_passes_and_operands_without_cotangents():
    lines = printed(ft.grad(lambda x: np.sum(x * numpy.array([1, 2, 4]))), X)
    assert all(line.endswith(", at test_printing.py") for line in lines)
    assert [line.removesuffix(", at test_printing.py") for line in lines] == [
        "forward multiply: float64[3], int64[3] -> float64[3], -2 to 8, mean 2.16667",
        "forward sum: float64[3] -> float64[], 6.5 to 6.5, mean 6.5",
        "backward sum: float64[] -> float64[3], 1 to 1, mean 1",
        "backward multiply: float64[3] -> float64[3], None, 1 to 4, mean 2.33333",
    ]


def test_batches_say_their_size():
    batch = numpy.stack([X, 2 * X])
    for fun in (ft.vmap(np.negative), ft.jit(ft.vmap(np.negative))):
        (line,) = printed(fun, batch)
        assert line == (
            "forward negative: float64[3] -> float64[3] for each of 2 examples, -4 to 2, "
            "mean -0.75, at test_printing.py"
        )
    lines = printed(ft.vmap(ft.vmap(ft.grad(np.sin))), batch, summary=False)
    assert lines == [
        "forward sin: float64[] -> float64[] for each of 6 examples, at test_printing.py",
        "backward sin: float64[] -> float64[] for each of 6 examples, at test_printing.py",
    ]


def test_phases_and_tags():
    tagged = printed(lambda: ft.tag(np.asarray(X), "hidden"), summary=False)
    assert tagged[0].startswith("forward tag 'hidden': float64[3] -> float64[3], at")
    (line,) = printed(lambda: ft.jvp(np.sin, (0.0,), (1.0,)), summary=False)
    assert line.startswith("tangent sin: ")
    lines = printed(ft.grad(ft.checkpoint(np.sin)), 1.0, on_replay=True)
    assert [line.split()[0] for line in lines] == ["forward", "replay", "backward"]


NUMBERS = {
    "float16": (numpy.array([1, 2], "float16"), "1 to 2, mean 1.5"),
    "large float16": (numpy.full(9, 60000, "float16"), "60000 to 60000, mean 60000"),
    "bfloat16": (lambda: np.asarray([1.0, 2.0]).astype("bfloat16"), "1 to 2, mean 1.5"),
    "complex": (numpy.array([3 + 4j, 0]), "0 to 5, mean 2.5"),
    "int": (numpy.array([-3, 4]), "-3 to 4, mean 0.5"),
    "uint8": (numpy.array([255, 255], "uint8"), "255 to 255, mean 255"),
    "bool": (numpy.array([True, False]), "0 to 1, mean 0.5"),
    "empty": (numpy.zeros((0, 2)), "empty"),
    "without axes": (numpy.array(7.0), "7 to 7, mean 7"),
    "NaN": (numpy.array([numpy.nan, 1, -numpy.inf]), "1 to 1, mean 1, 1 NaN, 1 infinite"),
    "all NaN": (numpy.array([numpy.nan] * 1000), "1,000 NaN"),
    "complex NaN": (numpy.array([complex(0, numpy.nan), 2j]), "2 to 2, mean 2, 1 NaN"),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_ranges_of_all_kinds_of_numbers(name):
    x, wanted = NUMBERS[name]
    x = x() if callable(x) else x
    (line,) = printed(lambda: ft.tag(x, "x"))
    assert (
        line.partition(f"-> {x.dtype}")[2].partition("], ")[2] == f"{wanted}, at test_printing.py"
    )


def test_programs_print_while_they_run():
    def printing(x):
        with use(PrintHook(file=file)):
            return np.sin(x)

    file = io.StringIO()
    program = ft.make_program(printing)(X)
    assert not file.getvalue()
    program(X)
    assert file.getvalue().startswith("forward sin: float64[3] -> float64[3], -0.")


@pytest.mark.parametrize(("every", "wanted"), [(1, 7), (2, 4), (3, 3), (100, 1)])
def test_one_of_several_is_printed(every, wanted):
    def seven(x):
        for _ in range(7):
            x = np.sin(x)

    assert len(printed(seven, X, every=every)) == wanted


def test_every_has_to_be_positive():
    with pytest.raises(ValueError, match=r"PrintHook prints one of every 0 operations: every=1"):
        PrintHook(every=0)


def test_the_output_is_that_of_the_time(capsys):
    hook = PrintHook(summary=False)
    assert repr(hook) == "PrintHook(summary=False, file=None, every=1)"
    for _ in range(2):
        with use(hook):
            np.sin(X)
        assert capsys.readouterr().out.startswith("forward sin: ")
