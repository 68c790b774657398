"""Machine code of arguments that lie in memory in another order than C's."""

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native.segment_run import SegmentRun
from functensor.backends.native.background import BackgroundJob
from functensor.jitting.input_orders import OrderedPlan, ReadSteps, axes_in_order, input_orders
from functensor.testing import assert_allclose

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

RNG = np.random.default_rng(0)
W, TABLE, CUBE = RNG.normal(size=6), RNG.normal(size=(40, 6)), RNG.normal(size=(4, 5, 6))


def loss(w, x):
    z = x @ w
    return fnp.mean(fnp.logaddexp(0.0, z) - z * x[:, 0])


FUNCTIONS = {
    "a regression": (lambda x: ft.value_and_grad(loss)(W, x), np.asfortranarray(TABLE)),
    "elements": (lambda x: fnp.tanh(x) * 2, TABLE.T),
    "rows": (lambda x: fnp.exp(x) / fnp.sum(fnp.exp(x), 1, keepdims=True), TABLE.T),
    "columns": (lambda x: (x - x.mean(0)) / x.std(0), np.asfortranarray(TABLE)),
    "a gradient": (ft.grad(lambda x: fnp.sum(fnp.sin(x) ** 2)), TABLE.T),
    "channels last": (lambda x: fnp.sum(x * x[:1], (0, 2)), CUBE.transpose(0, 2, 1)),
    "a product": (lambda x: fnp.tanh(x @ TABLE[:6]), np.asfortranarray(TABLE)),
}
SLICES = {
    "rows": TABLE[::2],
    "columns": TABLE[:, 1:],
    "steps": TABLE[:, ::3],
    "both": TABLE[3:-3:4, 1::2],
    "turned": TABLE[::3, :4].T,
    "single precision": TABLE.astype(np.float32)[::2, 1:],
    "half precision": TABLE.astype(np.float16)[::2, 1:],
    "one axis": TABLE[0, ::2],
    "three axes": CUBE[1:, ::2, 1:],
    "a single row": TABLE[3:4, ::2],
}
CALLS = {
    "elements": lambda x: fnp.tanh(x) * 2 + x,
    "rows": lambda x: fnp.exp(x) / fnp.sum(fnp.exp(x), -1, keepdims=True),
    "columns": lambda x: (x - x.mean(0)) / (x.std(0) + 1),
    "a gradient": ft.grad(lambda x: fnp.sum(fnp.sin(x) ** 2)),
    "a product": lambda x: fnp.tanh(x @ fnp.ones((x.shape[-1], 3), x.dtype)),
    "parts": lambda x: (x[1:] * 2, x[..., ::2] * 3, x.reshape(-1) + 1, x.T * 3),
    "elements by indices": lambda x: x[fnp.arange(x.shape[0])[::-1]] * 2,
    "a loop": lambda x: ft.scan(lambda s, row: (s + row, s * row), x[0], x),
}


@pytest.fixture
def nothing_again(monkeypatch):
    """Lets no array be brought in order in a call."""

    def refused(segment, *arrays):
        raise AssertionError("an array is brought in order")

    monkeypatch.setattr(SegmentRun, "again", refused)


@pytest.mark.usefixtures("nothing_again")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_are_read_where_they_lie(name):
    function, x = FUNCTIONS[name]
    assert not x.flags.c_contiguous
    assert_allclose(ft.jit(function).compile(x)(x), function(fnp.asarray(x)), rtol=1e-12)


@pytest.mark.usefixtures("nothing_again")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", SLICES)
def test_slices_are_read_where_they_lie(name, call):
    x, function = SLICES[name], CALLS[call]
    with ft.config.using(check_programs=True):
        jitted = ft.jit(function).compile(x)
    if "as machine code" in jitted.explain():
        assert isinstance(jitted._last.compiled.run, OrderedPlan)
    rtol = 1e-12 if x.dtype == np.float64 else 1e-5 if x.dtype == np.float32 else 2e-2
    wanted = function(fnp.asarray(np.array(x, order="C")))
    assert_allclose(jitted(x), wanted, rtol=rtol)
    # Elements of the same strides elsewhere.
    strides = ReadSteps(stride // x.itemsize for stride in x.strides)
    later = strides.laid(np.linspace(1, 2, x.size, dtype=x.dtype).reshape(x.shape))
    wanted_later = function(fnp.asarray(np.array(later, order="C")))
    assert_allclose(jitted(later), wanted_later, rtol=rtol)
    assert_allclose(jitted(np.array(x, order="C")), wanted, rtol=rtol)


def test_arguments_that_lie_otherwise_later_get_a_plan_of_their_own():
    x = TABLE[::2]
    jitted = ft.jit(lambda x, y: fnp.tanh(x) * 2 + y).compile(x, x)
    wanted = np.tanh(x) * 2 + x
    plan = jitted._last.compiled.run
    assert plan._for_others is None
    for y in (x.copy(), x, x[::-1].copy()[::-1]):
        assert_allclose(jitted(y, y), wanted, rtol=1e-12)
    assert plan._job.wait(60)
    assert plan._job.error is None
    for y in (x.copy(), x, x[::-1].copy()[::-1], np.asfortranarray(x)):
        assert_allclose(jitted(y, x), wanted, rtol=1e-12)
        assert_allclose(jitted(x, y), wanted, rtol=1e-12)


def test_a_plan_for_others_that_was_dropped_is_made_once_more():
    x = TABLE[::2]
    jitted = ft.jit(lambda x: fnp.tanh(x) * 2).compile(x)
    plan = jitted._last.compiled.run
    # As in the child of a process that forked while the plan was to be made.
    plan._job = BackgroundJob(plan._make_for_others)
    plan._job.drop()
    assert_allclose(jitted(x.copy()), np.tanh(x) * 2, rtol=1e-12)
    assert plan._job.wait(60)
    assert plan._for_others is not None


def test_other_arguments_of_the_same_call_are_brought_in_order():
    x, y = TABLE[::2], np.ones((20, 6))
    jitted = ft.jit(lambda x, y: fnp.exp(x) @ y.T + y.sum()).compile(x, y)
    wanted = np.exp(x) @ y.T + y.sum()
    for other in (y, np.asfortranarray(y), np.ones((20, 12))[:, ::2]):
        assert_allclose(jitted(x, other), wanted, rtol=1e-12)


@pytest.mark.usefixtures("nothing_again")
def test_the_calls_before_machine_code_tell_how_arguments_lie(monkeypatch):
    monkeypatch.setattr("functensor.jitting.tiers.SECONDS_BEFORE_COMPILING", np.inf)
    x = np.asfortranarray(TABLE)
    jitted = ft.jit(lambda x: fnp.tanh(x) + 1)
    jitted(x)
    jitted._last.compiled.tiers.finish()
    assert isinstance(jitted._last.compiled.run, OrderedPlan)
    assert_allclose(jitted(x), np.tanh(TABLE) + 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_later_arguments_may_lie_in_any_order(name):
    function, x = FUNCTIONS[name]
    wanted = function(fnp.asarray(np.array(x, order="C")))
    spread = np.repeat(x, 2, axis=0)[::2]
    assert axes_in_order(spread) is None
    for first in (x, np.array(x, order="C"), spread):
        jitted = ft.jit(function).compile(first)
        for later in (np.array(x, order="C"), spread, np.array(x, order="F"), x[::-1].copy()[::-1]):
            assert_allclose(jitted(later), wanted, rtol=1e-12)


def test_what_is_given_away_stays_as_it_is():
    x = fnp.asarray(np.asfortranarray(TABLE))
    jitted = ft.jit(lambda x: (x * 2, fnp.sum(x)), donate_argnums=0).compile(x)
    assert not isinstance(jitted._last.compiled.run, OrderedPlan)
    assert_allclose(jitted(x), (TABLE * 2, TABLE.sum()), rtol=1e-12)


def test_what_is_returned_is_the_argument():
    x = fnp.asarray(np.asfortranarray(TABLE))
    jitted = ft.jit(lambda x: (x, fnp.tanh(x))).compile(x)
    same, other = jitted(x)
    assert same is x
    assert_allclose(other, np.tanh(TABLE))


def test_it_tells_of_what_is_not_finite():
    x = np.asfortranarray(TABLE)
    jitted = ft.jit(lambda x: fnp.log(x * x) + fnp.tanh(x)).compile(x)
    assert isinstance(jitted._last.compiled.run, OrderedPlan)
    with ft.hooks.check_finite():
        jitted(x)
        wrong = x.copy(order="F")
        wrong[3, 2] = 0
        with pytest.raises(FloatingPointError, match="log"):
            jitted(wrong)


def test_tensors_tell_how_they_lie_and_traced_values_need_not():
    def doubled(x):
        return fnp.tanh(x) * 2

    tensor = ft.Tensor(np.asfortranarray(TABLE), requires_grad=True)
    jitted = ft.jit(doubled).compile(tensor)
    assert isinstance(jitted._last.compiled.run, OrderedPlan)
    jitted(tensor).sum().backward()
    slope = 2 - 2 * np.tanh(TABLE) ** 2
    assert_allclose(tensor.grad, slope, rtol=1e-5)
    for within in (ft.jit, ft.vmap, lambda f: ft.grad(lambda x: fnp.sum(f(x)))):
        jitted = ft.jit(doubled)
        out = within(lambda x, f=jitted: f.compile(x)(x))(TABLE)
        assert_allclose(out, within(doubled)(TABLE), rtol=1e-12)


def test_types_in_the_place_of_arguments_lie_in_order():
    jitted = ft.jit(lambda x: fnp.tanh(x) * 2).compile(ft.ShapeDtype((40, 6), "float64"))
    assert_allclose(jitted(np.asfortranarray(TABLE)), np.tanh(TABLE) * 2)
    assert not isinstance(jitted._last.compiled.run, OrderedPlan)


def test_orders():
    swapped = TABLE.T.astype(TABLE.dtype.newbyteorder())
    odd = np.frombuffer(b"\0" * 81, np.uint8)[1:].view(np.float64).reshape(5, 2).T
    given = [CUBE, CUBE.transpose(2, 0, 1), CUBE[:, ::-1], 2.0, odd, np.zeros((0, 3)).T, TABLE.T]
    assert input_orders(given, {6}) == (None, (1, 2, 0), None, None, None, None, None)
    assert axes_in_order(swapped) == (1, 0)


def test_strides():
    table = TABLE.astype(np.float32)
    spread = np.broadcast_to(table[0], (4, 6))
    windows = np.lib.stride_tricks.sliding_window_view(table[0], 3)
    names = np.zeros(5, [("a", "i1"), ("b", "f4")])["b"]
    given = [table[::2], table[:, 1:], table[:, 1:].T, table[:, 0], table[::-1], spread, windows]
    given += [names, table[:, 1:].astype(">f4")[:, ::2], table[:, 1:2], table[:0, ::2]]
    given += [table[:, ::2].astype(np.int32)[:, ::2], table.astype(complex)[::2]]
    found = ((12, 1), (6, 1), (1, 6), None, None, None, None, None, None, None, None, None, None)
    assert input_orders(given, ()) == found
    assert all(type(x) in (ReadSteps, type(None)) for x in input_orders(given, ()))
