"""`check_finite` runs the machine code of other calls, where the processor tells of all of it."""

import gc
import signal
from contextlib import suppress
from itertools import count

import numpy
import pytest
from support.interrupts import ran_with_error
from support.kept_plans import bits, compiled, counted, plan_of
from support.native import missing

import functensor as ft
import functensor.numpy as np
from functensor import nn
from functensor.backends.cpu.plan.plan import CpuPlan
from functensor.backends.cpu.plan.threads.pool import threads
from functensor.backends.processor import IS_X86_64
from functensor.jitting import tiers
from functensor.jitting.compile import Compiled
from functensor.jitting.reported_run import MOST_FALSE_ALARMS

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(not IS_X86_64, reason="only x86-64 is asked"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

RNG = numpy.random.default_rng(3)
X, Y = RNG.uniform(0.5, 1.5, (2, 256, 1024)).astype("f")
W, BIAS = RNG.uniform(-0.1, 0.1, (1024, 300)).astype("f"), numpy.full(300, 0.1, "f")
LABELS = RNG.integers(0, 300, 256)
LARGE = numpy.float32(3.4e38)
STEEP = W * 40


def network(params, x):
    w, bias = params
    hidden = nn.relu(x @ w + bias)
    logits = nn.relu(hidden @ w.T) @ w
    return np.mean(nn.softmax_cross_entropy(logits, LABELS)) + 0.01 * np.sum(bias) / 2


STEP = ft.value_and_grad(network)

# A function of X and Y, the operands that have a bad number at two places, and the number.
CASES = {
    "add": (lambda x, y: x + y * 1e37, 0, LARGE),
    "add, hidden by relu": (lambda x, y: nn.relu(x + y), (0, 1), -LARGE),
    "add, hidden by tanh": (lambda x, y: np.tanh(x + y), (0, 1), LARGE),
    "divide": (lambda x, y: x / y, 1, 0.0),
    "divide, NaN": (lambda x, y: x / y, (0, 1), 0.0),
    "exp": (lambda x, y: np.exp(x) + y, 0, 88.8),
    "mean": (lambda x, y: np.mean(x + y, axis=1) * 2, 0, LARGE),
    "multiply": (lambda x, y: x * y, (0, 1), LARGE),
    "product": (lambda x, y: x @ STEEP + y[:, :300], 0, LARGE),
    "product, hidden": (lambda x, y: nn.relu(x @ -abs(STEEP) + y[:, :300]), 0, LARGE),
    "sqrt": (lambda x, y: np.sqrt(x) + y, 0, -1.0),
    "square": (lambda x, y: np.square(x) + y, 0, LARGE),
    "square in a sum": (lambda x, y: np.mean((x - y) ** 2, axis=1), 0, LARGE),
    "subtract": (lambda x, y: x - y * 1e37, 0, -LARGE),
    "sum": (lambda x, y: np.sum(x + y, axis=1), 0, LARGE),
    "var": (lambda x, y: x + np.var(y, axis=1, keepdims=True), 1, LARGE),
}

# What the processor may not tell of: results are dropped, it is not asked, or NumPy computes them.
NOT_ASKED = {
    "a choice": (lambda x, y: np.where(x > 0, 1 / x, 0.0) + y, 0, 0.0),
    "a difference in relu": (lambda x, y: nn.relu(-x - y), (0, 1), LARGE),
    "a product in relu": (lambda x, y: nn.relu(-x * y), (0, 1), LARGE),
    "a product in a sum": (lambda x, y: np.sum(x * y, axis=1), (0, 1), LARGE),
    "a number of a choice": (lambda x, y: 1 / np.where(x > 0, x, 0.0) + y, 0, -1.0),
    "a number of a derivative": (
        lambda x, y: 1 / ft.grad(lambda x: np.sum(nn.relu(x)))(x) + y, 0, -1.0,
    ),
    "a number of two choices": (lambda x, y: np.nan_to_num(x) * 4 + y, 0, numpy.inf),
    "a logarithm": (lambda x, y: np.log(x) + y, 0, 0.0),
    "float16": (lambda x, y: x.astype("float16") + y.astype("float16"), 0, 1e5),
    "complex": (lambda x, y: (x + 1j * y) / (x - 1j * y), (0, 1), 0.0),
    "a loop": (lambda x, y: ft.fori_loop(0, 2, lambda i, c: c * c + y, x), 0, LARGE),
}


@pytest.fixture
def reports(monkeypatch):
    """How often plans over NumPy have reported."""
    found = []
    reported = Compiled.reported

    def noted(self, *args):
        found.append(self)
        return reported(self, *args)

    monkeypatch.setattr(Compiled, "reported", noted)
    return found


def bad(operands, number, at):
    """Returns X and Y with a number at two places, the first or the last ones."""
    given = X.copy(), Y.copy()
    for i in (operands,) if isinstance(operands, int) else operands:
        given[i].flat[at] = number
    return given


def message(call, *args):
    """Returns the first line of what the check raises."""
    with pytest.raises(ft.errors.NonFiniteError) as caught:
        call(*args)
    return str(caught.value).splitlines()[0]


def checked_code(f, *args):
    """Returns a jitted function that runs as machine code, and was called."""
    jitted = compiled(f, *args)
    jitted(*args)
    jitted(*args)
    return jitted


def test_a_network_has_the_bits_of_calls_without_the_check(reports, runs):
    params = W, BIAS
    step = checked_code(STEP, params, X)
    assert plan_of(step).tells
    wanted = bits(step(params, X))
    for _ in range(3):
        with ft.hooks.check_finite():
            assert bits(step(params, X)) == wanted
            assert bits(step(params, X)) == wanted
        with ft.config.using(check_finite=True):
            assert bits(step(params, X)) == wanted
    # The first call under the check runs operation by operation, too.
    assert len(runs) == 1
    assert not reports
    assert bits(step(params, X)) == wanted


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_the_same_error_as_operation_by_operation(name, number, reports, monkeypatch):
    monkeypatch.setattr(threads, "number", number)
    f, operands, value = CASES[name]
    jitted = checked_code(f, X, Y)
    assert plan_of(jitted).tells
    with ft.hooks.check_finite():
        jitted(X, Y)
        for at in (slice(2), slice(-2, None)):
            given = bad(operands, value, at)
            wanted = message(f, *map(np.asarray, given))
            assert name.split(",")[0].split(" ")[0].replace("product", "matmul") in wanted
            assert message(jitted, *given) == wanted
            # Arrays in another order are taken by another way.
            assert message(jitted, *map(numpy.asfortranarray, given)) == wanted
            reports.clear()
            jitted(X, Y)
            assert not reports


@pytest.mark.parametrize("operand", [0, 1])
def test_gradients_of_a_network(operand, reports):
    step = checked_code(STEP, (W, BIAS), X)
    with ft.hooks.check_finite():
        step((W, BIAS), X)
        for at in (0, -1):
            given = [(W, BIAS), X.copy()]
            if operand:
                given[1].flat[at] = LARGE * 20
            else:
                given[0] = W * numpy.float32(1e20), BIAS
            wanted = message(STEP, *ft.tree.map(np.asarray, given))
            assert message(step, *given) == wanted
        reports.clear()
        step((W, BIAS), X)
    assert not reports


@pytest.mark.parametrize("name", NOT_ASKED)
def test_what_the_processor_may_not_tell_is_reported_by_a_plan(name, reports):
    f, operands, value = NOT_ASKED[name]
    jitted = ft.jit(f).compile(X, Y)
    jitted(X, Y)
    jitted(X, Y)
    assert not plan_of(jitted).tells
    assert jitted._last.compiled.told((X, Y)) is None
    with ft.hooks.check_finite():
        jitted(X, Y)
        given = bad(operands, value, slice(2))
        assert message(jitted, *given) == message(f, *map(np.asarray, given))
        reports.clear()
        jitted(X, Y)
    assert len(reports) == 1


@pytest.mark.parametrize("f", [np.where, lambda p, x, y: np.where(p, x, y) + 1])
def test_a_number_that_the_dtype_lacks(f):
    jitted = checked_code(lambda x, y: f(x > 0, y, -1e39), X, Y)
    with ft.hooks.check_finite():
        jitted(X, Y), jitted(X, Y)
        assert "where made infinity" in message(jitted, *bad(0, -1.0, slice(1)))


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no signal to send")
def test_no_error_of_a_signals_handler_is_lost():
    jitted, ended = checked_code(lambda x: np.exp(x) + x, X[:4, :60]), []
    with ft.hooks.check_finite():
        jitted(X[:4, :60])
        for place in count():
            # Where arguments are compared, an error becomes another.
            with suppress(TypeError):
                raised, whole = ran_with_error(lambda: jitted(X[:4, :60]), place, TimeoutError)
                if not raised:
                    break
                ended += [place] * whole
    assert place > 100
    assert not ended


def test_nothing_is_left_of_an_error():
    jitted = checked_code(lambda x, labels: nn.softmax_cross_entropy(x + x, labels), X, LABELS)
    with ft.hooks.check_finite():
        jitted(X, LABELS)
        calls = [(X, LABELS + 1000), (bad(0, LARGE, 0)[0], LABELS + 1000)]
        for call, error in zip(calls, [IndexError, ft.errors.NonFiniteError], strict=True):
            for _ in range(2):
                gc.collect()
                gc.disable()
                try:
                    with pytest.raises(error):
                        jitted(*call)
                    left = gc.collect()
                finally:
                    gc.enable()
            assert not left


def test_donated_arguments_are_not_overwritten(reports):
    jitted = checked_code(lambda x, y: x / y, X, Y)
    donating = ft.jit(lambda x, y: x / y, donate_argnums=0).compile(X, Y)
    x = np.asarray(X)
    with ft.hooks.check_finite():
        for f in (jitted, donating):
            f(X, Y)
            reports.clear()
            f(x, Y)
            assert len(reports) == (f is donating)
    assert bits(x) == bits(X)


def test_false_alarms(reports, runs):
    jitted = checked_code(lambda x, y: nn.softmax(x) + y, X, Y)
    given = bad(0, numpy.nan, slice(1))
    wanted = bits(jitted(*given))
    with ft.hooks.check_finite():
        jitted(X, Y)
        reports.clear()
        runs.clear()
        for i in range(MOST_FALSE_ALARMS):
            # NaN among the operands is compared, of which the processor tells.
            assert bits(jitted(*given)) == wanted
            assert len(reports) == i + 1
        # A call without an alarm would begin to count anew, but the processor is not asked.
        jitted(X, Y)
        assert len(reports) == MOST_FALSE_ALARMS + 1
        assert not runs


def test_calls_without_an_alarm_between_false_ones(reports):
    jitted = checked_code(lambda x, y: nn.softmax(x) + y, X, Y)
    given = bad(0, numpy.nan, slice(1))
    with ft.hooks.check_finite():
        jitted(X, Y)
        for _ in range(2 * MOST_FALSE_ALARMS):
            jitted(*given)
            reports.clear()
            jitted(X, Y)
            assert not reports


def test_nan_or_infinity_alone(reports):
    jitted = checked_code(CASES["exp"][0], X, Y)
    given = bad(0, 88.8, slice(1))
    with ft.hooks.check_finite(inf=False):
        jitted(X, Y)
        reports.clear()
        jitted(*given)
    assert not reports
    with ft.hooks.check_finite(nan=False):
        jitted(X, Y)
        assert "exp made infinity" in message(jitted, *given)


def test_flags_of_earlier_work_are_forgotten(reports):
    jitted = checked_code(CASES["multiply"][0], X, Y)
    given = bad((0, 1), LARGE, slice(1))
    with ft.hooks.check_finite():
        jitted(X, Y)
    for _ in range(3):
        # Helpers have such flags, too.
        jitted(*given)
        numpy.exp(numpy.float32([1000.0]))
        with ft.hooks.check_finite():
            reports.clear()
            jitted(X, Y)
            assert not reports


def test_what_is_told_in_the_plan_of_an_earlier_process(tmp_path, monkeypatch):
    counts = counted(tmp_path, monkeypatch)
    f, operands, value = CASES["add, hidden by relu"]
    first, again = compiled(f, X, Y), compiled(f, X, Y)
    assert counts.scheduled == 1
    for jitted in (first, again):
        jitted(X, Y)
        jitted(X, Y)
        assert plan_of(jitted).tells
        with ft.hooks.check_finite():
            jitted(X, Y)
            assert "add made infinity" in message(jitted, *bad(operands, value, slice(1)))


def test_a_run_without_the_check_asks_nothing(monkeypatch):
    def refused(*args):
        raise AssertionError

    monkeypatch.setattr(CpuPlan, "told", refused)
    jitted = checked_code(CASES["add"][0], X, Y)
    assert bits(jitted(X, Y)) == bits(X + Y * numpy.float32(1e37))


def test_calls_under_the_check_alone_become_machine_code(reports, monkeypatch):
    monkeypatch.setattr(tiers, "SECONDS_BEFORE_COMPILING", 0.0)
    monkeypatch.setattr(tiers, "MOST_OF_NUMPYS_TIME", numpy.inf)
    jitted = ft.jit(STEP)
    with ft.hooks.check_finite():
        jitted((W, BIAS), X)
        entry = jitted.entry_of((W, BIAS), X)
        assert isinstance(entry.compiled.run, tiers.Tiers)
        assert entry.compiled.tiers._job.wait(60)
        reports.clear()
        for _ in range(tiers.COMPARED_CALLS):
            assert jitted.explain().endswith("the first call")
            jitted((W, BIAS), X)
        assert not reports
    assert jitted.explain().endswith("as machine code")
    assert entry.compiled.run.tells
