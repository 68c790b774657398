"""Memory, threads, signals and errors of loops as machine code."""

import signal
import threading
import tracemalloc

import numpy as np
import pytest
from support.native import missing, run_python
from support.native_loops import RNN, assert_same, compiled, drawn, recurrent

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native import segments, step_code
from functensor.backends.native import entry
from functensor.backends.native.tables import MOST_COPIES_WRITTEN_OUT
from functensor.jitting.tiers import native_program

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


# -- memory


def test_numbers_that_are_not_finite():
    xs = np.array([1.0, np.inf, -1.0, np.nan, 2.0, -0.0])

    def f(xs):
        return ft.scan(lambda c, x: (fnp.maximum(c * x, -x), (c, 1 / x)), -0.0, xs)

    got, wanted = compiled(f, xs)(xs), f(xs)
    for x, y in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        x, y = np.atleast_1d(x, y)
        np.testing.assert_array_equal(x, y)
        numbers = ~np.isnan(y)
        np.testing.assert_array_equal(np.signbit(x[numbers]), np.signbit(y[numbers]))


def test_arrays_in_any_order():
    wide = np.arange(60.0).reshape(5, 3, 4) / 40
    f = compiled(lambda c, xs: ft.scan(lambda c, x: (c @ x, c), c, xs), np.eye(3), wide[..., :3])
    for c in (np.eye(3), np.arange(9.0).reshape(3, 3).T, np.arange(18.0).reshape(3, 6)[:, ::2]):
        for xs in (wide[..., :3], wide[::-1, :, 1:], wide.T[:3, :, :].swapaxes(0, 2)[:, :, :3]):
            before = c.copy(), xs.copy()
            wanted = ft.scan(lambda c, x: (c @ x, c), c, xs)
            assert_same(f(c, xs), wanted)
            assert all(map(np.array_equal, (c, xs), before))


def test_results_are_new_and_operands_stay():
    args = [x.copy() for x in RNN]
    f = compiled(recurrent, *args)
    first = f(*args)
    kept = [np.asarray(x).copy() for x in ft.tree.leaves(first)]
    f(*[2 * x for x in args])
    assert all(map(np.array_equal, ft.tree.leaves(first), kept))
    assert all(map(np.array_equal, args, RNN))
    unchanged = compiled(lambda x, n: ft.fori_loop(0, n, lambda i, x: x * 2, x), RNN[0], 0)
    x = RNN[0].copy()
    assert not np.shares_memory(np.asarray(unchanged(x, 0)), x)


def test_donated_carries():
    def f(h, w, xs):
        return recurrent(h, w, xs)[0]

    jitted = compiled(f, *map(fnp.array, RNN), donate_argnums=0)
    h = fnp.array(RNN[0])
    assert_same(jitted(h, *RNN[1:]), f(*RNN))
    with pytest.raises(RuntimeError, match="donated"):
        h + 1
    # The memory of the first carry is also read as a slice.
    g = ft.jit(lambda c, d: ft.scan(lambda c, x: (c + x, c), c, d)[0], donate_argnums=0)
    x = fnp.arange(4.0)
    assert_same(g.compile(x, x)(x + 0, x), np.arange(4.0) + 6)


def test_the_bits_are_those_of_single_steps():
    h, w, xs = (x.astype("f4") for x in RNN)

    def step(h, x):
        return fnp.tanh(h @ w + x * fnp.sin(h))

    one = ft.jit(step).compile(h, xs[0])
    wanted = h
    for x in xs:
        wanted = one(wanted, x)
    whole = compiled(lambda h, xs: ft.scan(lambda h, x: (step(h, x), None), h, xs)[0], h, xs)
    np.testing.assert_array_equal(whole(h, xs), wanted)


def test_steps_need_no_memory():
    steps, size = 2000, 512

    def f(x):
        return ft.fori_loop(0, steps, lambda i, x: fnp.sin(x) * 0.5 + fnp.cos(x), x)

    x = np.ones(size)
    jitted = compiled(f, x)
    jitted(x)
    tracemalloc.start()
    try:
        jitted(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * x.nbytes


def test_threads():
    f, wanted = compiled(recurrent, *RNN), recurrent(*RNN)
    done = []

    def run():
        for _ in range(200):
            assert_same(f(*RNN), wanted)
        done.append(True)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == len(threads)


# -- checks and interrupts


def test_finite_values_are_still_checked():
    f = compiled(lambda x: ft.fori_loop(0, 3, lambda i, x: fnp.log(x - 1), x), 3.0)
    with ft.hooks.check_finite(), pytest.raises(FloatingPointError, match="log"):
        f(3.0)


@pytest.mark.parametrize("way", ["built-in", "portable"])
def test_a_loop_without_an_end_is_interrupted(way, monkeypatch):
    if way == "portable":
        monkeypatch.setattr(entry, "trampoline", lambda: None)

    def f(x):
        return ft.while_loop(lambda x: x > 0, lambda x: x * 0.5 + 1, x)

    jitted = compiled(f, 3.0)
    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    main = threading.main_thread()
    assert threading.current_thread() is main
    # Python leaves the signal ignored in a process that a shell began in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            jitted(3.0)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert float(jitted(-1.0)) == -1.0


def test_other_threads_go_on_meanwhile():
    seen = []

    def f(x, n):
        return ft.while_loop(lambda s: s[1] < n, lambda s: (fnp.sin(s[0]), s[1] + 1), (x, 0))

    x = np.ones(64)
    jitted = compiled(f, x, 10)
    thread = threading.Thread(target=lambda: seen.append(jitted(x, 2_000_000)), daemon=True)
    thread.start()
    steps = 0
    while not seen and steps < 50:
        steps += 1
        thread.join(0.001)
    assert steps == 50
    thread.join()
    assert int(seen[0][1]) == 2_000_000


def test_without_machine_code():
    source = """
import functensor as ft, numpy as np
f = ft.jit(lambda x: ft.fori_loop(0, 5, lambda i, x: x * 2, x)).compile(np.ones(2))
print(f(np.ones(2)).tolist(), "NATIVE=0" in f.explain())
"""
    assert run_python(source, FUNCTENSOR_NATIVE="0") == "[32.0, 32.0] True\n"


# -- loops that are written out


def test_equal_steps_are_compiled_once():
    def f(x, a):
        for _ in range(40):
            x = fnp.sort(fnp.tanh(a @ x) * 0.5 + fnp.cos(x))
        return x

    x, a = np.ones(4), drawn((4, 4), "f8")
    jitted = ft.jit(f).compile(x, a)
    machine = [v for name, v in jitted._last.compiled.run._scope.items() if name.endswith("_again")]
    assert len(machine) == 40
    program = native_program(jitted.lower(x, a).program)
    assert segments.segmented(program).text.count("define i64 @segment_") == 1
    assert_same(jitted(x, a), f(x, a), 1e-9)


def test_many_carries_are_copied_by_a_function():
    def f(carries, rows):
        def step(carries, row):
            return (*carries[1:], carries[0] * 2 + row), carries

        return ft.scan(step, carries, rows)

    carries, rows = tuple(drawn((40, 4, 3), "f8")), drawn((5, 4, 3), "f8", 1)
    jitted = compiled(f, carries, rows)
    program = native_program(jitted.lower(carries, rows).program)
    functions = segments.segmented(program).text.split("\ndefine ")
    assert max(text.count("@llvm.memcpy") for text in functions[1:]) <= MOST_COPIES_WRITTEN_OUT
    assert_same(jitted(carries, rows), f(carries, rows))


def test_a_text_that_is_too_long(monkeypatch):
    monkeypatch.setattr(segments, "LONGEST_CODE", 100)
    jitted = ft.jit(recurrent).compile(*RNN)
    assert "would take long to compile" in jitted.explain()
    assert_same(jitted(*RNN), recurrent(*RNN))


def test_a_long_body_stays_over_numpy(monkeypatch):
    monkeypatch.setattr(step_code, "MOST_SEGMENT_EQUATIONS", 1)
    jitted = ft.jit(recurrent).compile(*RNN)
    assert "nothing in it would be machine code" in jitted.explain()
    assert_same(jitted(*RNN), recurrent(*RNN))
