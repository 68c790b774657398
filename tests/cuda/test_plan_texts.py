"""The texts of plans on a GPU, and where their kernels read and write."""

import re
from itertools import chain

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gpu_functions import normal, step
from support.gpu_programs import fused, plan_of

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")


def training():
    """Returns the arguments of a step."""
    params = fnp.ones((24, 16), "f4"), fnp.ones(16, "f4"), fnp.ones((16, 10), "f4")
    return params, ft.optim.adam(1e-2).init(params), fnp.ones((8, 24), "f4"), np.arange(8)


def test_a_training_step_is_products_and_regions():
    args = training()
    program = fused(step, *args)
    plan = plan_of(program, range(len(ft.tree.leaves(args[:2]))))
    names = [e.primitive.name for e in program.equations if e.outputs[0].device != "cpu"]
    assert names.count("matmul") == 5
    # Bias and relu, its derivative with the sum of rows, the mean, an update of each parameter;
    # the plan has one launch for the updates.
    assert names.count("fused") == 6
    assert {*names} <= {
        *("matmul", "fused", "transpose", "cross_entropy", "cross_entropy_grad", "mean"),
    }
    # Parameters and both moments stay where they are.
    assert len(plan.text.taken) == 9
    assert plan.source.count("into=(into_") == 1
    assert plan.source.count("into_") == 2 * 9
    assert "moved_into" not in plan.source


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_no_array_of_the_host_stands_beside_what_is_on_the_gpu(dtype):
    program = fused(lambda x: fnp.tril(x) + fnp.triu(x, 1), np.ones((5, 5), dtype))
    assert {x.device for e in program.equations for x in e.operands} == {"cuda:0"}


def test_numbers_of_the_host_are_computed_apart():
    plan = plan_of(fused(step, *training()))
    numbers, queue = plan.source.split("def queue")
    assert "power" in numbers
    assert "power" not in queue.partition("return")[0]


def test_numbers_of_the_host_are_those_of_numpy():
    def f(x, count, scale):
        rate = scale * 0.9 ** (count + 1) / (1 - scale)
        return fnp.sin(x * rate) @ x @ x, rate, count + 1, scale

    plan = plan_of(fused(f, normal(4, 4), np.int64(3), np.float64(0.5)))
    assert plan.text.is_plain
    for count, scale in ((3, 0.5), (2**62, -1.0), (2**63 - 1, 2.0), (7, 1.0), (1, 1e300)):
        given = [None, np.int64(count), np.float64(scale)]
        with np.errstate(all="ignore"):
            wanted = [*chain(*plan._numbers(*given))]
        for found, number in zip(chain(*plan.numbers(given)), wanted, strict=True):
            np.testing.assert_allclose(found, number, 1e-15)
            assert np.asarray(found).dtype == np.asarray(number).dtype


def test_whole_numbers_of_32_bits_are_left_to_numpy():
    def f(x, count):
        return fnp.sin(x * (count + 1)) @ x @ x

    plan = plan_of(fused(f, normal(4, 4), np.int32(1)))
    assert not plan.text.is_plain
    assert plan.numbers([None, np.int32(2**31 - 1)])[0] == [-(2**31)]


def test_constant_results_are_none_of_the_queue():
    def f(x):
        return 1.5, fnp.sin(x @ x @ x) @ x, np.arange(3)

    plan = plan_of(fused(f, fnp.ones((4, 4), "f4")))
    assert plan.text.outputs == [False, True, False]
    needed, (number, array) = plan.numbers([None])
    assert needed == []
    assert number == 1.5
    assert list(array) == [0, 1, 2]


def test_what_decides_on_the_host_is_not_recorded():
    from functensor.backends.cuda.plan.graph_choice import can_be_graph

    def choice(x):
        y = fnp.sin(x @ x) @ fnp.cos(x) @ x
        return ft.cond(fnp.sum(y) > 0, lambda y: y * 2, lambda y: y - 1, y)

    x = fnp.ones((4, 4), "f4")
    assert can_be_graph(fused(step, *training()))
    assert not can_be_graph(fused(choice, x))
    # One launch needs no graph.
    assert not can_be_graph(fused(lambda x: fnp.sin(x) * 2, x))


def test_a_result_is_copied_to_donated_memory_that_is_still_read():
    def f(x, y):
        a = fnp.sin(x) * 2
        return a, (a @ y) @ (x @ y)

    x = fnp.ones((4, 4), "f4")
    plan = plan_of(fused(f, x, x), [0])
    assert plan.text.taken == {0: 0}
    assert "moved_into(" in plan.source


@pytest.fixture
def products_of_libraries(monkeypatch):
    """Leaves small products to libraries, too."""
    from functensor.backends.cuda.plan import small_products

    monkeypatch.setattr(small_products, "MOST_PRODUCTS_OF_ELEMENTS", 0)


def donated_plan(function, donated=(0,)):
    """Returns the plan of a function of two matrices."""
    x = fnp.ones((4, 4), "f4")
    return plan_of(fused(function, x, x), donated)


def test_memory_in_which_a_result_lies_is_not_taken():
    plan = donated_plan(lambda x, y: (fnp.sin(x) * 2, fnp.reshape(x, (2, 8)), (x @ y) @ y))
    assert plan.text.taken == {}


def test_memory_that_a_view_reads_is_not_written_before(products_of_libraries):
    # The region reads x as it is and transposed.
    plan = donated_plan(lambda x, y: (fnp.sin(x) * x.T, (x @ y) @ y))
    assert plan.text.taken == {0: 0}
    assert "into=" not in plan.source
    # A product reads a view of x behind the region.
    plan = donated_plan(lambda x, y: (fnp.sin(x @ y) * x, x.T @ y))
    assert "into=" not in plan.source
    assert "moved_into" in plan.source
    # Here it reads it before.
    plan = donated_plan(lambda x, y: fnp.sin(x.T @ y) * x)
    assert "into=(into_0,)" in plan.source


def early_view(x, y):
    """A view of an input is read behind the region that makes a result."""
    turned = x.T
    a = fnp.sin(x @ y) * 2
    return a, turned @ a


def overlapping(x, y):
    """A region reads an input through a view, in another order."""
    return fnp.sin(x[::-1] + y @ y) * 2


def passed_through(x, y):
    """A loop may return what it is given."""
    return fnp.sin(ft.scan(lambda c, v: (c, None), x, y)[0] + x.T) * 2


@pytest.mark.parametrize("function", [early_view, overlapping, passed_through])
def test_memory_that_is_read_through_views_is_not_written(function):
    x = fnp.ones((4, 4), "f4")
    plan = plan_of(fused(function, x, x), [0], apart=False)
    assert plan.text.taken == {0: 0}
    assert "into=" not in plan.source
    assert "moved_into(" in plan.source


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (y.T, x.T),
        lambda x, y: (x.T, fnp.sin(x) * 2, y),
        lambda x, y: (fnp.sin(x) * 2, x, y),
        lambda x, y: (fnp.sin(x) * 2, x.reshape(-1), y[0]),
    ],
)
def test_memory_in_which_results_lie_is_not_given_to_others(function):
    x = fnp.ones((4, 4), "f4")
    plan = plan_of(fused(function, x, x), [0, 1], apart=False)
    assert plan.text.taken == {}


def test_a_region_writes_over_what_only_it_reads(products_of_libraries):
    def f(x, y):
        return fnp.sin(x.T @ y), x * 2 - y

    x = fnp.ones((4, 4), "f4")
    plan = plan_of(fused(f, x, x), [0, 1], apart=False)
    assert plan.text.taken == {0: 0, 1: 1}
    assert plan.source.count("into=(into_1,)") == 1


def test_places_in_long_rows_have_64_bits():
    def f(x):
        return fnp.sin(x) - fnp.max(x, 1, keepdims=True)

    plan = plan_of(fused(f, ft.ShapeDtype((2, 5_000_000_001), "f4")), apart=False)
    products = re.findall(r".*(?:step|blockIdx\.x) \* .*", plan.source)
    assert len(products) == 3
    # A product of two numbers of 32 bits would be one of 32 bits.
    assert [x for x in products if re.search(r"(?<!\(long long\))(step|\.x) \* \d", x)] == []


@st.composite
def layouts(draw):
    """Draws lengths of axes, segments of them, and the strides of some."""
    lengths = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(lengths))))
    cut = draw(st.integers(0, len(lengths)))
    parts = [tuple(sorted(order[:cut])), tuple(sorted(order[cut:]))]
    axes = draw(st.sets(st.sampled_from(range(len(lengths)))))
    steps = {axis: draw(st.integers(0, 20)) for axis in axes}
    return lengths, parts, steps if draw(st.booleans()) else None, axes


@given(layouts())
def test_offsets_are_those_of_strides(layout):
    from functensor.backends.cuda.plan.points import Points, PointSegment, ordered_strides

    lengths, parts, strides, axes = layout
    strides = ordered_strides(axes, lengths) if strides is None else strides
    segments = [PointSegment(part, name) for part, name in zip(parts, "ab", strict=True)]
    points = Points(lengths, segments)
    offset = points.offset(strides).replace("/", "//")
    places = {axis: points.coordinate(axis).replace("/", "//") for axis in range(len(lengths))}
    counts = [int(np.prod([lengths[a] for a in part])) for part in parts]
    for a in range(counts[0]):
        for b in range(counts[1]):
            found = {axis: eval(text, {"a": a, "b": b}) for axis, text in places.items()}
            wanted = sum(found[axis] * step for axis, step in strides.items())
            assert eval(offset, {"a": a, "b": b}) == wanted


def test_a_loss_and_its_slope_read_the_logits_once():
    def losses(x, w, labels, weights):
        return fnp.mean(nn.softmax_cross_entropy(x @ w, labels) * weights)

    x, labels = fnp.ones((8, 4), "f4"), np.arange(8) % 4
    grads = ft.value_and_grad(losses, 1)
    source = plan_of(fused(grads, x, x[:4], labels, fnp.ones(8, "f4"))).source
    made = re.search(r"(\w+), exact_(\w+) = cross_entropy_ahead\((\w+), (\w+)\)", source)
    loss, exact, logits, labels = made.groups()
    assert loss == exact
    assert re.search(rf"cross_entropy_grad\({logits}, exact_{loss}, \w+, {labels}\)", source)
    # Without a derivative, and with another one's logits, nothing is written ahead.
    assert "ahead" not in plan_of(fused(losses, x, x[:4], np.arange(8) % 4, x[:, 0])).source


def test_a_slope_for_one_cotangent_is_written_with_the_loss():
    def losses(x, w, labels):
        return fnp.mean(nn.softmax_cross_entropy(x @ w, labels))

    x, labels = fnp.ones((8, 4), "f4"), np.arange(8) % 4
    source = plan_of(fused(ft.value_and_grad(losses, 1), x, x[:4], labels)).source
    assert re.search(r"\w+, \w+ = cross_entropy_with_grad\(\w+, \w+, 0\.125\)", source)
    assert "cross_entropy_grad" not in source


def test_maxima_of_windows_come_with_their_places():
    def loss(x, second):
        pooled = nn.max_pool(x, 2)
        return fnp.sum(fnp.sin(pooled)) + fnp.sum(nn.max_pool(x, second) ** 2)

    x = normal(2, 3, 8, 8)
    source = plan_of(fused(ft.grad(lambda x: loss(x, 2)), x)).source
    (winners,) = re.findall(r"\w+, (\w+) = max_pool_with_argmax\(a, ", source)
    assert re.search(rf"pool_scatter\(\w+, {winners}, ", source)
    assert "max_pool(" not in source
    assert "max_pool_argmax(" not in source
    # Other windows are others' maxima.
    source = plan_of(fused(ft.grad(lambda x: loss(x, 4)), x)).source
    assert len({*re.findall(r"(\w+, \w+) = max_pool_with_argmax\(a, ", source)}) == 2
    assert "max_pool_argmax" not in plan_of(fused(lambda x: nn.max_pool(x, 2) * 2, x)).source


class Elsewhere:
    """A constant on a GPU, which NumPy must not read."""

    dtype, shape, ndim, strides = np.dtype(ml_dtypes.bfloat16), (4, 4), 2, (0, 0)

    def __array__(self, *args, **kwargs):
        raise TypeError("a GPU's memory")


def test_constants_of_16_bits_stay_on_the_gpu():
    from functensor.backends.cpu.plan.native.elementwise_nodes import elementwise
    from functensor.backends.kernels.graph import ExprGraph
    from functensor.primitives.core.registry import registry
    from functensor.programs.program import Equation, Variable

    kind = Elsewhere.dtype
    x = Variable(ft.ShapeDtype((4, 4), kind), "cuda:0")
    graph = ExprGraph((4, 4))
    nodes = [graph.input(0, kind, [0, 1]), graph.input(1, kind, [])]
    for name in ("add", "multiply", "maximum"):
        equation = Equation(registry[name], [x, Elsewhere()], {}, [Variable(x.type, x.device)])
        made = elementwise(graph, equation, nodes)
        assert made.dtype == kind
        assert made.axes == {0, 1}


def test_of_a_constant_that_is_one_number_a_region_gets_one_element(monkeypatch):
    from functensor.backends.cuda.plan import plan_text

    monkeypatch.setattr(plan_text.cupy, "asarray", np.asarray)
    found = plan_text.brought(np.broadcast_to(np.float32(2.5), (300, 200)))
    assert found.tolist() == [[2.5]]
    rows = np.arange(6.0).reshape(2, 3)
    assert plan_text.brought(rows) is rows
