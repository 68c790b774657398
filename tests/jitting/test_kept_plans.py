"""Plans of machine code are taken from the disk, with the same results and nothing scheduled."""

import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from support.kept_plans import (
    DAMAGES,
    bits,
    check_another_process,
    compiled,
    counted,
    files,
    plan_of,
)
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import extend, nn, programs
from functensor.backends.cpu.plan.native import kept_plans
from functensor.backends.cpu.plan.threads.pool import threads
from functensor.backends.native.object_cache import PLAN, user_cache
from functensor.jitting import program_key, tiers

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

X = np.linspace(-2, 2, 24).reshape(4, 6)
W = np.linspace(-1, 1, 18).reshape(6, 3)
IMAGES = np.linspace(-1, 1, 2 * 16 * 9 * 10).reshape(2, 16, 9, 10).astype("f4")
KERNEL = np.linspace(-1, 1, 16 * 16 * 9).reshape(16, 16, 3, 3).astype("f4")
HELD = np.linspace(0.5, 1.5, 6)


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """Returns counts, with an empty folder for plans."""
    return counted(tmp_path, monkeypatch)


def mlp_loss(w, x):
    y = nn.softmax(fnp.tanh(x @ w), axis=-1)
    return fnp.mean(nn.softmax_cross_entropy(y, np.array([0, 1, 2, 0])))


FUNCTIONS = {
    "elementwise": (lambda x: fnp.exp(x) * fnp.sin(x) + x / (1 + x * x), (X,)),
    "sums and products": (ft.value_and_grad(mlp_loss), (W, X)),
    "constants": (lambda x: fnp.tanh(x * HELD) * 0.5 + fnp.asarray(HELD), (X,)),
    "gathers": (lambda x, i: fnp.tanh(x)[i] * 2.0, (X, np.array([0, 3, 1]))),
    "a convolution": (
        ft.value_and_grad(lambda w, x: fnp.sum(nn.relu(nn.conv(x, w, padding=1)) ** 2)),
        (KERNEL, IMAGES),
    ),
    "pools": (lambda x: nn.max_pool(nn.relu(x) * 2, 2), (IMAGES,)),
    "a NumPy function": (lambda x: fnp.sort(fnp.sin(x) * 2, axis=0) + fnp.cos(x), (X,)),
    "numbers": (lambda x, s: fnp.sum(x * s) + s * 2, (X, 3.0)),
    "complex numbers": (lambda x: fnp.exp(1j * x) * fnp.abs(x), (X,)),
    "views": (lambda x: fnp.tanh(x[1:, ::2]).T @ fnp.sin(x[1:]), (X,)),
}


@pytest.mark.parametrize(("function", "args"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_the_second_plan_comes_from_the_disk(function, args, counts):
    first = compiled(function, *args)
    assert (counts.scheduled, counts.compiled > 0) == (1, True)
    counts.compiled = 0
    again = compiled(function, *args)
    assert (counts.scheduled, counts.compiled) == (1, 0)
    assert plan_of(first) is not plan_of(again)
    assert plan_of(first).source == plan_of(again).source
    for _ in range(3):
        assert bits(first(*args)) == bits(again(*args))
    moved = [x[::-1].copy()[::-1] if isinstance(x, np.ndarray) else x for x in args]
    assert bits(first(*moved)) == bits(again(*moved))


def test_donated_arguments_are_overwritten_by_both(counts):
    def step(w):
        return w - 0.1 * fnp.tanh(w)

    results = []
    for _ in range(2):
        jitted = compiled(step, X, donate_argnums=0)
        w = fnp.asarray(X) + 1
        address = w._data.ctypes.data
        new = jitted(w)
        results.append(bits(new))
        assert new._data.ctypes.data == address
    assert results[0] == results[1]
    assert counts.scheduled == 1
    compiled(step, X)
    assert counts.scheduled == 2


OTHERS = {
    "a parameter": lambda: ((lambda x: fnp.sum(fnp.tanh(x), axis=1)), X),
    "a shape": lambda: ((lambda x: fnp.sum(fnp.tanh(x), axis=0)), X[1:]),
    "a dtype": lambda: ((lambda x: fnp.sum(fnp.tanh(x), axis=0)), X.astype("f4")),
    "an operation": lambda: ((lambda x: fnp.sum(fnp.sin(x), axis=0)), X),
    "a number": lambda: ((lambda x: fnp.sum(fnp.tanh(x) * 2.0, axis=0)), X),
    "the type of a number": lambda: ((lambda x: fnp.sum(fnp.tanh(x) * 2, axis=0)), X),
    "another number": lambda: ((lambda x: fnp.sum(fnp.tanh(x) * 3.0, axis=0)), X),
    "a constant": lambda: ((lambda x: fnp.sum(fnp.tanh(x) * HELD, axis=0)), X),
    "another constant": lambda: ((lambda x: fnp.sum(fnp.tanh(x) * (HELD + 1), axis=0)), X),
}


def test_other_programs_have_other_plans(counts):
    keys = set()
    for number, make in enumerate(OTHERS.values(), 1):
        function, x = make()
        compiled(function, x)
        assert counts.scheduled == number
        program = ft.make_program(function)(x)
        keys.add(program_key.told_program(program, ()).text)
    assert len(keys) == len(OTHERS)


def test_names_of_scopes_look_like_no_operations():
    texts = []
    for name in ("a", "a\nexp\t%1", "a\texp"):

        def f(x, name=name):
            with ft.named_scope(name):
                return fnp.tanh(x) * 2

        texts.append(program_key.told_program(ft.make_program(f)(X), ()).text)
    assert len(set(texts)) == 3
    assert len({(text.count("\n"), text.count("\t")) for text in texts}) == 1


def test_nans_of_both_signs_have_their_own_plans(counts):
    for sign in (1, -1, 1, -1):
        nan = float(np.copysign(np.nan, sign))
        for value in (nan, complex(nan, 0)):
            jitted = compiled(lambda x, v=value: fnp.where(x > 0, fnp.tanh(x), v), X)
            assert bits(np.signbit(jitted(X).real)) == bits((X <= 0) & (sign < 0))
    assert counts.scheduled == 4


def test_primitives_that_threads_declare_are_not_kept(counts):
    found = {}

    def declare(compute):
        found[compute] = extend.unary("kept_by_name", lambda g: g, compute=compute)

    for compute in ("sin", "cosh"):
        thread = threading.Thread(target=declare, args=(compute,))
        thread.start()
        thread.join()
        try:
            assert found[compute].module == __name__
            mine = found[compute]
            jitted = compiled(lambda x, mine=mine: fnp.tanh(mine(x)) * 2, X)
            np.testing.assert_allclose(jitted(X), np.tanh(getattr(np, compute)(X)) * 2)
        finally:
            extend.registry.remove("kept_by_name")


def test_a_number_of_threads_has_its_own_plan(counts, monkeypatch):
    function, args = FUNCTIONS["sums and products"]
    compiled(function, *args)
    monkeypatch.setattr(threads, "number", threads.number + 1)
    compiled(function, *args)
    assert counts.scheduled == 2


def test_equations_of_calls_are_kept_in_their_place(counts):
    @ft.custom_vjp
    def doubled(x):
        return fnp.sin(x) * 2

    doubled.defvjp(lambda x: (doubled(x), x), lambda x, g: (g * x,))

    def f(x):
        return fnp.sum(ft.checkpoint(lambda y: fnp.sin(y) * y)(x) * doubled(x))

    for function in (f, ft.grad(f)):
        first, again = [compiled(function, X) for _ in range(2)]
        assert bits(first(X)) == bits(again(X))
    assert counts.scheduled == 2


def test_without_a_folder_nothing_is_told(counts, monkeypatch):
    monkeypatch.setenv("FUNCTENSOR_CACHE_DIR", "")
    monkeypatch.setattr(tiers, "told_as_text", dict.fromkeys)
    compiled(lambda x: fnp.sin(x) * 2, X)
    assert counts.scheduled == 1


def test_results_of_a_kept_plan_have_numpys_own_dtypes(counts):
    function, args = FUNCTIONS["sums and products"]
    for _ in range(2):
        for x in ft.tree.leaves(compiled(function, *args)(*args)):
            assert np.asarray(x).dtype is np.dtype("float64")
    assert counts.scheduled == 1


def test_a_plan_without_its_object_is_made_anew(counts):
    function, args = FUNCTIONS["elementwise"]
    wanted = bits(compiled(function, *args)(*args))
    for path in files(".o"):
        path.unlink()
    assert bits(compiled(function, *args)(*args)) == wanted
    assert counts.scheduled == 2
    compiled(function, *args)
    assert counts.scheduled == 2


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_plan_is_made_anew(damage, counts):
    function, args = FUNCTIONS["elementwise"]
    wanted = bits(compiled(function, *args)(*args))
    (path,) = files(PLAN)
    cache, key = user_cache(), path.stem
    # The file is whole: its checksum fits.
    cache.put(key, damage(cache.get(key, PLAN)), PLAN)
    assert bits(compiled(function, *args)(*args)) == wanted
    assert counts.scheduled == 2


@pytest.mark.parametrize("found", [subprocess.run, os.system, eval, print, sys.exit])
def test_files_name_nothing_foreign(found):
    with pytest.raises(pickle.UnpicklingError, match="is in no plan"):
        kept_plans.Unpickler(pickle.dumps(found), ()).load()


def test_errors_name_the_same_lines(counts):
    def f(x, i):
        return fnp.tanh(x)[i] * 2

    told = []
    for _ in range(2):
        jitted = compiled(f, X, np.array([0, 1]))
        with pytest.raises(IndexError) as info:
            jitted(X, np.array([0, 9]))
        told.append((str(info.value), [line.split(" of ")[0] for line in info.value.__notes__]))
    assert counts.scheduled == 1
    assert told[0] == told[1]
    assert told[0][1]


def test_large_constants_stay_those_of_the_process(counts):
    held = np.linspace(0, 1, 1 << 16)

    def f(x):
        return fnp.sort(held) * x

    first = compiled(f, np.ones(1 << 16))
    (path,) = files(PLAN)
    assert path.stat().st_size < held.nbytes / 4
    again = compiled(f, np.ones(1 << 16))
    assert counts.scheduled == 1
    assert bits(first(np.ones(1 << 16))) == bits(again(np.ones(1 << 16)))


def test_too_many_constants_are_not_told(counts, monkeypatch):
    monkeypatch.setattr(program_key, "MOST_CONSTANTS", HELD.nbytes - 1)
    function, args = FUNCTIONS["constants"]
    for _ in range(2):
        compiled(function, *args)
    assert counts.scheduled == 2


def test_changed_files_of_the_library_are_noticed(tmp_path):
    def facts():
        return [(path, known.st_size) for path, known in program_key.files_of(str(tmp_path))]

    (tmp_path / "a").mkdir()
    (tmp_path / "cuda").mkdir()
    for name in ("b.py", "a/c.py", "cuda/d.py", "a/e.txt"):
        (tmp_path / name).write_text("1")
    found = facts()
    assert [os.path.relpath(path, tmp_path) for path, _ in found] == ["a/c.py", "b.py"]
    (tmp_path / "a/c.py").write_text("12")
    assert facts() != found
    assert list(program_key.files_of(str(tmp_path / "none"))) == []
    known = facts()
    (tmp_path / ".#a.py").symlink_to("somebody@host.1")
    assert facts() == known
    assert len(program_key.library_state()) == 64


def test_files_that_changed_after_the_import_have_no_plans(counts, monkeypatch):
    function, args = FUNCTIONS["elementwise"]
    state = program_key.library_state
    changes = [
        max(facts.st_mtime_ns, facts.st_ctime_ns)
        for folder in programs.__path__
        for _, facts in program_key.files_of(folder)
    ]
    monkeypatch.setattr(program_key, "IMPORTED", max(changes))
    state.cache_clear()
    try:
        wanted = bits(compiled(function, *args)(*args))
        assert state() is None
        assert files(PLAN) == []
    finally:
        state.cache_clear()
    monkeypatch.undo()
    assert len(state()) == 64
    assert bits(compiled(function, *args)(*args)) == wanted


PROGRAM = """
import sys
import numpy as np
import functensor as ft, functensor.numpy as fnp
step = ft.jit(ft.value_and_grad(lambda w, x: fnp.mean(fnp.tanh(x @ w) ** 2)))
w, x = np.linspace(-1, 1, 18).reshape(6, 3), np.linspace(-2, 2, 24).reshape(4, 6)
step.compile(w, x)
assert step.explain().endswith("as machine code")
print(*[np.asarray(y).tobytes().hex() for y in step(w, x)])
names = "llvmlite.binding", "functensor.backends.native.printer", "functensor.backends.kernels"
print(*[name in sys.modules for name in names])
"""


def test_another_process_needs_neither_llvm_nor_the_printer(tmp_path):
    check_another_process(PROGRAM, tmp_path)
