"""Devices of staged functions: what a program knows of them, and what explain() says."""

import threading

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.jitting.compile import Compiled
from functensor.jitting.jitted import StagedEntry
from functensor.jitting.retraces import History
from functensor.primitives.core.registry import registry as ops
from functensor.primitives.core.shape_dtype import ShapeDtype
from functensor.programs.program import Equation, Program, Variable


def on_gpu(shape):
    """Returns the program of a product by two, for an argument on a GPU."""
    x = Variable(ShapeDtype(shape, "float32"), "cuda:0")
    out = Variable(x.type, x.device)
    return Program("f", [x], [Equation(fnp.multiply, [x, 2.0], {}, [out])], [out])


def test_programs_on_a_gpu_have_no_plan():
    program = on_gpu((3,))
    program.out_tree = ft.tree.structure(0)
    entry = StagedEntry(program, [], (), ())
    assert entry.compiled.plan is None
    # The same operations, one after the other, on whatever they are given.
    (out,) = entry.compiled([np.ones(3, "f4")])
    np.testing.assert_array_equal(out, 2)


def test_what_nobody_needs_may_be_on_a_gpu():
    """The rest is fused as ever."""
    x = Variable(ShapeDtype((120_000,), "float64"), "cpu")
    unused = Variable(x.type, "cuda:0")
    once, twice = Variable(x.type, "cpu"), Variable(x.type, "cpu")
    equations = [
        Equation(ops.to_device, [x], {"device": "cuda:0"}, [unused]),
        Equation(fnp.tanh, [x], {}, [once]),
        Equation(fnp.multiply, [once, x], {}, [twice]),
    ]
    compiled = Compiled(Program("f", [x], equations, [twice]))
    assert len(compiled.program.equations) == 1
    numbers = np.linspace(-2, 2, 120_000)
    np.testing.assert_allclose(compiled([numbers])[0], np.tanh(numbers) * numbers, rtol=1e-14)


def loss_of_squares(x):
    """A mean whose derivative has a constant as large as its argument."""
    return fnp.mean(fnp.square(x))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_slope_of_a_mean_has_a_plan(dtype):
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = ft.to_device(np.linspace(-1, 1, 60_000, dtype="f4").reshape(300, 200).astype(kind), "cuda")
    f = ft.jit(ft.value_and_grad(loss_of_squares))
    f.compile(x)
    found, wanted = f(x), ft.value_and_grad(loss_of_squares)(x)
    assert "by kernels that were made for it" in f.explain().splitlines()[-1]
    for a, b in zip(found, wanted, strict=True):
        a, b = (np.asarray(ft.to_device(v, "cpu")).astype(float) for v in (a, b))
        np.testing.assert_allclose(a, b, 1e-6 if dtype == "float32" else 1e-2)


def test_histories_take_remarks_by_number():
    history = History(len)
    numbers = [history.record(((), (), (), ()), ((), {})) for _ in range(2)]
    history.remark(numbers[0], "on a GPU, it is run operation by operation")
    assert str(history).splitlines()[1].endswith("the first call; on a GPU, it is run operation "
                                                 "by operation")
    assert "GPU" not in str(history).splitlines()[2]


@pytest.mark.gpu
def test_explanations_say_what_runs_on_a_gpu():
    f = ft.jit(lambda s, x: (s * 2.0) * fnp.tanh(x))
    x = fnp.ones(3, "float32")
    f(0.7, x)
    f(0.7, ft.to_device(x, "cuda"))
    _, second, *_ = f.explain().splitlines()[1:]
    assert "argument 1 was float32[3], and is float32[3] on cuda:0" in second
    f.compile(0.7, ft.to_device(x, "cuda"))
    f(0.7, ft.to_device(x, "cuda"))
    assert "by kernels that were made for it" in f.explain().splitlines()[-1]


@pytest.mark.gpu
def test_numbers_tables_and_examples_on_a_gpu_are_computed_there():
    table = ft.to_device(fnp.arange(3.0, dtype="float32"), "cuda")
    for f, args in [
        (ft.jit(fnp.tanh), [table[1]]),
        (ft.jit(lambda s: s * table), [0.5]),
        (ft.vmap(ft.jit(lambda x: x * 2.0)), [table]),
        (ft.jit(ft.grad(lambda x: fnp.sum(ft.jit(fnp.sin)(x)))), [table]),
    ]:
        out = f(*args)
        assert (out.device, out.dtype) == ("cuda:0", np.float32)


@pytest.mark.gpu
def test_threads_have_default_devices_of_their_own():
    f = ft.jit(lambda n: fnp.ones(3) * n)
    seen = {}

    def work(device):
        with ft.default_device(device):
            for _ in range(3):
                seen[device] = f(2.0)

    threads = [threading.Thread(target=work, args=(d,)) for d in ("cpu", "cuda:0", "cpu")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == ["cpu", "cuda:0"]
    assert all(out.device == device for device, out in seen.items())
    assert f(2.0).device == "cpu"
    assert f.cache_size == 2
