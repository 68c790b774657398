"""Which equations become regions, and which do not."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized

BIG = ft.ShapeDtype((256, 128), "float32")
ROW = ft.ShapeDtype((128,), "float32")
COLUMN = ft.ShapeDtype((256, 1), "float32")


def regions(fun, *args, **options):
    """Returns the program, and for every region the names of what it does."""
    program = fusion(optimized(ft.make_program(fun)(*args)), **options)
    found = [e.primitive for e in program.equations if e.primitive.name == "fused"]
    return program, [[e.primitive.name for e in r.program.equations] for r in found]


def outside(program):
    """Returns the names of what is in no region."""
    return [e.primitive.name for e in program.equations if e.primitive.name != "fused"]


def test_before_and_after():
    program = optimized(ft.make_program(lambda x, w: fnp.sum(fnp.sin(x) * w))(BIG, ROW))
    assert str(program) == (
        "<lambda>(a: float32[256,128], b: float32[128]):\n"
        "    c: float32[256,128] = sin(a)\n"
        "    d: float32[256,128] = multiply(c, b)\n"
        "    e: float32[] = sum(d, axis=(0, 1), keepdims=False)\n"
        "    return e"
    )
    assert str(fusion(program)) == (
        "<lambda>(a: float32[256,128], b: float32[128]):\n"
        "    c: float32[] = fused(a, b)\n"
        "        fused(a: float32[256,128], b: float32[128]):\n"
        "            c: float32[256,128] = sin(a)\n"
        "            d: float32[256,128] = multiply(c, b)\n"
        "            e: float32[] = sum(d, axis=(0, 1), keepdims=False)\n"
        "            return e\n"
        "    return c"
    )


def test_small_programs_are_left_alone():
    program = optimized(ft.make_program(lambda x: fnp.sin(x) * 2)(np.ones(100)))
    assert fusion(program) is program


def test_a_single_cheap_equation_is_no_region():
    assert regions(fnp.sin, BIG)[1] == []
    large = ft.ShapeDtype((1024, 1024), "float32")
    assert regions(fnp.sin, large)[1] == [["sin"]]


def test_softmax_written_out_is_one_region():
    def softmax(x):
        powers = fnp.exp(x - fnp.max(x, axis=-1, keepdims=True))
        return powers / fnp.sum(powers, axis=-1, keepdims=True)

    program, found = regions(softmax, BIG)
    assert found == [["max", "subtract", "exp", "sum", "divide"]]
    assert outside(program) == []


def test_value_and_gradient_of_layer_norm_are_one_region():
    def loss(x, w, b):
        mean = fnp.mean(x, axis=-1, keepdims=True)
        spread = fnp.var(x, axis=-1, keepdims=True)
        return fnp.sum(((x - mean) / fnp.sqrt(spread + 1e-5) * w + b) ** 2)

    program, found = regions(ft.value_and_grad(loss, argnums=(0, 1, 2)), BIG, ROW, ROW)
    assert len(found) == 1
    assert outside(program) == []


def test_what_needs_a_whole_sum_comes_after_it():
    program, found = regions(lambda x: fnp.exp(x - fnp.sum(fnp.sin(x))) * 2, BIG)
    assert found == [["sin", "sum"], ["subtract", "exp", "multiply"]]
    assert outside(program) == []


def test_what_needs_sums_of_columns_comes_after_them():
    def fun(x):
        return fnp.sin(x) / fnp.sum(fnp.cos(x), axis=0)

    _, found = regions(fun, BIG)
    assert sorted(map(sorted, found)) == [["cos", "sum"], ["divide", "sin"]]


def test_no_region_depends_on_itself():
    def fun(x, w):
        y = fnp.sin(x) * 2
        return fnp.cos(y @ w) + y * 3

    square = ft.ShapeDtype((128, 128), "float32")
    program, found = regions(fun, BIG, square)
    assert outside(program) == ["matmul"]
    assert ["sin", "multiply"] in found


def test_a_square_is_not_taken_for_its_transpose():
    square = ft.ShapeDtype((200, 200), "float32")
    x = np.random.default_rng(0).normal(size=(200, 200)).astype("float32")

    def fun(x):
        return fnp.sin(x) * fnp.sum(fnp.cos(x), axis=1)

    program, found = regions(fun, square)
    assert len(found) == 2
    np.testing.assert_allclose(program(x), fun(fnp.asarray(x)), rtol=1e-5)


def test_equations_go_where_their_results_are_needed():
    def fun(x, w):
        y = x @ w
        return fnp.tanh(y) * (x * 2)

    square = ft.ShapeDtype((128, 128), "float32")
    _, found = regions(fun, BIG, square)
    assert found == [["tanh", "multiply", "multiply"]]


def test_broadcasts_are_taken_in():
    program, found = regions(
        lambda x, c: fnp.sin(x) + fnp.broadcast_to(fnp.reshape(c, (256, 1)), (256, 128)),
        BIG,
        ft.ShapeDtype((256,), "float32"),
    )
    assert outside(program) == []
    assert found[0][-1] == "add"


def test_updates_of_an_optimizer_are_one_region_for_each_shape():
    opt = ft.optim.momentum(0.1)
    params = {"a": np.ones((256, 128)), "b": np.ones((128, 256)), "c": np.ones(3)}
    state = opt.init(params)
    _, found = regions(lambda p, s, g: opt.update(p, s, g), params, state, params)
    assert len(found) == 2


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: fnp.linalg.inv(x[:128] @ x[128:].T),
        lambda x: fnp.sort(x, axis=0),
        lambda x: fnp.cumsum(x, axis=1),
        lambda x: fnp.transpose(x),
    ],
)
def test_what_is_not_known_to_be_blockwise_stays_outside(fun):
    assert regions(fun, BIG)[1] == []


def test_types_and_lines_stay():
    program, _ = regions(lambda x: nn.relu(x * 2) + 1, BIG)
    (region,) = program.equations
    assert region.outputs[0].type == BIG
    assert all(e.line.startswith(__file__) for e in region.primitive.program.equations)
    assert region.line.startswith(__file__)
