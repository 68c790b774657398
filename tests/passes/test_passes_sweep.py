"""The walk that passes share: which rules it asks, and what programs know of themselves."""

import pytest
from support.pass_cases import M, staged

import functensor.numpy as np
from functensor.passes.rewriter import ELEMENTWISE, _needed_primitives, behind, swept
from functensor.passes.simplify import algebra
from functensor.primitives.core.registry import registry as ops
from functensor.programs.program import Variable


@pytest.fixture
def asked():
    """A rule that looks behind transposes and never applies, and the names that it was asked of."""
    found = []

    @behind("transpose")
    def rule(sweep, equation):
        found.append(equation.primitive.name)

    yield rule, found
    del _needed_primitives[rule]


def test_rules_are_asked_only_where_they_may_find_something(asked):
    rule, found = asked
    rules = {ELEMENTWISE: (rule,)}
    program = staged(lambda x: np.exp(np.sin(x)), M)
    assert swept(program, rules) is program
    assert not found
    program = staged(lambda x: np.exp(np.sin(x).T), M)
    assert swept(program, rules) is program
    assert found == ["sin", "exp"]


def test_rules_are_asked_again_once_another_has_added_what_they_look_behind(asked):
    rule, found = asked

    def turned(sweep, equation):
        (x,) = equation.operands
        other = sweep.add("transpose", [x], {"axes": (1, 0)}, equation)
        return equation.with_operands([sweep.add("transpose", [other], {"axes": (1, 0)}, equation)])

    once = []

    def first(sweep, equation):
        if once:
            return None
        once.append(equation)
        return turned(sweep, equation)

    program = staged(lambda x: np.exp(np.sin(x)), M)
    better = swept(program, {"sin": (first, rule), "exp": (rule,)})
    names = [equation.primitive.name for equation in better.equations]
    assert names == ["transpose", "transpose", "sin", "exp"]
    # Of the rewritten one, and of the next.
    assert found == ["sin", "exp"]


def test_only_the_equations_that_are_named_are_rewritten():
    program = staged(lambda x: (x.T.T, (x + 1).T.T), M)
    whole = algebra(program)
    assert whole is not program
    chosen = [equation for equation in program.equations if equation.primitive.name == "transpose"]
    seen = []

    def rule(sweep, equation):
        seen.append(equation)

    assert swept(program, {"transpose": (rule,)}, {chosen[1].outputs[0]}) is program
    assert seen == [chosen[1]]


def test_programs_know_how_often_variables_are_used():
    program = staged(lambda x: (x * x, np.sin(x), x), M)
    (x,) = program.inputs
    product, sine = (equation.outputs[0] for equation in program.equations)
    assert program.uses() == {x: 4, product: 1, sine: 1}
    assert program.primitives() == {ops.multiply, ops.sin}
    # A program remembers its answers, and one that is made of it has its own.
    assert program.uses() is program.uses()
    less = program.with_equations(program.equations[:1], program.outputs[:1])
    assert less.uses() == {x: 2, product: 1}
    assert less.primitives() == {ops.multiply}


def test_equations_over_others_are_themselves_where_nothing_is_replaced():
    program = staged(lambda x, y: x * y + 2, M, M)
    x, y = program.inputs
    product, _ = program.equations
    assert product.over({Variable(x.type): x}) is product
    assert product.over({x: y}).operands == (y, y)
