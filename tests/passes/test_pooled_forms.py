"""Ways back through the maxima of windows: what is rewritten, and that it computes the same."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.passes.kernel_forms import kernel_forms
from functensor.passes.pipeline import optimized
from functensor.passes.pooled_forms import pooled_forms

# The lengths of windows, their steps, and what lies around images.
WINDOWS = {
    "squares": (2, None, 0),
    "with gaps": ((1, 2), (2, 3), 0),
    "overlapping": ((3, 2), (2, 1), 0),
    "padded": ((3, 2), (2, 1), ((1, 1), (0, 1))),
}


def loss(x, bias, windows):
    """Relu of a sum, the maxima of windows, and a number of which each has another cotangent."""
    y = nn.max_pool(nn.relu(x + bias.reshape(3, 1, 1)), *windows)
    weights = np.arange(y.size).reshape(y.shape) + 1.0
    return fnp.sum(fnp.sin(y) * weights)


def arguments(dtype="d"):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 3, 7, 6)).astype(dtype)
    return x, rng.normal(size=3).astype(dtype)


def programs(function, *args):
    """Returns a program as plans on the CPU have it, and in the form for GPUs."""
    made = kernel_forms(optimized(ft.make_program(function)(*args)))
    return made, pooled_forms(made)


def names(program):
    return [equation.primitive.name for equation in program.equations]


def shape_of_operand(program, name):
    (equation,) = [e for e in program.equations if e.primitive.name == name]
    return equation.operands[0].type.shape


@pytest.mark.parametrize("name", WINDOWS)
def test_gradients_are_the_same(name):
    args = arguments()
    before, after = programs(ft.value_and_grad(lambda *a: loss(*a, WINDOWS[name]), (0, 1)), *args)
    assert names(before).count("pool_scatter") == names(after).count("pool_scatter") == 1
    # The mask is computed for windows, and maxima are computed once.
    assert shape_of_operand(before, "relu_grad") == args[0].shape
    windows = shape_of_operand(after, "max_pool_argmax"), shape_of_operand(after, "relu_grad")
    assert windows[0] == args[0].shape != windows[1]
    assert names(after).count("max_pool") == 1
    value, by_x, by_bias = before.run(list(args))
    other, by_other_x, by_other_bias = after.run(list(args))
    assert value == other
    np.testing.assert_array_equal(by_x, by_other_x)
    np.testing.assert_allclose(by_bias, by_other_bias, 1e-13)


def sums(program):
    """Returns the shapes of what is summed to a number for each channel."""
    found = [e for e in program.equations if e.primitive.name == "sum"]
    return [e.operands[0].type.shape for e in found if e.outputs[0].type.shape == (3,)]


def test_sums_of_channels_are_those_of_windows():
    args = arguments()
    for name, less in (("squares", True), ("padded", False)):
        gradient = ft.grad(lambda *a, name=name: loss(*a, WINDOWS[name]), (0, 1))
        before, after = programs(gradient, *args)
        assert sums(before) == [args[0].shape]
        assert (sums(after) != sums(before)) == less


@pytest.mark.parametrize(("value", "wanted"), [(np.nan, 0), (np.inf, 1), (-np.inf, 0)])
def test_windows_with_what_is_no_number(value, wanted):
    x = np.full((1, 1, 2, 2), -1.0)
    x[0, 0, 1, 0] = value
    gradient = ft.grad(lambda x: fnp.sum(nn.max_pool(nn.relu(x), 2)))
    for program in programs(gradient, x):
        (found,) = program.run([x])
        assert np.asarray(found).ravel().tolist() == [0, 0, wanted, 0]


@pytest.mark.parametrize("x", [[5, np.nan, 1, 2], [np.nan, 5, np.nan, 2], [1, 2, 3, np.nan]])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_the_first_nan_of_a_window_wins(x, dtype):
    x = np.array(x, dtype).reshape(1, 1, 2, 2)
    place = np.flatnonzero(np.isnan(x))[0]
    wanted = np.where(np.arange(4) == place, 3.0, 0.0)
    for function, factor in ((lambda x: x, 1), (nn.relu, 0)):
        gradient = ft.grad(lambda x, f=function: fnp.sum(3 * nn.max_pool(f(x), 2)))
        runs = [lambda x, p=p: p.run([x])[0] for p in programs(gradient, x)]
        for run in (gradient, ft.jit(gradient), *runs):
            np.testing.assert_array_equal(np.ravel(run(x)), factor * wanted)


@pytest.mark.parametrize(
    "function",
    [
        # The mask is of other elements than those whose maxima were taken.
        lambda x, y: nn.relu(y) * ft.grad(lambda z: fnp.sum(nn.max_pool(z, 2) ** 2))(x),
        # Sums along other axes.
        lambda x, y: fnp.sum(ft.grad(lambda z: fnp.sum(nn.max_pool(z, 2) ** 2))(x), axis=(0, 2)),
    ],
    ids=["another mask", "other axes"],
)
def test_what_stays(function):
    x, _ = arguments()
    before, after = programs(function, x, x + 1)
    assert names(before) == names(after)
