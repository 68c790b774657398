"""Kernels of one's own under every transformation, on the CPU and, where there is one, on a GPU."""

import numpy
import pytest
from support.error_cases import check

import functensor as ft
import functensor.numpy as np
from functensor.custom.kernel_op import CustomOp, NoKernel
from functensor.primitives.core.errors import DeviceError, MissingRuleError, RuleResultError
from functensor.testing import check_grads

X = numpy.array([0.3, -0.5, 2.0])
MANY = numpy.stack([X, 2 * X, X - 1, X + 1])

SWISH = r"""
extern "C" __global__ void swish(const double *x, const double *rate, double *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1 + exp(-rate[i] * x[i]));
}
"""
ROWS = r"""
extern "C" __global__ void rows(const double *x, double *sum, double *largest, long long n) {
    x += blockIdx.x * n;
    if (threadIdx.x > 0) return;
    double total = 0, most = x[0];
    for (long long i = 0; i < n; ++i) {
        total += x[i];
        if (x[i] > most) most = x[i];
    }
    sum[blockIdx.x] = total;
    largest[blockIdx.x] = most;
}
"""
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def swish_by_numpy(x, rate):
    return x / (1 + numpy.exp(-rate * x))


def pull(g, ans, x, rate):
    s = 1 / (1 + np.exp(-rate * x))
    slope = x * s * (1 - s)
    return g * (s + rate * slope), g * x * slope


def push(ts, ans, x, rate):
    s = 1 / (1 + np.exp(-rate * x))
    slope = x * s * (1 - s)
    return ts[0] * (s + rate * slope) + ts[1] * x * slope


LETTERS = (
    lambda g, x, y: g * (1 / (1 + np.exp(-y * x)) + y * derivative(x, y)),
    lambda g, x, y: g * x * derivative(x, y),
)


def derivative(x, rate):
    s = 1 / (1 + np.exp(-rate * x))
    return x * s * (1 - s)


def kernels(source, name, plain):
    """Returns a kernel for each kind of device that there is."""
    found = {"cpu": plain}
    if "cuda:0" in ft.devices():
        import cupy

        found["cuda"] = cupy.RawKernel(source, name)
    return found


def swish(**rules):
    """Returns the operation that most tests are about."""
    made = kernels(SWISH, "swish", swish_by_numpy)
    return ft.custom_op(made, abstract=lambda x, rate: x, name="swish", batch=True, **rules)


RULES = {
    "vjp": {"vjp": pull},
    "jvp": {"jvp": push},
    "both": {"vjp": pull, "jvp": push},
    "letters": {"vjp": LETTERS},
    "letters forward": {"jvp": LETTERS},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_values_and_derivatives_of_both_modes(device, rules):
    op = swish(**rules)
    x, rate = ft.to_device((X, X + 1), device)
    numpy.testing.assert_allclose(
        ft.to_device(op(x, rate), "cpu"), swish_by_numpy(X, X + 1), rtol=1e-14
    )
    assert op(x, rate).device == x.device
    check_grads(op, (x, rate), order=2)
    check_grads(ft.vmap(op), (x, rate), order=1)


def each(op, device):
    """Returns what transformations make of an operation, all on the CPU."""
    x, many, ones = ft.to_device((X, MANY, numpy.ones_like(X)), device)

    def loss(x):
        return np.sum(op(x, ones) ** 2)

    found = {
        "grad": ft.grad(loss)(x),
        "vmap": ft.vmap(lambda x: op(x, ones))(many),
        "vmap of the last axis": ft.vmap(lambda x: op(x, ones), in_axes=1, out_axes=1)(many.T),
        "vmap of grad": ft.vmap(ft.grad(loss))(many),
        "grad of vmap": ft.grad(lambda m: np.sum(ft.vmap(lambda x: op(x, ones))(m) ** 2))(many),
        "hessian": ft.hessian(loss)(x),
        "jvp": ft.jvp(loss, (x,), (x,))[1],
        "checkpoint": ft.grad(ft.checkpoint(loss))(x),
        "staged": ft.make_program(ft.grad(loss))(x)(x),
        "twice": ft.vmap(ft.vmap(op, in_axes=(0, None)), in_axes=(None, 0))(many, np.stack([x])),
    }
    seen = []
    with ft.hooks.use(ft.hooks.FnHook(forward=lambda o, xs, out: seen.append(o.name))):
        found["hooked"] = ft.grad(loss)(x)
    assert ("custom_op" in seen) is (type(op) is CustomOp)
    t = ft.Tensor(x, requires_grad=True)
    (op(t, ones) ** 2).sum().backward()
    found["tensor"] = t.grad
    return ft.tree.map(lambda a: numpy.asarray(ft.to_device(np.asarray(a), "cpu")), found)


@pytest.mark.parametrize("device", DEVICES)
def test_it_lives_under_every_transformation(device):
    wanted = each(lambda x, rate: x / (1 + np.exp(-rate * x)), "cpu")
    for name, value in each(swish(vjp=pull), device).items():
        numpy.testing.assert_allclose(value, wanted[name], rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("device", DEVICES)
def test_several_outputs_and_a_launch_of_ones_own(device):
    op = ft.custom_op(
        kernels(ROWS, "rows", lambda x: (x.sum(-1), x.max(-1))),
        abstract=lambda x: (ft.ShapeDtype(x.shape[:-1], x.dtype),) * 2,
        launch=lambda x, total, most: (total.size, 32, (numpy.int64(x.shape[-1]),)),
        vjp=lambda g, ans, x: g[0][..., None] + g[1][..., None] * (x == ans[1][..., None]),
        batch=True,
    )
    x = ft.to_device(MANY, device)
    for total, most in (op(x), ft.vmap(op)(x), ft.make_program(op)(x)(x)):
        numpy.testing.assert_allclose(ft.to_device(total, "cpu"), MANY.sum(1))
        numpy.testing.assert_allclose(ft.to_device(most, "cpu"), MANY.max(1))
    got = ft.grad(lambda x: np.sum(op(x)[0]) + np.sum(op(x)[1] * op(x)[0]))(x)
    plain = ft.grad(lambda x: np.sum(x) + np.sum(np.max(x, -1) * np.sum(x, -1)))(MANY)
    numpy.testing.assert_allclose(ft.to_device(got, "cpu"), plain)
    assert [a.shape for a in op(np.zeros((0, 3), device=device))] == [(0,), (0,)]


@pytest.mark.gpu
def test_a_kernel_of_cupys_elementwise_class():
    import cupy

    kernel = cupy.ElementwiseKernel("T x, T y", "T z", "z = x * y * y", "weighted")
    op = ft.custom_op(
        kernel,
        abstract=lambda x, y: ft.ShapeDtype(numpy.broadcast_shapes(x.shape, y.shape), x.dtype),
        vjp=lambda g, ans, x, y: (g * y * y, np.sum(2 * g * x * y)),
        batch=True,
    )
    assert repr(op) == "<custom_op weighted>"
    for dtype in ("float32", "float64"):
        x, y = ft.to_device((MANY.astype(dtype), numpy.asarray(2.0, dtype)), "cuda")
        assert op(x, y).dtype == dtype
        numpy.testing.assert_allclose(ft.to_device(op(x, y), "cpu"), MANY * 4, rtol=1e-6)
        got = ft.vmap(op)(x, np.broadcast_to(y, (4,)))
        numpy.testing.assert_allclose(ft.to_device(got, "cpu"), MANY * 4, rtol=1e-6)
    # Numbers go to where the arrays are.
    assert ft.grad(lambda y: np.sum(op(x, y)))(2.0).tolist() == pytest.approx(4 * MANY.sum())


@pytest.mark.gpu
def test_nothing_waits_and_operands_are_read_as_they_lie():
    op = swish(vjp=pull)
    x = ft.to_device(MANY, "cuda")
    got = op(x.T[::2], np.ones_like(x.T[::2]))
    numpy.testing.assert_allclose(ft.to_device(got, "cpu"), swish_by_numpy(MANY.T[::2], 1.0))


def test_keyword_arguments_reach_the_kernel_and_the_rules():
    op = ft.custom_op(
        lambda x, *, power: x**power,
        abstract=lambda x, *, power: x,
        vjp=[lambda g, x, *, power: g * power * x ** (power - 1)],
        batch=lambda axes, x, *, power: op(x, power=power),
        name="power",
    )
    assert ft.grad(op)(2.0, power=3) == 12.0
    assert ft.vmap(lambda x: op(x, power=2))(X).tolist() == (X**2).tolist()
    check_grads(lambda x: op(x, power=3), (X,), order=3)
    assert "call=power, power=3" in str(ft.make_program(lambda x: op(x, power=3))(X))


def test_rules_of_batching_say_where_axes_are():
    axes_seen = []

    def rule(axes, a, b):
        axes_seen.append(axes)
        return np.einsum("...ij,...j->...i", a, b)

    op = ft.custom_op(
        numpy.matmul,
        abstract=lambda a, b: ft.ShapeDtype(a.shape[:1], a.dtype),
        vjp=lambda g, ans, a, b: (np.outer(g, b), g @ a),
        batch=rule,
    )
    a = numpy.arange(6.0).reshape(2, 3)
    got = ft.vmap(op, in_axes=(None, 0))(a, MANY)
    numpy.testing.assert_allclose(got, MANY @ a.T)
    assert axes_seen == [(None, 0)]
    check_grads(ft.vmap(op, in_axes=(None, 0)), (a, MANY), order=1)


def test_a_rule_may_use_another_operation():
    cosine = ft.custom_op(
        numpy.cos, abstract=lambda x: x, vjp=lambda g, ans, x: -g * sine(x), batch=True
    )
    sine = ft.custom_op(
        numpy.sin, abstract=lambda x: x, vjp=lambda g, ans, x: g * cosine(x), batch=True
    )
    check_grads(sine, (X,), order=3)
    numpy.testing.assert_allclose(ft.vmap(ft.grad(ft.grad(sine)))(X), -numpy.sin(X))


def test_what_a_function_writes_again_does_not_change_its_result():
    reused = numpy.zeros(3)

    def double(x):
        reused[:] = 2 * x
        return reused

    op = ft.custom_op(double, abstract=lambda x: x)
    first = op(X)
    op(5 * X)
    assert first.tolist() == (2 * X).tolist()

    def spoil(x):
        x[0] = 1.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        ft.custom_op(spoil, abstract=lambda x: x)(X)


# Missing and wrong parts

BARE = ft.custom_op(swish_by_numpy, abstract=lambda x, rate: x)
FIX = (
    "custom_op(kernel, abstract=..., vjp=lambda g, ans, *xs: cotangents), or "
    "jvp=lambda ts, ans, *xs: tangent"
)
DEFINED = f"swish_by_numpy ({__file__}:{swish_by_numpy.__code__.co_firstlineno})"


@pytest.mark.parametrize("mode", ["vjp", "jvp"])
def test_8_no_rule(mode):
    def f(x):
        return np.sum(BARE(x, x))

    calls = {"vjp": lambda: ft.grad(f)(X), "jvp": lambda: ft.jvp(f, (X,), (X,))}
    with pytest.raises(MissingRuleError) as info:
        calls[mode]()
    lines = str(info.value).splitlines()
    assert lines[0] == f"custom_op 'swish_by_numpy', {DEFINED}, has no {mode}"
    assert lines[-2:] == [f"  fix: {FIX}", "  see python -m functensor.errors 8"]


def test_8_no_batching_rule():
    check(
        MissingRuleError,
        lambda: ft.vmap(BARE)(MANY, MANY),
        f"custom_op 'swish_by_numpy', {DEFINED}, has no batching rule",
        "custom_op(kernel, ..., batch=True) if it broadcasts over axes in front, or "
        "batch=lambda axes, *xs: outputs",
        8,
        f"vmap(swish_by_numpy ({__file__}:{swish_by_numpy.__code__.co_firstlineno}))",
    )


WRONG = {
    "shape": (
        lambda: ft.custom_op(numpy.sum, abstract=lambda x: x)(X),
        r"'sum' has a kernel that returned float64\[\], but abstract= says float64\[3\]",
    ),
    "dtype": (
        lambda: ft.custom_op(numpy.sin, abstract=lambda x: ft.ShapeDtype(x.shape, "float32"))(X),
        r"'sin' has a kernel that returned float64\[3\], but abstract= says float32\[3\]",
    ),
    "number of outputs": (
        lambda: ft.custom_op(numpy.sin, abstract=lambda x: (x, x))(X),
        r"returned float64\[3\], but abstract= says float64\[3\], float64\[3\]",
    ),
    "batching rule": (
        lambda: ft.vmap(
            ft.custom_op(numpy.sin, abstract=lambda x: x, batch=lambda axes, x: x[0])
        )(MANY),
        r"has a batching rule that returned float64\[3\], expected float64\[4, 3\]",
    ),
    "cotangents": (
        lambda: ft.grad(
            lambda x: np.sum(
                ft.custom_op(numpy.sin, abstract=lambda x: x, vjp=lambda g, a, x: (g, g))(x)
            )
        )(X),
        "'sin' has a vjp that returned 2 for 1",
    ),
}


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_9_what_kernels_and_rules_return_is_checked(call, words):
    with pytest.raises(RuleResultError, match=words) as info:
        call()
    assert "python -m functensor.errors 9" in str(info.value)


def test_14_no_kernel_for_the_device():
    assert issubclass(NoKernel, DeviceError)
    op = ft.custom_op({"cuda": lambda x: x}, abstract=lambda x: x, name="there")
    check(
        NoKernel,
        lambda: op(X),
        "custom_op 'there' has no kernel for 'cpu'; it has one for 'cuda'",
        'ft.to_device(x, "cuda"), or custom_op({"cpu": f, ...}, ...)',
        14,
    )


@pytest.mark.gpu
def test_14_no_kernel_for_the_gpu():
    check(
        NoKernel,
        lambda: BARE(*ft.to_device((X, X), "cuda")),
        "custom_op 'swish_by_numpy' has no kernel for 'cuda'; it has one for 'cpu'",
        'ft.to_device(x, "cpu"), or custom_op({"cuda": f, ...}, ...)',
        14,
    )


def test_arguments_that_make_no_sense():
    with pytest.raises(ValueError, match="a kernel for each of 'tpu'; the kinds of devices are"):
        ft.custom_op({"tpu": numpy.sin}, abstract=lambda x: x)
    with pytest.raises(ValueError, match="a kernel for each of no device"):
        ft.custom_op({}, abstract=lambda x: x)
    with pytest.raises(ValueError, match="batch='loop'; it is True, a rule or None"):
        ft.custom_op(numpy.sin, abstract=lambda x: x, batch="loop")


@pytest.mark.parametrize("batch", [True, None])
def test_a_kernel_may_write_to_what_it_is_given_if_it_asks(batch):
    def in_place(x, y):
        assert x.flags.writeable
        assert x.flags.c_contiguous
        x *= y
        return x

    fun = ft.custom_op(
        in_place, abstract=lambda x, y: x, vjp=lambda g, ans, x, y: (g * y, g * x), batch=batch,
        writable=True,
    )
    x, y = np.asarray(numpy.arange(6.0).reshape(3, 2).T), np.asarray(numpy.full((2, 3), 3.0))
    before = numpy.array(x)
    for f in (fun, ft.jit(fun), *((ft.vmap(fun),) if batch else ())):
        numpy.testing.assert_array_equal(f(x, y), 3 * before)
    numpy.testing.assert_array_equal(ft.grad(lambda x: np.sum(fun(x, y)))(x), y)
    numpy.testing.assert_array_equal(x, before)
    buffer = numpy.ones((2, 3))
    fun(buffer, y)
    assert buffer.tolist() == [[1.0] * 3] * 2
