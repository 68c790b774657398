"""Ready hooks on residuals: files and other dtypes, and what they cost in bytes and digits."""

import gc
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy
import pytest
from support.counted import memory_traced

import functensor as ft
import functensor.numpy as np
from functensor.hooks import CompressHook, OffloadHook, use

W = np.asarray(numpy.linspace(-1.0, 1.0, 16).reshape(4, 4))
X = np.asarray(numpy.linspace(-2.0, 2.0, 800).reshape(200, 4))
SIZE = 200 * 4 * 8


def network(w, x):
    for _ in range(3):
        x = np.tanh(x @ w)
    return np.sum(x)


def bits(tree):
    return [numpy.asarray(leaf).tobytes() for leaf in ft.tree.leaves(tree)]


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


# -- files


def test_files_hold_residuals_and_go_with_them(tmp_path):
    hook = OffloadHook("disk", folder=tmp_path)
    with use(hook):
        pull = ft.vjp(network, W, X)[1]
    assert [path.stat().st_size for path in files(tmp_path)] == [SIZE] * 3
    assert hook.moved == 3 * SIZE
    assert bits(pull(1.0)) == bits(ft.vjp(network, W, X)[1](1.0))
    assert len(files(tmp_path)) == 3
    del pull
    assert files(tmp_path) == []
    with use(hook):
        assert bits(ft.grad(network)(W, X)) == bits(ft.grad(network)(W, X))
    # Both gradients ran under it.
    assert hook.moved == 9 * SIZE
    assert files(tmp_path) == []
    del hook
    assert list(tmp_path.iterdir()) == []


def test_a_gradient_frees_files_as_it_goes(tmp_path):
    seen = []

    class Watched(OffloadHook):
        def unpack(self, op, packed):
            seen.append(len(files(tmp_path)))
            return super().unpack(op, packed)

    with use(Watched("disk", folder=tmp_path)):
        ft.grad(network)(W, X)
    assert seen[0] == 3
    assert seen[-1] == 1


def test_files_go_after_an_exception(tmp_path):
    def failing(w, x):
        out = network(w, x)
        assert len(files(tmp_path)) == 3
        raise RuntimeError(f"planned, after a network that is {out.ndim}-dimensional")

    def run():
        with use(OffloadHook("disk", folder=tmp_path)):
            ft.grad(failing)(W, X)

    with pytest.raises(RuntimeError, match="planned"):
        run()
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "raise KeyboardInterrupt"])
def test_the_folder_goes_at_the_end_of_python(tmp_path, end):
    script = f"""
import functensor as ft, functensor.numpy as np, os, sys
hook = ft.hooks.OffloadHook("disk", folder={str(tmp_path)!r})
with ft.hooks.use(hook):
    pull = ft.vjp(lambda x: np.sum(np.exp(np.sin(x))), np.ones(1000))[1]
print(sum(len(files) for _, _, files in os.walk({str(tmp_path)!r})))
{end}
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path.parent, capture_output=True, text=True
    )
    assert done.stdout == "1\n", done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_removes_no_files_of_its_parent(tmp_path):
    script = f"""
import functensor as ft, functensor.numpy as np, os, sys
hook = ft.hooks.OffloadHook("disk", folder={str(tmp_path)!r})
with ft.hooks.use(hook):
    value, pull = ft.vjp(lambda x: np.sum(np.exp(np.sin(x))), np.ones(1000))
child = os.fork()
if not child:
    del pull, hook
    sys.exit(0)
os.waitpid(child, 0)
print(float(pull(1.0)[0][0]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path.parent, capture_output=True,
        text=True,
    )  # fmt: skip
    assert float(done.stdout) == pytest.approx(numpy.exp(numpy.sin(1)) * numpy.cos(1)), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16"])
def test_files_of_all_dtypes_and_orders(tmp_path, dtype):
    def f(x):
        y = np.exp(x.T).T
        return np.sum(np.abs(np.sin(y) * (y > 0) * y[::2][:1]))

    x = X[:6].astype(dtype)
    with use(OffloadHook("disk", folder=tmp_path, min_bytes=0)):
        seen = ft.grad(f)(x)
    assert bits(seen) == bits(ft.grad(f)(x))
    assert files(tmp_path) == []


def test_small_residuals_stay(tmp_path):
    hook = OffloadHook("disk", folder=tmp_path, min_bytes=SIZE + 1)
    with use(hook):
        ft.grad(network)(W, X)
    assert hook.moved == 0


def test_a_lost_file_is_an_error_that_names_the_hook(tmp_path):
    with use(OffloadHook("disk", folder=tmp_path)):
        pull = ft.vjp(network, W, X)[1]
    first, *_ = files(tmp_path)
    first.write_bytes(b"short")
    with pytest.raises(OSError, match=f"has 5 of the {SIZE} bytes of a residual") as info:
        pull(1.0)
    words = "in unpack of the hook OffloadHook on tanh, at "
    assert any(note.startswith(words) for note in info.value.__notes__)
    first.unlink()
    with pytest.raises(FileNotFoundError):
        pull(1.0)


def test_memory_of_a_deep_network_falls_to_a_part_of_it(tmp_path):
    # Arrays far larger than what Python keeps for files and operations.
    x = np.asarray(numpy.linspace(-2.0, 2.0, 40_000).reshape(10_000, 4))

    def deep(w, x):
        for _ in range(30):
            x = np.tanh(x @ w)
        return np.sum(x)

    def peak(run):
        run()
        with memory_traced():
            gradient = run()
            most = tracemalloc.get_traced_memory()[1]
        return most, bits(gradient)

    hook = OffloadHook("disk", folder=tmp_path)

    def offloaded():
        with use(hook):
            return ft.grad(deep)(W, x)

    (plain, gradient), (least, same) = peak(lambda: ft.grad(deep)(W, x)), peak(offloaded)
    assert gradient == same
    assert plain > 30 * x.nbytes
    assert least < plain / 4


def test_arrays_of_the_host_stay_there():
    hook = OffloadHook()
    with use(hook):
        assert bits(ft.grad(network)(W, X)) == bits(ft.grad(network)(W, X))
    assert hook.moved == 0


def test_wrong_arguments():
    with pytest.raises(ValueError, match="moves to \"host\" or \"disk\", not to 'cuda'"):
        OffloadHook("cuda")
    with pytest.raises(ValueError, match="keeps float32, float16, bfloat16, int8, not 'int4'"):
        CompressHook("int4")
    with pytest.raises(FileNotFoundError):
        OffloadHook("disk", folder=Path("no such folder"))


# -- dtypes


@pytest.mark.parametrize(
    ("dtype", "bound"),
    # Half a step: of the last bit of a fraction, or of the largest magnitude.
    [("float32", 2.0**-24), ("float16", 2.0**-11), ("bfloat16", 2.0**-8), ("int8", 0.5 / 127)],
)
@pytest.mark.parametrize("power", [-3, 0, 6])
def test_rounding_is_within_half_a_step(dtype, bound, power):
    x = np.asarray(numpy.linspace(-1.0, 1.0, 500) * 10.0**power)
    with use(CompressHook(dtype)):
        # What sin has made is multiplied by 1, and is the derivative.
        half = ft.grad(lambda x: np.sum(x * 1.0 * (x * 1.0)) / 2)(x)
    exact = numpy.asarray(x)
    of = numpy.max(numpy.abs(exact)) if dtype == "int8" else numpy.abs(exact)
    assert numpy.all(numpy.abs(numpy.asarray(half) - exact) <= bound * of * (1 + 1e-12) + 6e-8)
    assert bits(half) != bits(x)


def test_numbers_beyond_half_precision_have_a_scale():
    x = np.asarray(numpy.array([1e6, -3.0, 2e30, numpy.inf, 0.0]))
    hook = CompressHook("float16")
    packed = hook.pack(None, x)
    back = numpy.asarray(hook.unpack(None, packed))
    assert packed[0].dtype == "float16"
    assert back[3] == numpy.inf
    assert back[2] == pytest.approx(2e30, rel=2**-10)
    small = hook.pack(None, np.ones(3) * 0.1)
    assert float(small[1]) == 1.0


def test_what_has_no_shorter_form_stays():
    for dtype, x in (
        ("float16", np.arange(3)),
        ("float16", np.ones(3) > 0),
        ("float16", np.ones(3, "float16")),
        ("float32", np.ones(3, "float32")),
        ("int8", np.asarray(numpy.array([1.0, numpy.nan]))),
        ("float32", np.ones(3) * 1j),
    ):
        assert CompressHook(dtype).pack(None, x) is x
    zeros = CompressHook("int8")
    assert numpy.asarray(zeros.unpack(None, zeros.pack(None, np.zeros(3)))).tolist() == [0, 0, 0]


def test_a_network_trains_with_residuals_in_eight_bits():
    target = np.sin(X[:, :1] * 2)

    def loss(w):
        return np.mean((np.tanh(X @ w[0]) @ w[1] - target) ** 2)

    w = [W, W[:, :1]]
    first = float(loss(w))
    for _ in range(200):
        with use(CompressHook("int8")):
            slopes = ft.grad(loss)(w)
        w = [a - 0.1 * b for a, b in zip(w, slopes, strict=True)]
    exact = [W, W[:, :1]]
    for _ in range(200):
        slopes = ft.grad(loss)(exact)
        exact = [a - 0.1 * b for a, b in zip(exact, slopes, strict=True)]
    assert float(loss(w)) < first / 3
    # Rounding of one part in 254 changes what 200 steps reach by no more than that.
    assert float(loss(w)) == pytest.approx(float(loss(exact)), rel=1 / 254)


def test_compressed_residuals_within_a_jitted_function():
    hook = CompressHook("float16")

    @ft.jit
    def step(w, x):
        with use(hook):
            return ft.grad(network)(w, x)

    with use(hook):
        eager = ft.grad(network)(W, X)
    numpy.testing.assert_allclose(step(W, X), eager, rtol=1e-12)
    assert bits(eager) != bits(ft.grad(network)(W, X))


def test_hooks_on_tensors(tmp_path):
    def gradient(hook):
        w = ft.Tensor(W, requires_grad=True)
        with use(hook):
            loss = network(w, ft.Tensor(X))
        loss.backward()
        return w.grad

    plain = gradient(ft.hooks.Hook())
    assert bits(gradient(OffloadHook("disk", folder=tmp_path))) == bits(plain)
    numpy.testing.assert_allclose(gradient(CompressHook("float32")), plain, rtol=1e-5)


def test_pickled_compression():
    hook = pickle.loads(pickle.dumps(CompressHook("bfloat16")))
    with use(hook):
        ft.grad(network)(W, X)
    assert hook.dtype == CompressHook("bfloat16").dtype


# -- other devices


@pytest.mark.parametrize("place", ["host", "disk"])
def test_residuals_of_another_backend_go_to_the_host_and_come_back(place, tmp_path):
    pytest.importorskip("torch")
    script = f"""
import backend, gc, torch, weakref
import numpy
import functensor as ft, functensor.numpy as np
from functensor.hooks import CompressHook, OffloadHook, use
w = np.asarray(numpy.linspace(-1.0, 1.0, 256).reshape(16, 16), device="torch")
x = np.asarray(numpy.linspace(-2.0, 2.0, 3200).reshape(200, 16), device="torch")
seen = []
class Watched(OffloadHook):
    def pack(self, op, value):
        seen.append(weakref.ref(value._data.array))
        return super().pack(op, value)
def f(w, x):
    for _ in range(3):
        x = np.tanh(x @ w)
    return np.sum(x.T * 2)
hook = Watched({place!r}, folder={str(tmp_path)!r})
with use(hook):
    pull = ft.vjp(f, w, x)[1]
print(hook.moved, [ref() for ref in seen])
found = pull(1.0)[0]
print(found.device, found.tolist() == ft.vjp(f, w, x)[1](1.0)[0].tolist())
with use(CompressHook("float32")):
    near = ft.grad(f)(w, x)
print(bool(np.allclose(near, found, rtol=1e-4, atol=1e-4)), near.tolist() == found.tolist())
try:
    with use(ft.hooks.ResidualHook(lambda op, value: ft.to_device(value, "cpu"))):
        ft.grad(f)(w, x)
except ft.errors.RuleResultError as error:
    print("float64[200, 16] on cpu in place of one on torch" in str(error))
    print('return ft.to_device(value, "torch") from unpack' in str(error))
"""
    examples = Path(__file__).resolve().parents[2] / "examples"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path.parent, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(examples), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    moved = 3 * 200 * 16 * 8
    assert done.stdout == f"{moved} [None, None, None]\ntorch True\nTrue False\nTrue\nTrue\n"


# -- GPUs


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["host", "disk"])
def test_residuals_of_a_gpu_leave_it_and_come_back(place, tmp_path):
    import cupy

    def deep(w, x):
        for _ in range(20):
            x = np.tanh(x @ w)
        return np.sum(x)

    w = ft.to_device(np.asarray(numpy.eye(256, dtype="f4")), "cuda")
    x = ft.to_device(np.asarray(numpy.linspace(-1, 1, 4096 * 256, dtype="f4")), "cuda")
    x = x.reshape(4096, 256)
    size = 4096 * 256 * 4
    pool = cupy.get_default_memory_pool()

    def held(*hooks):
        before = pool.used_bytes()
        with use(hooks[0]) if hooks else ft.enable_grad():
            pull = ft.vjp(deep, w, x)[1]
        kept = pool.used_bytes() - before
        return kept, bits(ft.to_device(pull(1.0), "cpu"))

    held()
    plain, gradient = held()
    hook = OffloadHook(place, folder=tmp_path)
    kept, same = held(hook)
    assert same == gradient
    assert hook.moved == 20 * size
    assert plain >= 20 * size
    assert kept <= 2 * size
    assert list(files(tmp_path)) == []


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_residuals_of_a_gpu_are_compressed_there(dtype):
    w, x = ft.to_device(W, "cuda"), ft.to_device(X, "cuda")
    with use(CompressHook(dtype)):
        seen = ft.grad(network)(w, x)
        host = ft.grad(network)(W, X)
    assert seen.device == "cuda:0"
    numpy.testing.assert_allclose(ft.to_device(seen, "cpu"), host, rtol=1e-10, atol=1e-10)


@pytest.mark.gpu
def test_unpacking_onto_another_device_is_an_error():
    w, x = ft.to_device(W, "cuda"), ft.to_device(X, "cuda")
    hook = ft.hooks.ResidualHook(lambda op, value: ft.to_device(value, "cpu"))
    with use(hook), pytest.raises(ft.errors.RuleResultError, match="on cpu in place of one on"):
        ft.grad(network)(w, x)
