"""What several processes do together is neither left out, merged, moved nor done ahead."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import P, mesh, spmd
from functensor.passes.common_subexpressions import common_subexpressions
from functensor.passes.constant_folding import constant_folding
from functensor.passes.dead_code import dead_code
from functensor.passes.exchange_order import check_exchanges
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized
from functensor.programs import ProgramError

ALONE = {"data": 1, "model": 1}


def program_of(fun, *args):
    return ft.make_program(spmd(fun, mesh(ALONE), P(), P.local()))(*args)


def exchanges(program):
    return [e.params["axis_name"][0].name for e in program.equations if e.exchanges()]


def moved(x, z, k):
    """Joins a region that needs a value behind the second sum, before the first one."""
    a = fnp.sin(x)
    first = ft.psum(fnp.sum(a), "data")
    second = ft.psum(k, "model")
    return a * fnp.sort(z), first, second


def test_regions_leave_the_order():
    x = np.ones(2000)
    program = optimized(program_of(moved, x, x, 1.0 + x[:2]))
    assert exchanges(program) == ["data", "model"]
    fused = fusion(program, 1)
    assert any(equation.primitive.fused for equation in fused.equations)
    assert exchanges(fused) == ["data", "model"]


def test_equal_exchanges_are_two():
    def one(x):
        return ft.psum(x, "data") * ft.psum(x, "data") + ft.psum(fnp.sin(x), "model")

    program = program_of(one, np.ones(3))
    assert common_subexpressions(program) is program
    assert exchanges(optimized(program)) == ["data", "data", "model"]


def test_what_constants_leave_without_use_stays():
    def one(x):
        # Another process may have another constant.
        return x + ft.psum(fnp.sin(x), "data") * np.float64(0) * 0

    program = program_of(one, np.ones(3))
    assert exchanges(optimized(program)) == ["data"]
    unused = program.with_equations(program.equations, program.inputs)
    assert exchanges(dead_code(unused)) == ["data"]
    assert exchanges(dead_code(unused, exchanges=True)) == []


def test_what_no_output_needs_goes_before_constants_are_looked_at():
    def one(x):
        ft.psum(x, "data")
        return x * ft.psum(x, "model")

    assert exchanges(program_of(one, np.ones(3))) == ["model"]


def test_constants_are_exchanged_in_every_run():
    def one(x):
        return x + ft.psum(np.ones(3), "data") + ft.axis_index("model") + ft.pmax(2.0, "data")

    program = program_of(one, np.ones(3))
    assert constant_folding(program) is program
    assert exchanges(optimized(program)) == ["data", "model", "data"]
    np.testing.assert_array_equal(np.asarray(program(np.ones(3))), np.full(3, 4.0))
    with pytest.raises(TypeError):
        program_of(lambda x: x * float(ft.psum(np.ones(()), "data")), np.ones(3))


def test_the_check_tells_of_another_order():
    program = program_of(moved, np.ones(3), np.ones(3), 2.0)
    equations = [*program.equations]
    places = [i for i, e in enumerate(equations) if e.exchanges()]
    check_exchanges(program, program)
    equations[places[0]], equations[places[1]] = equations[places[1]], equations[places[0]]
    with (
        ft.config.using(check_programs=False),
        pytest.raises(ProgramError, match="several processes"),
    ):
        check_exchanges(program, program.with_equations(equations))
