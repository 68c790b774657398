"""The steps of every example and program that trains something give jitted the same numbers."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support.long_forms import with_slow

import functensor as ft
from functensor import nn, optim, tree

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# The makers of functions that a program calls once a step, and a number of steps that is enough.
STEPS = 2
TRAINERS = {
    "cuda_kernel": ["minimize"],
    "linear_regression": ["minimize"],
    "newton": ["grad", "hessian"],
    "per_example_gradients": ["minimize"],
    "train_digits": ["value_and_grad"],
}
# Memory or another backend is their point, or a step is no function of arrays.
OTHERS = {"activation_offloading", "backend", "digits", "tensor_digits"}
# These are jitted themselves.
JITTED = {
    "feature_visualisation",
    "find_a_nan",
    "gradient_clipping_hook",
    "rnn",
    "sparse_activations",
}
PROGRAMS = {
    "bayesian_network_hmc": ["value_and_grad"],
    "character_lstm": ["value_and_grad"],
    "drum": ["value_and_grad"],
    "fluid_simulation": ["value_and_grad"],
    "gaussian_mixture": ["value_and_grad"],
    "gaussian_process": ["value_and_grad"],
    "kalman_filter": ["value_and_grad"],
    "logistic_regression": ["grad", "hessian"],
    "springs": ["grad"],
    "variational_inference": ["grad"],
    "wave_inverse_design": ["value_and_grad"],
}
# Its loss is minimized inside of the library.
INSIDE = {"ode_fit"}


class Compared:
    """A function that is called jitted too, which has to give the same.

    Attributes:
        times: how often that was done.
    """

    times = 0

    def __init__(self, fun):
        self.fun = fun
        self.jitted = ft.jit(fun)

    def __call__(self, *args):
        wanted = self.fun(*args)
        if Compared.times < 4 * STEPS:
            got = self.jitted(*args)
            for a, b in zip(tree.leaves(got), tree.leaves(wanted), strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                rtol = 2e-4 if b.dtype == np.float32 else 1e-8
                largest = np.max(np.abs(np.asarray(b)), initial=0)
                np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * largest)
            Compared.times += 1
        return wanted


def compared(make):
    """Returns a transformation whose results are compared with themselves jitted."""
    return lambda *args, **kwargs: Compared(make(*args, **kwargs))


@pytest.fixture(autouse=True)
def few_steps(monkeypatch, tmp_path):
    """Sees to it that programs do little, and find each other."""
    monkeypatch.setenv("FUNCTENSOR_EXAMPLE_STEPS", str(STEPS))
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    monkeypatch.setattr(sys, "argv", ["example", "--output", str(tmp_path), "--batch-size", "8"])
    monkeypatch.setattr(Compared, "times", 0)


def loaded(path):
    """Runs a program's source and returns its names."""
    names = {"__name__": path.stem, "__doc__": ""}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


def test_all_that_train_are_here():
    found = {path.stem for path in EXAMPLES.glob("*.py")}
    assert found == TRAINERS.keys() | OTHERS | JITTED
    assert {path.stem for path in EXAMPLES.glob("programs/*.py")} == PROGRAMS.keys() | INSIDE


@pytest.mark.parametrize("name", TRAINERS)
def test_steps_of_examples(name, monkeypatch):
    for transformation in TRAINERS[name]:
        holder = optim.Optimizer if transformation == "minimize" else ft
        monkeypatch.setattr(holder, transformation, compared(getattr(holder, transformation)))
    names = loaded(EXAMPLES / f"{name}.py")
    if "digits" in names:
        monkeypatch.setattr(names["digits"], "plot_losses", lambda *args: None)
        monkeypatch.setattr(names["digits"], "plot_predictions", lambda *args: None)
    names["main"]()
    assert Compared.times >= STEPS


@pytest.mark.parametrize("name", sorted(JITTED))
def test_jitted_examples_print_the_same_without_jit(name, capsys):
    main = loaded(EXAMPLES / f"{name}.py")["main"]
    main()
    printed = capsys.readouterr().out
    with ft.disable_jit():
        main()
    # An error names the transformations that there are.
    printed = re.sub(r"  under jit\(.*?\) of ", "  under ", printed)
    assert capsys.readouterr().out == printed != ""


@pytest.mark.parametrize("name", with_slow(PROGRAMS, {"kalman_filter"}))
def test_steps_of_programs(name, monkeypatch):
    names = {}
    for transformation in PROGRAMS[name]:
        monkeypatch.setattr(ft, transformation, compared(getattr(ft, transformation)))
    names = loaded(EXAMPLES / "programs" / f"{name}.py")
    names["run"](STEPS) if name != "springs" else names["run"](STEPS, masses=200)
    assert Compared.times >= STEPS


def test_a_fit_of_differential_equations():
    names = loaded(EXAMPLES / "programs" / "ode_fit.py")
    times = np.linspace(0.0, 2.0, 5)
    params = {"rates": np.log([1.0, 0.4, 0.2, 0.6]), "start": np.log([4.0, 2.0])}
    counts = np.asarray(names["solution"](params, times)) * 1.1
    Compared(ft.value_and_grad(names["misfit"]))(params, times, counts)


def test_losses_of_tensors_may_be_jitted():
    network = loaded(EXAMPLES / "tensor_digits.py")["Network"](ft.random.key(0))
    images = np.random.default_rng(0).random((4, 1, 8, 8), "float32")
    labels = np.array([1, 2, 3, 4])

    def loss(parameters, images, labels):
        conv1, bias1, conv2, bias2, out, bias3 = parameters
        x = nn.relu(nn.conv(images, conv1, bias1, padding="SAME"))
        x = nn.relu(nn.conv(x, conv2, bias2, padding="SAME"))
        x = nn.max_pool(x, 2).reshape(len(images), -1) @ out + bias3
        return nn.softmax_cross_entropy(x, labels).mean()

    tensors = network.parameters()
    jitted = ft.jit(loss)
    found = []
    for f in (loss, jitted, jitted):
        for tensor in tensors:
            tensor.grad = None
        value = f(tensors, images, labels)
        value.backward()
        found.append([value.item(), *(np.asarray(x.grad) for x in tensors)])
    assert found[0][0] == nn.softmax_cross_entropy(network(images), labels).mean().item()
    for row in found[1:]:
        for a, b in zip(row, found[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)
    assert jitted.cache_size == 1
