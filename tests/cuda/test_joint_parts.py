"""Small products with what is done to their elements, in one launch with small work beside them."""

import re

import numpy as np
import pytest
from support import nvrtc, one_thread
from support.gpu_functions import normal, step
from support.gpu_programs import fused, plan_of
from support.leaf_kernels import Launcher, buffer
from support.long_forms import only_long, with_slow

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")

needs_compiler = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")


def layer(x, w, b):
    return nn.relu(x @ w + b)


def slopes(g, w, h, x):
    """The cotangents of a layer: of what is before it, of its bias and of its weights."""
    before = fnp.where(h > 0, g @ w.T, 0)
    return before, fnp.sum(before, 0), x.T @ before, h.T @ g


def ready(x, w, y):
    return x @ w, x.T @ y, fnp.sum(x * 2, 0), fnp.mean(y * y)


def scaled(x, w, s):
    return (x @ w) * s + fnp.sin(s)


def many_functions(x, w):
    y, z = x @ w, x
    for _ in range(24):
        y, z = fnp.tanh(y) * 1.1, fnp.sin(z) + 0.1
    return y, z


# The function, its arguments and the numbers of parts of the launches.
CASES = {
    "layer": (layer, (normal(37, 24), normal(24, 10), normal(10)), [1]),
    "odd sizes": (layer, (normal(5, 7), normal(7, 3), normal(3)), [1]),
    "one row": (layer, (normal(1, 130), normal(130, 9), normal(9)), [1]),
    "slopes": (slopes, (normal(18, 10), normal(24, 10), normal(18, 24), normal(18, 12)), [2, 2]),
    "beside": (ready, (normal(17, 8), normal(8, 20), normal(17, 6)), [4]),
    "transposed": (lambda x, y: x.T @ y.T, (normal(9, 33), normal(20, 9)), [1]),
    "number": (scaled, (normal(16, 16), normal(16, 8), np.float32(1.5)), [1]),
    "called functions": (many_functions, (normal(9, 16), normal(16, 8)), [2]),
    "chain": (lambda x, w: nn.relu(x @ w) @ w, (normal(8, 8), normal(8, 8)), [1, 1]),
}


def runs_of(function, args, precision="highest"):
    """Returns the plan of a function, and its runs of products."""
    from functensor.backends.cuda.plan.joint_run import JointRun

    plan = plan_of(fused(function, *args), apart=False, precision=precision)
    return plan, [run for run in plan.text.runs if isinstance(run, JointRun)]


@pytest.mark.parametrize("name", CASES)
def test_products_are_joined_with_what_is_ready(name):
    function, args, counts = CASES[name]
    plan, runs = runs_of(function, args)
    assert [len(run._parts) for run in runs] == counts
    assert plan.text.runs == runs
    assert "matmul(" not in plan.source


@needs_compiler
@pytest.mark.parametrize("precision", ["highest", "tf32"])
@pytest.mark.parametrize("name", with_slow(CASES, CASES.keys() - {"odd sizes"}))
def test_parts_give_what_eager_mode_does(name, precision, monkeypatch):
    function, args, _ = CASES[name]
    plan, runs = runs_of(function, args, precision)
    launcher = Launcher(monkeypatch, runs)
    values = [buffer(x) if np.shape(x) else np.asarray(x) for x in args]
    found = plan.queue(*values)
    assert len(launcher.launched) == len(runs)
    # Factors of TF32 have 10 bits.
    close = {"rtol": 1e-5, "atol": 1e-5} if precision == "highest" else {"rtol": 0, "atol": 2e-2}
    wanted = ft.tree.leaves(function(*args))
    worst = 0.0
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), **close)
        worst = max(worst, float(np.max(np.abs(np.asarray(x) - np.asarray(y)))))
    assert (worst > 1e-5) == (precision == "tf32")


@needs_compiler
@only_long
@pytest.mark.long
@pytest.mark.parametrize("precision", ["highest", "tf32"])
def test_infinity_and_nan_stay_where_they_belong(precision, monkeypatch):
    x, w = np.ones((4, 6), "f4"), np.ones((6, 3), "f4")
    x[0, 1], x[1, 2], x[2, 3], w[0, 2] = np.inf, np.nan, 3.4028e38, -2
    plan, runs = runs_of(lambda x, w: x @ w, (x, w), precision)
    Launcher(monkeypatch, runs)
    (found,) = plan.queue(buffer(x), buffer(w))
    with np.errstate(invalid="ignore"):
        wanted = x @ w
    if precision == "highest":
        np.testing.assert_allclose(np.asarray(found), wanted, 1e-6)
    else:
        assert (np.isnan(found) == np.isnan(wanted)).all()
        assert np.isposinf(found[0]).all()


def test_a_training_step_of_a_small_network_is_few_launches():
    params = fnp.ones((24, 16), "f4"), fnp.ones(16, "f4"), fnp.ones((16, 10), "f4")
    args = params, ft.optim.adam(1e-2).init(params), fnp.ones((8, 24), "f4"), np.arange(8)
    plan = plan_of(fused(step, *args), range(len(ft.tree.leaves(args[:2]))))
    queue, *_ = plan.source.partition("def queue")[2].split("\n\n")
    queued = re.findall(r"= (\w+?)(?:_\d+)?\(", queue)
    launches = ["region", "region", "cross_entropy_with_grad", "region", "region", "region"]
    assert queued == launches


def test_what_is_large_is_left_to_libraries():
    x, w = fnp.ones((512, 512), "f4"), fnp.ones((512, 512), "f4")
    assert not runs_of(layer, (x, w, fnp.ones(512, "f4")))[1]
    # Of many sums a block would make each alone.
    assert not runs_of(layer, (fnp.ones((2, 4096), "f4"), fnp.ones((4096, 2), "f4"), w[0, :2]))[1]
    # Double precision and stacks have no such products.
    assert not runs_of(layer, (normal(4, 4).astype("f8"), normal(4, 4).astype("f8"), 1.0))[1]
    assert not runs_of(lambda x, w: fnp.sin(x @ w), (fnp.ones((3, 4, 4), "f4"),) * 2)[1]


def test_a_product_that_others_read_is_stored():
    def both(x, w):
        y = x @ w
        return fnp.sin(y) * 2, y

    plan, runs = runs_of(both, (normal(8, 8), normal(8, 8)))
    assert [len(run._parts) for run in runs] == [1]
    assert len(plan.text.runs) == 2


def test_a_region_that_needs_the_product_elsewhere_is_behind_it():
    def rows(x, w):
        return nn.softmax(x @ w)

    def turned(x, w):
        y = x @ w
        return fnp.sin(y) + y.T

    for function in (rows, turned):
        plan, runs = runs_of(function, (normal(8, 8), normal(8, 8)))
        assert [len(run._parts) for run in runs] == [1]
        assert len(plan.text.runs) == 2 or "matmul" not in plan.source


def test_results_take_donated_memory_that_no_factor_lies_in():
    def descent(w, x, g):
        return w - 0.1 * (x.T @ g)

    def power(w, x, g):
        return w @ w + g, x

    args = normal(8, 8), normal(8, 8), normal(8, 8)
    assert "into=(into_0,)" in plan_of(fused(descent, *args), [0], apart=False).source
    source = plan_of(fused(power, *args), [0], apart=False).source
    assert "into=" not in source
    assert "moved_into(" in source


@nvrtc.on_every_architecture
def test_texts_compile(architecture):
    from functensor.backends.cuda.plan.region_run import REGION_OPTIONS, whole_text

    texts = []
    for function, args, _ in CASES.values():
        for precision in ("highest", "tf32"):
            texts += [run.text for run in runs_of(function, args, precision)[1]]
    named = [re.sub(r"\bregion_", f"case_{i}_", text) for i, text in enumerate(texts)]
    made = nvrtc.compiled(whole_text("\n".join(named)), architecture, REGION_OPTIONS)
    assert made.cubin, made.log
