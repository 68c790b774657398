"""Equations that become regions, and those that do not."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.threads import pool
from functensor.passes import fused_region as region_kinds
from functensor.passes.fusion import Clusters, fusion
from functensor.passes.pipeline import optimized

BIG = ft.ShapeDtype((512, 128), "float32")
ROW = ft.ShapeDtype((128,), "float32")


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
        "<lambda>(a: float32[512,128], b: float32[128]):\n"
        "    c: float32[512,128] = sin(a)\n"
        "    d: float32[512,128] = multiply(c, b)\n"
        "    e: float32[] = sum(d, axis=(0, 1), keepdims=False)\n"
        "    return e"
    )
    assert str(fusion(program)) == (
        "<lambda>(a: float32[512,128], b: float32[128]):\n"
        "    c: float32[] = fused(a, b)\n"
        "        fused(a: float32[512,128], b: float32[128]):\n"
        "            c: float32[512,128] = sin(a)\n"
        "            d: float32[512,128] = multiply(c, b)\n"
        "            e: float32[] = sum(d, axis=(0, 1), keepdims=False)\n"
        "            return e\n"
        "    return c"
    )


def test_small_programs_are_left_alone():
    program = optimized(ft.make_program(lambda x: fnp.sin(x) * 2)(np.ones(100)))
    assert fusion(program) is program


def test_what_can_be_in_no_region_is_not_looked_at(monkeypatch):
    asked = []

    def kind_of(equation, every):
        asked.append(equation.primitive.name)
        return kind(equation, every)

    kind = region_kinds.region_kind
    monkeypatch.setattr(region_kinds, "region_kind", kind_of)
    _, (region,) = regions(lambda x: fnp.sum(fnp.cos(x)) + fnp.sum(fnp.sin(x[:5])), BIG)
    assert region == ["cos", "sum"]
    assert "cos" in asked
    assert not {"add", "sin"} & {*asked}


def test_large_constants_make_regions():
    big = fnp.ones((1024, 512), "float32")
    program, found = regions(lambda x: x * fnp.sum(big), ft.ShapeDtype((), "float32"))
    assert found == [["sum"]]
    assert outside(program) == ["multiply"]


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
    square = ft.ShapeDtype((300, 300), "float32")
    x = np.random.default_rng(0).normal(size=(300, 300)).astype("float32")

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
        lambda x, c: fnp.sin(x) + fnp.broadcast_to(fnp.reshape(c, (512, 1)), (512, 128)),
        BIG,
        ft.ShapeDtype((512,), "float32"),
    )
    assert outside(program) == []
    assert found[0][-1] == "add"


def test_updates_of_an_optimizer_are_one_region_for_each_shape():
    opt = ft.optim.momentum(0.1)
    params = {"a": np.ones((512, 128)), "b": np.ones((128, 512)), "c": np.ones(3)}
    state = opt.init(params)
    _, found = regions(lambda p, s, g: opt.update(p, s, g), params, state, params)
    assert len(found) == 2


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: fnp.linalg.inv(x[:128] @ x[128:256].T),
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


@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_tall_matrices_read_them_once(threads, monkeypatch):
    monkeypatch.setattr(region_kinds, "UNCACHED", 1)
    monkeypatch.setattr(pool.threads, "number", threads)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9001, 10)).astype("float32")
    w, y = (rng.normal(size=n).astype("float32") for n in (10, 9001))

    def loss(w, x, y):
        return fnp.mean(fnp.square(fnp.tanh(x @ w) - y))

    program, found = regions(ft.value_and_grad(loss), w, x, y)
    assert [names.count("matmul") for names in found] == [2]
    assert outside(program) == []
    got = get_backend("numpy").plan(program)([w, x, y])
    for a, b in zip(got, ft.value_and_grad(loss)(*map(fnp.asarray, (w, x, y))), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-7)


def test_products_that_fit_into_the_cache_are_left_to_blas():
    x, w = ft.ShapeDtype((9001, 10), "float32"), ft.ShapeDtype((10,), "float32")
    program, _ = regions(lambda x, w: fnp.tanh(x @ w), x, w)
    assert "matmul" in outside(program)


def test_a_chain_is_computed_where_its_result_is_needed():
    def update(m, g, w):
        # The gradient is ready later than what is made of the old moment.
        g = fnp.tanh(g) @ w
        return fnp.sqrt(m * 0.9 + 1.0) * 0.5 + g * 0.1

    square = ft.ShapeDtype((128, 128), "float32")
    program, found = regions(update, BIG, BIG, square)
    assert found == [["multiply", "add", "sqrt", "multiply", "multiply", "add"]]
    assert outside(program) == ["tanh", "matmul"]

    def shared(m, g, w):
        a = m * 0.9 + 1.0
        return fnp.sqrt(a) * 0.5 + (fnp.tanh(g) @ w) * 0.1, a @ w

    # Something else needs a part of the chain, which leaves its cluster anyhow.
    _, found = regions(shared, BIG, BIG, square)
    assert ["multiply", "add"] in found
    assert ["sqrt", "multiply", "multiply", "add"] in found


def test_long_chains_are_computed_where_their_result_is_needed(monkeypatch):
    def update(m, g, w):
        g = fnp.tanh(g) @ w
        for _ in range(400):
            m = fnp.sqrt(m * 0.9 + 1.0)
        return m + g

    asked = []
    uses = Clusters._uses
    monkeypatch.setattr(Clusters, "_uses", lambda *args: asked.append(1) or uses(*args))
    _, found = regions(update, BIG, BIG, ft.ShapeDtype((128, 128), "float32"))
    assert list(map(len, found)) == [3 * 400 + 1]
    # Each equation is looked at a few times.
    assert len(asked) < 4 * 3 * 400
