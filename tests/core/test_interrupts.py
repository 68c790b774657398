"""Ctrl-C, wherever it comes, leaves nothing of a transformation or of a block behind."""

import random
import re
import signal
import threading
import warnings
from contextlib import ExitStack
from pathlib import Path

import numpy
import pytest
from support.interrupts import ran
from support.long_forms import only_long, sized

import functensor as ft
import functensor.numpy as np
from functensor import random as keys
from functensor.backends import blas_threads
from functensor.backends.config import config
from functensor.backends.cpu.plan.threads import pool
from functensor.backends.devices import default_device, placement
from functensor.backends.restoring import errstate, listed, quiet, setting
from functensor.custom.call import transposed_functions
from functensor.jitting.jitted import switch
from functensor.primitives.core.trace import slot, under
from functensor.programs.named_scope import active
from functensor.random.key_reuse import ledger
from functensor.tensors.grad_mode import mode

pytestmark = pytest.mark.long
# So many places of long work are tried, spread over all of it.
TRIED = sized(250, 10**6)
X = numpy.array([0.5, -1.0, 2.0])

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no signal to send"),
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread(), reason="signals go elsewhere"
    ),
    # An interrupt within a finalizer is printed, and nothing else comes of it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Imports what machine code needs: an interrupt within an import leaves Python's lock taken."""
    REGION.compile(LARGE)
    REGION(LARGE)


def state():
    """Returns all that is set for a thread, or for the process, and set back."""
    control = blas_threads.controlled()
    return {
        "slot": (slot.trace, slot.running, {*slot.stood_for}, slot.turn),
        "grad mode": (mode.enabled, [*mode.before]),
        "device": placement.device,
        "config": dict(config.__dict__),
        "jit": switch.off,
        "scopes": [entry.path for entry in active.entries],
        "keys": ledger.active,
        "transposed": [*transposed_functions.bearers],
        "NumPy": (numpy.geterr(), numpy.getbufsize()),
        "warnings": [*warnings.filters],
        "BLAS": control is not None and (control.held, control._get()),
        "threads": len(pool.pool.callers),
        "retraces": [*IDLE._history._refusing],
    }


def check(work, after=lambda: None):
    """Interrupts work at every place, or at many, and checks what is left each time."""
    work()
    before = state()
    steps, place = 1, 0
    last = 1
    while not ran(work, last):
        last *= 2
    steps = max(1, last // TRIED)
    place = random.Random(0).randrange(steps)
    tried = 0
    while True:
        whole = ran(work, place)
        left = state()
        assert left == before, f"an interrupt at place {place}"
        after()
        if whole:
            break
        tried += 1
        place += steps
    assert ft.grad(lambda x: x * x)(3.0) == 6
    assert type(np.sin(1.0)) is ft.Array
    return tried


def f(x):
    return np.sum(np.sin(x) * x)


@ft.custom_vjp
def squared(x):
    return np.sum(x**2)


squared.defvjp(lambda x: (np.sum(x**2), x), lambda x, g: (2 * x * g,))


@ft.custom_jvp
def cubed(x):
    return np.sum(x**3)


@cubed.defjvp
def _(primals, tangents):
    return np.sum(primals[0] ** 3), np.sum(3 * primals[0] ** 2 * tangents[0])


class Doubled(ft.hooks.Hook):
    def backward(self, op, grad_inputs, grad_output):
        return [2 * g for g in grad_inputs]


def by_tensor():
    x = ft.Tensor(X, requires_grad=True)
    with x.register_hook(lambda g: g * 2):
        (x * x).sum().backward()
    return x.grad


def hooked(hook):
    with ft.hooks.use(hook, "sin"):
        return ft.grad(f)(X)


def in_scope():
    with ft.named_scope("outer"), ft.named_scope("inner"):
        return np.sin(X)


def without_grad():
    with ft.no_grad(), ft.enable_grad():
        return ft.is_grad_enabled()


def on_device():
    with default_device("cpu"), default_device("cpu"):
        return np.ones(2)


def configured():
    with ft.config.using(matmul_precision="tf32", deterministic=True):
        return ft.config.numerics


REPORTING = ft.jit(lambda x: np.sum(np.exp(x)))


def reported():
    with ft.hooks.check_finite():
        REPORTING(X)


def looked_at():
    with ft.hooks.check_finite(where="sin"):
        np.sin(X)


def checked():
    with ft.config.using(check_finite=True), ft.config.using(check_finite=False):
        return np.sin(X)


def unjitted():
    with ft.disable_jit(), keys.check_reuse():
        return np.ones(2)


def unretraced():
    IDLE(X)
    with IDLE.assert_no_retrace():
        return IDLE(X)


IDLE = ft.jit(f)
LARGE = numpy.ones((200, 400))
REGION = ft.jit(lambda x: np.sum(np.exp(np.sin(x) * x)))
LINEAR = ft.linearize(f, X)[1]
PULL = ft.vjp(f, X)[1]

WORK = {
    "grad": lambda: ft.grad(f)(X),
    "value_and_grad": lambda: ft.value_and_grad(f)(X),
    "vjp": lambda: ft.vjp(f, X),
    "pull": lambda: PULL(1.0),
    "jvp": lambda: ft.jvp(f, (X,), (X,)),
    "linear": lambda: LINEAR(X),
    "vmap": lambda: ft.vmap(f)(X[None]),
    "vmap of grad": lambda: ft.vmap(ft.grad(f))(X[None]),
    "grad of grad": lambda: ft.grad(lambda x: np.sum(ft.grad(f)(x)))(X),
    "hessian": lambda: ft.hessian(f)(X),
    "idle jit": lambda: IDLE(X),
    "jit, a region of blocks": lambda: REGION(LARGE),
    "first jit": lambda: ft.jit(f)(X),
    "jit of grad": lambda: ft.jit(ft.grad(f))(X),
    "checkpoint": lambda: ft.grad(ft.checkpoint(f))(X),
    "checkpoint of a hook": lambda: ft.vmap(ft.grad(ft.checkpoint(squared)))(X[None]),
    "scan": lambda: ft.scan(lambda c, x: (c * x, c), 1.0, X),
    "grad of scan": lambda: ft.grad(lambda x: ft.scan(lambda c, y: (c * y, c), 1.0, x)[0])(X),
    "cond": lambda: ft.grad(lambda x: ft.cond(x[0] > 0, f, np.sum, x))(X),
    "custom_vjp": lambda: ft.grad(squared)(X),
    "custom_vjp forward": lambda: ft.jvp(squared, (X,), (X,)),
    "custom_jvp": lambda: ft.grad(cubed)(X),
    "forward hook": lambda: hooked(ft.hooks.FnHook(forward=lambda *_: None)),
    "backward hook": lambda: hooked(Doubled()),
    "tensor": by_tensor,
    "a plan that reports": reported,
    "special": lambda: (np.sinc(X), np.nanmean(X), np.logspace(0, 1, 3)),
}

BLOCKS = {
    "named_scope": in_scope,
    "no_grad": without_grad,
    "default_device": on_device,
    "config.using": configured,
    "disable_jit": unjitted,
    "check_finite": checked,
    "hooks.check_finite": looked_at,
    "assert_no_retrace": unretraced,
}


@pytest.mark.parametrize("name", WORK)
def test_an_interrupt_leaves_nothing_behind(name):
    assert check(WORK[name]) > 5


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_end_wherever_an_interrupt_comes(name):
    assert check(BLOCKS[name]) > 3


class Plain:
    """A block whose end is a function of Python."""

    def __enter__(self):
        self.before, switch.off = switch.off, True

    def __exit__(self, *error):
        switch.off = self.before


def test_the_check_finds_a_block_that_an_interrupt_leaves_open():
    def work():
        with Plain():
            return 1

    try:
        with pytest.raises(AssertionError, match="an interrupt at place"):
            check(work)
    finally:
        switch.off = False


def nested(block):
    with block(), block():
        raise ZeroDivisionError


LISTED = []

INTERNAL = {
    "under": lambda: under(slot.trace),
    "quiet": quiet,
    "errstate": lambda: errstate(invalid="raise", bufsize=64),
    "setting": lambda: setting(switch, off=True),
    "listed": lambda: listed(LISTED, object()),
    "BLAS": blas_threads.alone,
}


@pytest.mark.parametrize("name", INTERNAL)
def test_blocks_let_errors_through_and_set_back(name):
    def work():
        with pytest.raises(ZeroDivisionError):
            nested(INTERNAL[name])

    def nothing_listed():
        assert LISTED == []

    assert check(work, nothing_listed) > 5


def test_a_hook_is_over_however_its_block_ends():
    seen = []

    def work():
        with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, *_: seen.append(op.name))):
            np.sin(X)

    def still_seen():
        seen.clear()
        np.cos(X)
        assert seen == []

    check(work, still_seen)


def test_a_hook_on_a_tensor_is_over_however_its_block_ends():
    x = ft.Tensor(X, requires_grad=True)
    seen = []

    def work():
        with x.register_hook(lambda g: seen.append(g)):
            pass

    def still_seen():
        seen.clear()
        (x * x).sum().backward()
        assert seen == []

    check(work, still_seen)


# Blocks that say who failed, or set what is thrown away when they do not end.
HARMLESS = {"body.py", "counted_loops.py", "linalg.py"}


ENDS_IN_PYTHON = re.compile(
    r"@contextmanager|with (?:np|numpy)\.errstate\(|(?<!@InC\n)    def __exit__\("
)


def test_no_block_of_the_library_ends_in_python():
    root = Path(__file__).parents[2]
    found = [
        str(path.relative_to(root))
        for folder in ("backends", "primitives", "functensor")
        for path in (root / folder).rglob("*.py")
        if path.name not in {*HARMLESS, "restoring.py"}
        and ENDS_IN_PYTHON.search(path.read_text())
    ]
    assert not found
    assert ENDS_IN_PYTHON.search("class A:\n    def __exit__(self, *error):")


# The blocks that users hold are used in other ways than by a `with` statement too.


@pytest.mark.parametrize("made", [ft.no_grad, lambda: default_device("cpu"), ft.disable_jit])
def test_blocks_are_entered_by_hand_and_by_exit_stacks(made):
    before = state()
    with ExitStack() as stack:
        stack.enter_context(made())
        stack.enter_context(made())
    assert state() == before
    block = made()
    block.__enter__()
    block.__exit__(None, None, None)
    assert state() == before


def test_scopes_are_entered_by_hand_and_by_exit_stacks():
    scope = ft.named_scope("a")
    with ExitStack() as stack:
        stack.enter_context(scope)
        stack.enter_context(scope)
        assert active.entries[-1].path == "a/a"
    assert [entry.path for entry in active.entries] == [""]
    scope.__enter__()
    scope.__enter__()
    scope.__exit__(None, None, None)
    assert active.entries[-1].path == "a"
    scope.__exit__(None, None, None)
    assert [entry.path for entry in active.entries] == [""]


def test_blocks_decorate_functions():
    @ft.disable_jit()
    def off():
        return switch.off

    @ft.config.using(deterministic=True)
    def chosen():
        return ft.config.deterministic

    assert off() is True
    assert off() is True
    assert chosen() is True
    assert chosen() is True
    assert switch.off is False
    assert ft.config.deterministic is False


def test_a_block_of_one_use_is_not_entered_twice():
    block = ft.disable_jit()
    with block, pytest.raises(RuntimeError, match="make one for each"):
        block.__enter__()
    assert switch.off is False


@only_long
@pytest.mark.parametrize("name", WORK)
def test_alarms_at_random_moments(name):
    class Alarm(BaseException):
        pass

    def ring(*_):
        raise Alarm

    rng = random.Random(0)
    before = state()
    old = signal.signal(signal.SIGALRM, ring)
    try:
        for _ in range(1000):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1e-3))
                # An alarm within a finalizer is lost.
                for _ in range(20):
                    WORK[name]()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Alarm:
                pass
            assert state() == before
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
