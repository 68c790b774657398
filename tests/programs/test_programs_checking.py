"""Programs within programs are checked as well: the bodies of calls."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.jitting.program_call import ProgramCall
from functensor.passes.fusion import fusion
from functensor.programs import Equation, Program, ProgramError, check

X = numpy.linspace(0.1, 0.9, 4)


def scanned(x):
    return ft.scan(lambda c, y: (np.sin(c) * y + c, np.cos(c)), x, np.ones((3, 4)))


def chosen(x):
    return ft.cond(np.sum(x) > 0, lambda x: np.sin(x) * x + 1, lambda x: np.cos(x) * x - 1, x)


def repeated(x):
    return ft.while_loop(lambda x: np.sum(np.sin(x)) < 3, lambda x: np.cos(x) * x + 1, x)


def nested(x):
    return ft.scan(lambda c, y: (chosen(c) + y, None), x, np.ones((3, 4)))


def innermost(program):
    """Returns every body of several equations, those of bodies included."""
    for equation in program.equations:
        for body in getattr(equation.primitive, "bodies", ()):
            yield from innermost(body)
            if len(body.equations) > 1:
                yield body


def reverse(body):
    body.equations = body.equations[::-1]


@pytest.mark.parametrize("fun", [scanned, chosen, repeated, nested])
def test_a_body_in_the_wrong_order_is_found(fun):
    count = len([*innermost(ft.make_program(fun)(X))])
    assert count
    for i in range(count):
        program = ft.make_program(fun)(X)
        check(program)
        reverse([*innermost(program)][i])
        with pytest.raises(ProgramError, match=r"(?s)runs what is not well formed.*undefined"):
            check(program)


def test_the_message_names_the_equations_of_all_programs():
    program = ft.make_program(scanned)(X)
    (number,) = (i for i, e in enumerate(program.equations) if e.primitive.name == "scan")
    (body,) = program.equations[number].primitive.bodies
    reverse(body)
    names = [e.primitive.name for e in body.equations]
    place = names.index("add")
    with pytest.raises(ProgramError) as caught:
        check(program)
    assert str(caught.value) == (
        f"scanned: equation {number}, scan, runs what is not well formed: "
        f"{body.name}: equation {place}, add, uses an undefined variable"
    )


def test_regions_and_calls_of_programs_are_checked():
    inner = ft.make_program(lambda x: np.sin(x) * x + 1)(X)
    fused = fusion(inner, 1)
    assert [e.primitive.name for e in fused.equations] == ["fused"]
    check(fused)
    x = inner.inputs[0]
    out = inner.outputs[0]
    call = Program("outer", [x], [Equation(ProgramCall(inner), [x], {}, [out])], [out])
    check(call)
    reverse(fused.equations[0].primitive.program)
    reverse(inner)
    for program in (fused, call):
        with pytest.raises(ProgramError, match="uses an undefined variable"):
            check(program)


def test_a_result_that_is_said_to_be_elsewhere_is_found():
    program = ft.make_program(lambda x, y: np.sin(x) + y)(X, X)
    (sine, total) = program.equations
    total.outputs[0].device = "cuda:1"
    with pytest.raises(
        ProgramError, match="1, add, gives what is on cpu, but is said to be on cuda:1"
    ):
        check(program)
    for variable in (*program.inputs, *sine.outputs):
        variable.device = "cuda:1"
    check(program)
    program.inputs[1].device = "cuda:0"
    sine.outputs[0].device = "cuda:2"
    with pytest.raises(ProgramError, match="0, sin, gives what is on cuda:1, but is said"):
        check(program)


def test_what_is_put_on_a_device_is_there():
    program = ft.make_program(lambda x: ft.to_device(x, "cpu") * 2)(X)
    program.inputs[0].device = "cuda:0"
    check(program)
    program.equations[-1].outputs[0].device = "cuda:0"
    with pytest.raises(ProgramError, match="multiply, gives what is on cpu"):
        check(program)
