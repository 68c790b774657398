"""The types of what is staged: equal ones are one, and what they give is inferred once."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.errors import ShapeError
from functensor.primitives.core.registry import registry as ops
from functensor.primitives.core.shape_dtype import ShapeDtype, shape_dtype
from functensor.programs.staged_types import StagedTypes


@pytest.fixture
def asked(monkeypatch):
    """The types that products were inferred of, but for those that the checker infers again."""
    monkeypatch.setattr(ft.config, "check_programs", False)
    found = []
    infer = ops.matmul.infer

    def noted(primitive, *types, **params):
        found.append(types)
        return infer(primitive, *types, **params)

    monkeypatch.setattr(ops.matmul, "infer", noted)
    return found


def test_what_is_done_to_equal_types_again_is_inferred_once(asked):
    def steps(w, x):
        for _ in range(10):
            x = np.tanh(x @ w)
        return x

    program = ft.make_program(steps)(np.ones((3, 3)), np.ones((2, 3)))
    assert len(program.equations) == 20
    # Of the argument, and of what its equal was made of.
    assert len(asked) <= 2
    assert len({id(equation.outputs[0].type) for equation in program.equations}) == 1


def test_other_types_are_inferred_for_themselves(asked):
    def both(x, y):
        return x @ x, y @ y, x.astype("float32") @ x

    program = ft.make_program(both)(np.ones((3, 3)), np.ones((2, 2), "float32"))
    assert list(map(str, (out.type for out in program.outputs))) == [
        "float64[3,3]", "float32[2,2]", "float64[3,3]",
    ]  # fmt: skip
    assert len(asked) == 3


def test_parameters_decide_types_each_time():
    def sums(x):
        return np.sum(x, axis=0), np.sum(x, axis=1), np.sum(x, axis=0, keepdims=True)

    program = ft.make_program(sums)(np.ones((3, 4)))
    assert [out.type.shape for out in program.outputs] == [(4,), (3,), (1, 4)]


def test_weak_scalars_and_arrays_without_axes_are_told_apart():
    one = numpy.float64(1.0)

    def added(x):
        return x + 1.0, x + one, x + True

    program = ft.make_program(added)(np.ones(2, "float32"))
    assert [out.type.dtype.name for out in program.outputs] == ["float32", "float64", "float32"]
    program = ft.make_program(lambda a, b: (a * 2, b * 2))(1.0, np.float64(1.0))
    assert [out.type.weak for out in program.outputs] == [float, None]


def test_the_types_of_numbers():
    for number in (2.0, True, 1j, 3, 2**62, -(2**63), 2**63):
        known = shape_dtype(number)
        assert known == ShapeDtype((), numpy.asarray(number).dtype, type(number)), number
    assert shape_dtype(2.0) is shape_dtype(3.0)


def test_operands_that_do_not_fit_are_refused_every_time():
    types = StagedTypes()
    given = [types.kept(ShapeDtype(shape, "float64")) for shape in ((2, 3), (2, 3))]
    for _ in range(2):
        with pytest.raises(ShapeError):
            types.inferred(ops.matmul, given, {})


def test_types_that_are_gone_are_not_taken_for_others():
    types = StagedTypes()
    for n in range(1, 200):
        # Nothing but the table holds them, so that an identity might come again.
        given = [ShapeDtype((n,), "float32"), ShapeDtype((n,), "float32")]
        assert types.inferred(ops.add, given, {}).shape == (n,)
