"""Large primitives outside of plans: machine code computes what NumPy does, and nobody waits."""

import os
import threading
import warnings

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.cpu import eager_code, eager_ways
from functensor.backends.cpu.plan.codegen.called import unwrapped
from functensor.backends.native import machine
from functensor.primitives.core.registry import registry

needs_code = pytest.mark.skipif(not machine.compiles_here(), reason=machine.why_not())
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, 90.0, -90.0]


@pytest.fixture(autouse=True)
def small_and_soon(monkeypatch):
    """Makes plans of small operands from the second call on."""
    monkeypatch.setattr(eager_code, "kinds", {})
    # Inference of dtypes computes primitives of one element.
    monkeypatch.setattr(eager_ways.PLANS, "fewest", 2)
    monkeypatch.setattr(eager_code, "SECONDS_OVER_NUMPY", 0.0)
    monkeypatch.setattr(eager_code, "CALLS_OVER_NUMPY", 1)
    with ft.config.using(benchmark=True):
        yield


def drawn(shape, dtype="f", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def labels(count, classes):
    return np.arange(count) * 7 % classes


NORMAL = {"eps": 1e-5, "center": True}
SHAPES = {
    "affine_normalize": [((3, 5, 40), (40,), (40,)), ((70, 33), (33,))],
    "affine_normalize_grad": [((3, 5, 40), (3, 5, 40), (40,))],
    "attention": [((2, 3, 17, 8), (2, 3, 17, 8), (2, 3, 17, 8)), ((2, 5, 8), (2, 9, 8), (2, 9, 4))],
    "attention_grad": [
        ((2, 3, 17, 8),) * 5,
        ((2, 5, 4), (2, 5, 4), (2, 5, 8), (2, 9, 8), (2, 9, 4)),
    ],
    "cross_entropy": [((37, 21), labels(37, 21)), ((3, 4, 10), labels(12, 10).reshape(3, 4))],
    "cross_entropy_grad": [((37, 21), (37,), (37,), labels(37, 21))],
    "gelu_grad": [((31, 67),) * 2],
    "logistic_loss": [((31, 67),) * 2],
    "normalize_grad": [((9, 40),) * 2],
    "sigmoid_biased": [((31, 67), (67,))],
    "sigmoid_grad": [((31, 67),) * 2],
    "silu_grad": [((31, 67),) * 2],
    "softmax_grad": [((5, 6, 40),) * 2],
    "softplus_biased": [((31, 67), (67,))],
    "softplus_grad": [((31, 67),) * 2],
    "tanh_biased": [((31, 67), (67,))],
    "tanh_grad": [((31, 67),) * 2],
}
PARAMS = {
    "affine_normalize": [NORMAL, {"eps": 0.1, "center": False}],
    "affine_normalize_grad": [{**NORMAL, "bias": True}, {**NORMAL, "bias": False}],
    "attention": [{"causal": False, "scale": 0.3, "learned": False}],
    "attention_grad": [{"causal": False, "scale": 0.3}],
    "gelu": [{"approximate": True}, {"approximate": False}],
    "gelu_grad": [{"approximate": True}, {"approximate": False}],
    "gelu_unit_grad": [{"approximate": True}, {"approximate": False}],
    "log_softmax": [{"axis": (1,)}, {"axis": (0, 1)}],
    "normalize": [NORMAL],
    "normalize_grad": [NORMAL, {"eps": 0.1, "center": False}],
    "softmax": [{"axis": (1,)}, {"axis": (0,)}],
    "softmax_grad": [{"axis": (2,)}, {"axis": (0, 1)}],
    "var": [
        {"axis": (1,), "keepdims": True, "ddof": 0},
        {"axis": (0,), "keepdims": False, "ddof": 1},
    ],
}
CASES = [
    (name, shapes, params, dtype)
    for name in sorted(eager_ways.PLANNED)
    for shapes in SHAPES.get(name, [((31, 67),), ((4099, 3),)])
    for params in PARAMS.get(name, [{}])
    for dtype in "fd"
]
SEEN = np.tri(5, 9, 4, dtype=bool)
CASES += [
    ("attention", ((3, 5, 8), (3, 9, 8), (3, 9, 8), SEEN), PARAMS["attention"][0], "f"),
    ("attention", ((3, 5, 8), (3, 9, 8), (3, 9, 8), (5, 9)), PARAMS["attention"][0], "d"),
    ("attention_grad", (*[(3, 9, 8)] * 5, (9, 9)), PARAMS["attention_grad"][0], "f"),
]
# Square scores: only there a query sees the keys before it.
CASES += [
    ("attention", ((2, 3, 17, 8),) * 3, {"causal": True, "scale": 0.3, "learned": False}, "f"),
    ("attention_grad", ((2, 3, 17, 8),) * 5, {"causal": True, "scale": 0.3}, "f"),
]


def operands_of(shapes, dtype):
    return [
        x if isinstance(x, np.ndarray) else drawn(x, dtype, seed) for seed, x in enumerate(shapes)
    ]


def kernel_of(name):
    return unwrapped(registry[name].impl)


def kind_of(name, operands, params):
    """Returns the kind of operands with its plan made; None where it stays with NumPy."""
    kind = eager_code.Kind(name, operands, params)
    kind(kernel_of(name), operands, params)
    assert kind.job.wait(120)
    assert kind.job.error is None, kind.job.error
    return None if kind.code is None else kind


def assert_rounded(found, wanted):
    """Checks results that may differ by rounding in sums of some dozens of terms."""
    assert (found.shape, found.dtype, type(found)) == (wanted.shape, wanted.dtype, type(wanted))
    finite = np.abs(wanted[np.isfinite(wanted)])
    units = 64 * np.finfo(wanted.dtype).eps
    np.testing.assert_allclose(found, wanted, units, units * finite.max(initial=0.0))


@needs_code
@pytest.mark.parametrize(("name", "shapes", "params", "dtype"), CASES)
def test_plans_compute_what_kernels_do(name, shapes, params, dtype):
    operands = operands_of(shapes, dtype)
    kind = kind_of(name, operands, params)
    if kind is None:
        pytest.skip("NumPy computes it")
    wanted = kernel_of(name)(*operands, **params)
    assert_rounded(kind.code(operands), wanted)
    assert kind.code(operands) is not kind.code(operands)


@needs_code
def test_which_primitives_have_machine_code():
    found: set[str] = set()
    for name, shapes, params, dtype in CASES:
        if name not in found and kind_of(name, operands_of(shapes, dtype), params):
            found.add(name)
    assert found == eager_ways.PLANNED


@needs_code
@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize(
    ("name", "params"),
    [
        *[(name, params) for name in ("gelu", "gelu_unit_grad") for params in PARAMS[name]],
        *[(name, {"axis": (1,)}) for name in ("log_softmax", "softmax")],
        *[(name, {}) for name in ("logistic", "silu", "softplus")],
    ],
)
def test_infinities_nan_and_signs_of_zeros(name, params, dtype):
    x = np.resize(drawn((31,), dtype), (40, 31))
    with np.errstate(over="ignore", under="ignore"):
        x[np.arange(len(EDGES)), labels(len(EDGES), 31)] = np.array(EDGES).astype(dtype)
    x[20], x[21, :2] = -np.inf, np.inf
    wanted = kernel_of(name)(x, **params)
    found = kind_of(name, [x], params).code([x])
    assert_rounded(found, wanted)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))


def called(name, *operands, **params):
    """Calls a primitive as eager mode does until it is decided what computes it."""
    out = [registry[name].impl(*operands, **params)]
    (kind,) = eager_code.kinds.values()
    if kind.job is not None:
        assert kind.job.wait(120)
        assert kind.job.error is None
    while not kind.settled:
        out.append(registry[name].impl(*operands, **params))
    return kind, [*out, registry[name].impl(*operands, **params)]


@needs_code
def test_nobody_waits_and_both_ways_take_turns(monkeypatch):
    x = drawn((64, 64))
    taken = []
    kernel = kernel_of("softmax")

    def noted(x, axis):
        taken.append("numpy")
        return kernel(x, axis=axis)

    run = eager_code.by_machine_code("softmax", noted)
    run(x, axis=(1,))
    (kind,) = eager_code.kinds.values()
    assert kind.job.wait(120)
    plan = kind.code
    kind.code = lambda operands: (taken.append("code"), plan(operands))[1]
    for _ in range(2 * eager_code.CALLS_OF_EACH_WAY):
        assert not kind.settled
        assert_rounded(run(x, axis=(1,)), kernel(x, axis=(1,)))
    assert kind.settled
    most = eager_code.CALLS_OF_EACH_WAY
    assert taken == ["numpy", *["code", "numpy"] * most]


@pytest.mark.parametrize("quicker", ["numpy", "code"])
def test_the_quicker_way_stays(quicker, monkeypatch):
    kind = eager_code.Kind("softmax", [drawn((4, 4))], {"axis": (1,)})
    plan = kind.code = lambda operands: "code"
    clock = iter(
        t
        for i in range(eager_code.CALLS_OF_EACH_WAY)
        for t in (0.0, 1.0 + (quicker == "numpy"), 0.0, 1.0 + (quicker == "code"))
    )
    monkeypatch.setattr(eager_code, "perf_counter", lambda: next(clock))
    outs = [kind(lambda x, axis: "numpy", [None], {"axis": 1}) for _ in range(16)]
    assert outs == ["code", "numpy"] * 8
    monkeypatch.undo()
    assert kind.settled
    assert kind.code is (plan if quicker == "code" else None)
    assert kind(lambda x, axis: "numpy", [None], {"axis": 1}) == quicker


@pytest.mark.parametrize("settled", [False, True])
def test_numpy_computes_what_machine_code_leaves_to_it(settled):
    kind = eager_code.Kind("softmax", [drawn((4, 4))], {"axis": (1,)})
    kind.code, kind.settled = lambda operands: None, settled
    assert kind(lambda x, axis: "numpy", [None], {"axis": 1}) == "numpy"


@needs_code
@pytest.mark.parametrize("name", ["affine_normalize_grad", "attention_grad", "gelu", "softmax"])
def test_operands_that_lie_otherwise(name):
    shapes = SHAPES.get(name, [((40, 31),)])[0]
    params = PARAMS[name][0]
    turned = [np.ascontiguousarray(x.T).T for x in operands_of(shapes, "f")]
    apart = [np.repeat(x, 2, -1)[..., ::2] for x in turned]
    moved = []
    for x in turned:
        memory = np.zeros(x.nbytes + 1, np.uint8)[1:].view("f").reshape(x.shape)
        memory[...] = x
        moved.append(memory)
    other = [x.astype(">f4") for x in turned]
    wanted = kernel_of(name)(*turned, **params)
    for operands, taken in ((turned, True), (apart, True), (moved, False), (other, False)):
        kinds = len(eager_code.kinds)
        for _ in range(3):
            found = registry[name].impl(*operands, **params)
            assert_rounded(found.astype("f"), wanted.astype("f"))
            for kind in eager_code.kinds.values():
                assert kind.job is None or kind.job.wait(120)
        assert taken or len(eager_code.kinds) == kinds


@pytest.mark.parametrize("value", [2.0, np.float32(2), np.float64(2), np.zeros((0, 4), "f")])
def test_numbers_and_empty_arrays_are_numpys(value):
    for _ in range(3):
        registry["gelu"].impl(value, approximate=True)
    assert not eager_code.kinds


def test_small_operands_are_numpys(monkeypatch):
    monkeypatch.setattr(eager_ways.PLANS, "fewest", 1 << 15)
    x = drawn((1 << 15) - 1)
    registry["gelu"].impl(x, approximate=True)
    assert not eager_code.kinds
    registry["gelu"].impl(np.append(x, np.float32(0)), approximate=True)
    assert len(eager_code.kinds) == 1


def test_operands_of_several_dtypes_are_numpys():
    x, g = drawn((9, 40)), drawn((9, 40), "d")
    wanted = kernel_of("normalize_grad")(g, x, **NORMAL)
    np.testing.assert_array_equal(registry["normalize_grad"].impl(g, x, **NORMAL), wanted)
    half = x.astype("e")
    registry["softmax"].impl(half, axis=(1,))
    assert not eager_code.kinds


def test_a_deterministic_process_keeps_to_numpy():
    x = drawn((64, 64))
    with ft.config.using(deterministic=True):
        registry["softmax"].impl(x, axis=(1,))
    assert not eager_code.kinds


@needs_code
def test_all_but_pools_keep_to_numpy_unless_they_may_be_timed():
    x, images = fnp.asarray(drawn((64, 64))), np.ones((4, 32, 32, 16), "f")
    channels_last = fnp.moveaxis(fnp.asarray(images), -1, 1)
    with ft.config.using(benchmark=False):
        for _ in range(3):
            ft.grad(lambda x: fnp.sum(nn.softmax(nn.gelu(x)) * x))(x)
            nn.max_pool(channels_last, 2)
    assert {kind.name for kind in eager_code.kinds.values()} == {"max_pool"}
    assert eager_ways.EAGER_WAYS["max_pool"].exact


def test_errors_of_overflow_are_numpys():
    g, ans = np.full((4, 8), 1e30, "f"), np.full((4, 8), 1e30, "f")
    for _ in range(3):
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            registry["softmax_grad"].impl(g, ans, axis=(1,))
    assert not eager_code.kinds


@needs_code
def test_a_wrong_label_raises_the_kernels_error():
    x, rows = drawn((30, 9)), labels(30, 9)
    kind, _ = called("cross_entropy", x, rows)
    kind.code = kind.code or kind_of("cross_entropy", [x, rows], {}).plan
    with pytest.raises(IndexError, match="label 9 is none of the 9 classes"):
        registry["cross_entropy"].impl(x, np.full(30, 9))
    kernel = kernel_of("cross_entropy")
    assert_rounded(registry["cross_entropy"].impl(x, rows), kernel(x, rows))


def test_without_machine_code_numpy_goes_on(monkeypatch):
    monkeypatch.setattr(machine, "why_not", lambda: "none")
    x = drawn((64, 64))
    kind, outs = called("softmax", x, axis=(1,))
    assert kind.job is None
    for out in outs:
        np.testing.assert_array_equal(out, kernel_of("softmax")(x, axis=(1,)))


def test_a_plan_that_cannot_be_made_leaves_the_kind_to_numpy(monkeypatch):
    def fails(*told):
        raise RuntimeError("no plan")

    monkeypatch.setattr(machine, "why_not", lambda: "")
    monkeypatch.setattr(eager_ways, "PLAN_MAKERS", [lambda: fails])
    monkeypatch.setattr(machine, "in_step", lambda step: step())
    x = drawn((64, 64))
    registry["softmax"].impl(x, axis=(1,))
    (kind,) = eager_code.kinds.values()
    assert kind.job.wait(120)
    assert kind.settled
    assert kind.code is None
    np.testing.assert_array_equal(
        registry["softmax"].impl(x, axis=(1,)), kernel_of("softmax")(x, axis=(1,))
    )


def test_the_table_of_kinds_is_bounded(monkeypatch):
    monkeypatch.setattr(eager_code, "MOST_KNOWN_KINDS", 3)
    monkeypatch.setattr(eager_code, "CALLS_OVER_NUMPY", 100)
    for n in range(2, 9):
        registry["gelu"].impl(drawn((n,)), approximate=True)
        assert len(eager_code.kinds) <= 3


def test_parameters_tell_kinds_apart():
    x = drawn((4, 8))
    for params in ({"eps": 0.0, "center": True}, {"eps": 0.0, "center": False}, NORMAL):
        registry["normalize"].impl(x, **params)
    assert len(eager_code.kinds) == 3


@needs_code
def test_several_threads_call_one_kind():
    x = drawn((64, 64))
    kernel = kernel_of("softmax")
    called("softmax", x, axis=(1,))
    wrong = []

    def work(seed):
        own = drawn((64, 64), seed=seed)
        for _ in range(50):
            found = registry["softmax"].impl(own, axis=(1,))
            if not np.allclose(found, kernel(own, axis=(1,)), 1e-5, 1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_code
def test_a_plan_that_calls_the_primitive_itself_ends():
    x = drawn((64, 64))
    kind, _ = called("softmax", x, axis=(1,))
    kind.code = lambda operands: registry["softmax"].impl(*operands, axis=(1,))
    np.testing.assert_array_equal(
        registry["softmax"].impl(x, axis=(1,)), kernel_of("softmax")(x, axis=(1,))
    )


@needs_code
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_makes_what_its_parent_had_not(monkeypatch):
    x = drawn((64, 64))
    registry["softmax"].impl(x, axis=(1,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        good = 1
        try:
            _, outs = called("softmax", x, axis=(1,))
            good = not np.allclose(outs[-1], kernel_of("softmax")(x, axis=(1,)), 1e-5, 1e-6)
        finally:
            os._exit(int(good))
    assert os.waitpid(child, 0)[1] == 0


def network(x, w):
    hidden = ft.nn.gelu(x @ w, approximate=True)
    hidden = ft.nn.softmax(hidden, axis=-1) + ft.nn.silu(hidden)
    scaled = (hidden - fnp.mean(hidden, -1, keepdims=True)) / fnp.sqrt(
        fnp.var(hidden, axis=-1, keepdims=True) + 0.1
    )
    return fnp.sum(fnp.square(scaled) * hidden)


@needs_code
def test_derivatives_of_order_two_are_those_over_numpy():
    x, w = drawn((12, 9), "d"), drawn((9, 14), "d", 1)

    def second(w):
        return ft.hvp(lambda w: network(x, w), (w,), (w,))

    with ft.config.using(deterministic=True):
        wanted = [np.asarray(v) for v in ft.tree.leaves(second(w))]
    second(w)
    for kind in list(eager_code.kinds.values()):
        assert kind.job.wait(120)
        if kind.code is not None:
            kind.settled = True
    planned = {kind for kind in eager_code.kinds.values() if kind.code is not None}
    assert len(planned) >= 5
    for found, value in zip(ft.tree.leaves(second(w)), wanted, strict=True):
        np.testing.assert_allclose(found, value, 1e-12, 1e-12 * np.abs(value).max())
