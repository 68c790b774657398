"""Small elementwise operations that a loop of Python leaves become one."""

import functools
import re

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized
from support.pass_cases import body, close, largest, operations, run, same, staged
from support.registry_cases import operands_of

import functensor as ft
import functensor.numpy as np
from functensor.backends import get as get_backend
from functensor.passes import batch_elementwise_groups
from functensor.passes.batch_elementwise import stacked_groups
from functensor.passes.dead_code import dead_code
from functensor.passes.pipeline import optimized
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.registry import registry

PLANNED = get_backend("numpy").plan
EDGES = numpy.array([0.0, -0.0, 1.5, -2.0, numpy.inf, -numpy.inf, numpy.nan, 1e-44, 1e38])
ELEMENTWISE = [
    (primitive, sample)
    for primitive in registry
    if primitive.family == "elementwise"
    for number, sample in enumerate(primitive.samples)
    if sample.params not in [other.params for other in primitive.samples[:number]]
]


def less_of(fun, *args):
    """Returns the program of a function, and what becomes of it."""
    program = staged(fun, *args)
    return program, dead_code(stacked_groups(program))


def rows(count, *shape, seed=0, dtype="float64"):
    return list(numpy.random.default_rng(seed).standard_normal((count, *shape)).astype(dtype))


def added(xs):
    return functools.reduce(lambda x, y: x + y, xs)


def planned_twice(program, values):
    """Returns what the plan of a program computes the first time, after a second one."""
    plan = PLANNED(program)
    first = plan(list(values))
    copies = [numpy.array(x) for x in first]
    second = plan([x * 0 for x in values])
    for x, copy in zip(first, copies, strict=True):
        numpy.testing.assert_array_equal(x, copy)
    assert not any(numpy.may_share_memory(x, y) for x in first for y in [*second, *values])
    return plan, first


def test_what_does_not_depend_on_each_other_is_one():
    values = rows(8, 3)
    program, less = less_of(lambda *xs: [np.sin(np.exp(x)) * xs[0] for x in xs], *values)
    assert operations(less) == ["stack", "exp", "sin", "multiply", *["index"] * 8]
    assert body(less)[:4] == [
        "i: float64[8,3] = stack(a, b, c, d, e, f, g, h, axis=0)",
        "j: float64[8,3] = exp(i)",
        "k: float64[8,3] = sin(j)",
        "l: float64[8,3] = multiply(k, a)",
    ]
    same(program, less, values)


def test_rows_of_an_array_need_no_stack():
    x = numpy.random.default_rng(0).standard_normal((20, 3))
    program, less = less_of(lambda x: [np.cos(x[i]) for i in range(18, 2, -2)], x)
    assert operations(less) == ["index", "cos", *["index"] * 8]
    assert body(less)[0] == "b: float64[8,3] = index(a, key=[18:2:-2])"
    same(program, less, [x])


def test_steps_of_a_chain_stay_and_what_hangs_on_them_is_one():
    def fun(x):
        outs = []
        for _ in range(9):
            x = np.sin(x) * x
            outs.append(np.cos(x))
        return outs

    program, less = less_of(fun, rows(1, 4)[0])
    counts = {name: operations(less).count(name) for name in ("sin", "multiply", "cos")}
    assert counts == {"sin": 9, "multiply": 9, "cos": 1}
    same(program, less, rows(1, 4))


def test_a_chain_of_products_is_a_running_product():
    def fun(x, *ys):
        outs = []
        for y in ys:
            x = x * y
            outs.append(x)
        return outs

    for dtype in ("float32", "float64"):
        values = [numpy.roll(EDGES, i).astype(dtype) for i in range(10)]
        program, less = less_of(fun, *values)
        assert operations(less) == ["stack", "cumprod", *["index"] * 9]
        with numpy.errstate(all="ignore"):
            same(program, less, values)
    # Of complex numbers NumPy rounds it in another way.
    program = staged(fun, *[x.astype("complex128") for x in values])
    assert stacked_groups(program) is program


@pytest.mark.parametrize("count", [16, 17, 18, 19])
def test_factors_may_take_turns(count):
    def fun(x, *ys):
        ys = [np.cos(y) for y in ys]
        z = x
        for i in range(count):
            z = z * (x if i % 2 else ys[i // 2])
        return z

    values = rows(11, 5)
    program, less = less_of(fun, *values)
    assert operations(less).count("multiply") == 0
    assert operations(less).count("stack") == 2
    same(program, less, values)


def test_factors_that_depend_on_the_products_stay():
    def fun(x, *ys):
        for y in ys:
            x = x * (y + x)
        return x

    program, less = less_of(fun, *rows(10, 3))
    assert operations(less) == operations(program)

    def powers(x):
        powers = [x, x * x]
        for _ in range(9):
            powers.append(powers[-1] * powers[-2])
        return powers

    program, less = less_of(powers, rows(1, 3)[0])
    assert operations(less) == operations(program)


def test_sums_of_products_are_a_sum_of_one():
    values = [numpy.round(x * 3) for x in rows(18, 4, dtype="float32")]
    program, less = less_of(
        lambda *xs: added([np.sin(xs[0]), *map(np.multiply, xs[::2], xs[1::2])]), *values
    )
    assert operations(less) == ["sin", "stack", "stack", "multiply", "sum", "add"]
    got, wanted = run(less, values), run(program, values)
    close(got[0], wanted[0], 4)
    program, less = less_of(lambda *xs: added([*xs, xs[3]]) + added(xs[:4]), *values)
    assert operations(less) == ["stack", "sum"]
    same(program, less, values)


def test_partial_sums_that_are_needed_stay():
    def fun(*xs):
        half = added(xs[:9])
        return half, half + added(xs[9:])

    values = [numpy.round(x * 3) for x in rows(18, 4)]
    program, less = less_of(fun, *values)
    assert operations(less) == ["stack", "sum", "stack", "sum"]
    same(program, less, values)


@pytest.mark.parametrize(
    "values",
    [rows(7, 3), rows(8, 600), rows(8), rows(8, 0), [x.astype("float16") for x in rows(7, 3)]],
    ids=["few", "large", "scalars", "empty", "half"],
)
def test_what_is_large_or_few_or_a_number_stays(values):
    program = staged(lambda *xs: [np.sin(x) for x in xs], *values)
    assert stacked_groups(program) is program


def test_what_is_needed_between_stays():
    def fun(x):
        for _ in range(10):
            x = np.sin(x)
        return x

    program = staged(fun, rows(1, 3)[0])
    assert stacked_groups(program) is program


def test_what_hangs_on_groups_is_one_too():
    def step(p, m, v, g):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g
        return p - m / np.sqrt(v), m, v

    values = [numpy.abs(x) for x in rows(32, 3)]
    program, less = less_of(lambda *xs: [*map(step, *[iter(xs)] * 4)], *values)
    # Both moments are sums of two products, but of other stacks.
    assert [x for x in operations(less) if x != "index"] == [
        "stack", "multiply", "stack", "multiply", "stack", "multiply", "multiply",
        "add", "add", "sqrt", "divide", "stack", "subtract",
    ]  # fmt: skip
    assert stacked_groups(less) is less
    same(program, less, values)


def test_long_lists_are_stacked_in_pieces(monkeypatch):
    monkeypatch.setattr(batch_elementwise_groups, "LARGEST_GROUP_BYTES", 10 * 24)
    values = rows(24, 3)
    program, less = less_of(lambda *xs: [np.sin(x) for x in xs], *values)
    # Ten, ten, and four that are too few.
    assert operations(less).count("sin") == 2 + 4
    same(program, less, values)


def test_the_gradient_of_a_loop_has_only_its_chain_left():
    def fun(x):
        y = x
        for _ in range(30):
            y = np.sin(y) * x
        return np.sum(y)

    x = rows(1, 10, dtype="float32")[0]
    program = staged(ft.value_and_grad(fun), x)
    less = optimized(program)
    assert operations(program).count("multiply") > 100
    assert len(less.equations) < 60 + 25
    wanted = run(program, [x])
    for got in (run(less, [x]), planned_twice(less, [x])[1]):
        for x, y in zip(got, wanted, strict=True):
            close(x, y, 16, 1.0)


def named(x):
    return getattr(x, "name", None) or "-".join(map(str, x.params.values())) or "plain"


@pytest.mark.parametrize(("primitive", "sample"), ELEMENTWISE, ids=named)
def test_rows_of_a_stack_have_the_same_bits(primitive, sample):
    for dtype in primitive.dtypes:
        operands = operands_of(primitive, sample, dtype)
        shape = numpy.broadcast_shapes(*map(numpy.shape, operands))
        if not shape or 0 in shape:
            continue
        operands = [numpy.broadcast_to(x, shape) for x in operands]
        values = [numpy.roll(x, i).copy() for i in range(8) for x in operands]
        n = len(operands)

        def fun(*xs, n=n):
            # Copies, so that operands are computed.
            return [primitive.bind(xs[i : i + n], sample.params) for i in range(0, len(xs), n)]

        wanted = [fun(*map(wrap, values[i : i + n]))[0] for i in range(0, len(values), n)]
        less = dead_code(stacked_groups(staged(fun, *values)))
        # Equations with parameters stay as they are.
        assert operations(less).count(primitive.name) == (8 if sample.params else 1)
        for x, y in zip(PLANNED(less)(values), wanted, strict=True):
            assert x.dtype == y.dtype
            assert x.tobytes() == numpy.asarray(y).tobytes()


# -- rows in plans


def test_rows_are_made_in_their_stack():
    def fun(x):
        ys = [np.sin(x + i) for i in range(4)]
        stack = np.stack(ys)
        return np.exp(stack), ys[1] * 2

    x = rows(1, 3)[0]
    program = staged(fun, x)
    plan, got = planned_twice(program, [x])
    assert not {"stack_0", "copyto", "concatenate"} & set(re.findall(r"\w+", plan.source))
    for a, b in zip(got, run(program, [x]), strict=True):
        numpy.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, y: np.stack([np.sin(x), np.cos(x), y]) * 2,
        lambda x, y: np.stack([np.sin(x), np.cos(x)]),
        lambda x, y: (lambda r: (np.stack([r, np.cos(x)]) * 2, r))(np.sin(x)),
        lambda x, y: (lambda r, s: np.stack([r, s]) * np.stack([s, r]))(np.sin(x), np.cos(y)),
        lambda x, y: (lambda r: np.stack([r, r]) * 2)(np.sin(x)),
        lambda x, y: (lambda s: (s[0] + 1, s.T * 2, s.reshape(-1)[1:]))(
            np.stack([np.sin(x), np.cos(x)]) * 2
        ),
        lambda x, y: (lambda s: (s, s[0] * 2))(np.stack([np.sin(x), np.cos(x)])),
        lambda x, y: np.concatenate([np.sin(x), y, np.cos(x), np.exp(y)]) * 2,
        lambda x, y: np.stack([np.stack([np.sin(x), np.cos(x)]), np.stack([x + y, x - y])]) * 3,
        lambda x, y: np.stack([x, y]) + 1,
        lambda x, y: (np.stack([x, y]), np.concatenate([x, y])),
        lambda x, y: (lambda r: np.stack([np.sin(r), np.sin(r + 1)]) + r)(np.exp(x)),
        lambda x, y: (lambda s: np.transpose(s * 2) + np.transpose(s[::-1]))(
            np.stack([np.sin(x), np.cos(x)])
        ),
    ],
)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (70, 70)])
def test_stacks_in_plans(fun, shape):
    values = rows(2, *shape)
    program = staged(fun, *values)
    for p in (program, optimized(program)):
        _, got = planned_twice(p, values)
        for a, b in zip(got, run(program, values), strict=True):
            numpy.testing.assert_array_equal(a, b)


UNARY = [np.sin, np.cos, np.tanh, np.negative]
BINARY = [np.add, np.multiply, np.subtract, np.maximum, np.add, np.multiply]


@settings(max_examples=sized(50, 200), deadline=None)
@given(st.data())
def test_random_programs(data):
    """Of small operations of all orders, with groups, chains and sums of two and more."""
    ops = st.tuples(st.integers(0, 11), st.integers(0, 30), st.integers(0, 30))
    steps = data.draw(st.lists(ops, min_size=4, max_size=50))
    returned = data.draw(st.lists(st.integers(1, 50), min_size=1, max_size=3))
    recent = data.draw(st.booleans())

    def fun(x, y, z):
        values = [x, y, z]
        for kind, i, j in steps:
            a = values[-1 - i % min(len(values), 4)] if recent else values[i % len(values)]
            b = values[j % len(values)]
            if kind < 4:
                values.append(UNARY[kind](a))
            elif kind < 10:
                values.append(np.tanh(a) * b if kind == 9 else BINARY[kind - 4](a, b))
            elif kind == 10:
                values.append(np.stack([a, b, z])[j % 3])
            else:
                values.append(np.concatenate([a, b])[1:5])
        return [values[-1 - k % len(values)] for k in returned]

    inputs = [numpy.array(x) / 4 for x in ([1.0, -2, 3, 0.5], [2.0, 1, -1, 3], [0.1, 0.2, 0.3, 4])]
    before = batch_elementwise_groups.FEWEST_GROUPED_EQUATIONS
    batch_elementwise_groups.FEWEST_GROUPED_EQUATIONS = data.draw(st.sampled_from([2, 3, 5]))
    try:
        program = staged(fun, *inputs)
        once, less = dead_code(stacked_groups(program)), optimized(program)
        made = [*program.inputs, *(x for e in program.equations for x in e.outputs)]
        everything = program.with_equations(program.equations, made)
    finally:
        batch_elementwise_groups.FEWEST_GROUPED_EQUATIONS = before
    with numpy.errstate(all="ignore"):
        wanted = run(program, inputs)
        # Sums in another order differ by roundings of their terms, whatever the sine of them is.
        size = max(map(largest, run(everything, inputs)))
        for other in (once, less):
            found = run(other, inputs)
            for got, right in zip(found, wanted, strict=True):
                right = numpy.asarray(right)
                if numpy.isfinite(right).all() and (abs(right) < 1e6).all():
                    close(got, right, 64, size)
            plan = PLANNED(other)
            for _ in range(2):
                for got, right in zip(plan(inputs), found, strict=True):
                    numpy.testing.assert_array_equal(got, right)


def test_a_user_that_many_members_have_is_asked_once(monkeypatch):
    asked, ask = [], batch_elementwise_groups.ProgramOrder._needs_none

    def noted(order, equation):
        asked.append(equation)
        return ask(order, equation)

    monkeypatch.setattr(batch_elementwise_groups.ProgramOrder, "_needs_none", noted)
    less_of(lambda x: np.stack([np.sin(x * (i + 1.0)) for i in range(50)]), numpy.ones(3))
    assert len(asked) < 10
