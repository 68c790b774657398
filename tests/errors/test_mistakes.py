"""Mistakes that newcomers make: what happened, where, which argument, and right code."""

import re
import subprocess
import sys
import traceback

import pytest
from support.error_cases import line_of

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.primitive import Unary
from functensor.primitives.core.registry import registry

X = np.ones(3)
W = np.ones((3, 3))
T = ft.Tensor([3.0, 1.0, 2.0], requires_grad=True)


def f(w):
    return np.sum(w)


MISTAKES = {
    "shape in pieces": (
        lambda: np.zeros(2, 3),
        "functensor.numpy.zeros: dtype=3 is no dtype: a shape is one argument, a tuple",
        "zeros((2, 3))",
    ),
    "longer shape in pieces": (
        lambda: np.ones(2, 3, 4),
        "functensor.numpy.ones: dtype=3 is no dtype: a shape is one argument, a tuple",
        "ones((2, 3, 4))",
    ),
    "arrays in pieces": (
        lambda: np.concatenate(X, X),
        (
            "functensor.numpy.concatenate: axis=float64[3] is an array, and an axis is an integer: "
            "arrays go in one sequence"
        ),
        "concatenate((x, y))",
    ),
    "stack in pieces": (
        lambda: np.stack(X, X),
        (
            "functensor.numpy.stack: axis=float64[3] is an array, and an axis is an integer: "
            "arrays go in one sequence"
        ),
        "stack((x, y))",
    ),
    "the larger of two": (
        lambda: X.max(X),
        (
            "Array.max: axis=float64[3] is an array, and an axis is an integer: this is the max of "
            "one array"
        ),
        "np.maximum(x, y) compares two, element by element",
    ),
    "arguments for positions": (
        lambda: ft.grad(f, W)(W),
        (
            "grad: argnums=float64[3, 3] is no position of an argument: an integer, or a tuple of "
            "integers"
        ),
        "grad(f)(x) passes x to the function; argnums=0 is the first argument",
    ),
    "positions for names": (
        lambda: ft.jacrev(f, argnames=0),
        "jacrev: argnames=0 is no name of an argument: a string, or several",
        'jacrev(f, argnames="x")',
    ),
    "a method's keyword": (
        lambda: T.var(corection=1),
        "Tensor.var() has no argument 'corection': did you mean 'correction'?",
        (
            "correction=, as in Tensor.var(dim=None, unbiased=True, keepdim=False, *, "
            "correction=None, axis=None, ddof=None, keepdims=False)"
        ),
    ),
    "an update's keyword": (
        lambda: ft.optim.adam(0.1).update(params=1.0, state=1.0, gradients=1.0),
        "Optimizer.update() has no argument 'gradients': did you mean 'grads'?",
        "grads=, as in Optimizer.update(params, state, grads)",
    ),
    "parameters for a state": (
        lambda: ft.optim.adam(0.1).update({"w": X}, {}, {"w": X}),
        "adam: the state is a dict, not an AdamState",
        "state = opt.init(params) is the first one, and update returns the next",
    ),
    "no state": (
        lambda: ft.optim.sgd(0.1).minimize(np.sum)(X, None),
        "sgd: the state is a NoneType, not a SgdState",
        "state = opt.init(params) is the first one, and update returns the next",
    ),
    "another algorithm's state": (
        lambda: ft.optim.adam(0.1).update(X, ft.optim.sgd(0.1).init(X), X),
        "adam: the state is a SgdState, not an AdamState",
        "state = opt.init(params) is the first one, and update returns the next",
    ),
    "a device where there is none": (
        lambda: np.sum(X, device="cpu"),
        "functensor.numpy.sum() has no argument 'device'",
        "ft.to_device(x, device)",
    ),
    "PyTorch's dim": (
        lambda: np.sum(X, dim=0),
        "functensor.numpy.sum() has no argument 'dim': did you mean 'axis'?",
        (
            "axis=, as in functensor.numpy.sum(a, axis=None, dtype=None, out=None, keepdims=False, "
            "initial=None, where=None)"
        ),
    ),
    "PyTorch's dim, a method": (
        lambda: X.sum(dim=0),
        "Array.sum() has no argument 'dim': did you mean 'axis'?",
        (
            "axis=, as in Array.sum(axis=None, dtype=None, out=None, keepdims=False, initial=None, "
            "where=None)"
        ),
    ),
    "PyTorch's keepdim": (
        lambda: np.max(X, keepdim=True),
        "functensor.numpy.max() has no argument 'keepdim': did you mean 'keepdims'?",
        (
            "keepdims=, as in functensor.numpy.max(a, axis=None, out=None, keepdims=False, "
            "initial=None, where=None)"
        ),
    ),
    "momentum": (
        lambda: ft.optim.SGD([T], 0.1, momentum=0.9),
        "functensor.optim.SGD() has no argument 'momentum'",
        "ft.optim.MomentumSGD(params, lr, momentum=0.9)",
    ),
    "a value for a function": (
        lambda: ft.grad(f(W)),
        "grad takes a function as 'fun', but got an Array, float64[]",
        "pass the function itself and call what comes back: grad(f)(x), not grad(f(x))",
    ),
    "a value for a function, jit": (
        lambda: ft.jit(f(W)),
        "jit takes a function as 'fun', but got an Array, float64[]",
        "pass the function itself and call what comes back: jit(f)(x), not jit(f(x))",
    ),
    "a value for a function, at once": (
        lambda: ft.vjp(f(W), W),
        "functensor.vjp takes a function as 'fun', but got an Array, float64[]",
        "pass the function itself and its arguments: vjp(f, x), not vjp(f(x), x)",
    ),
    "a shape for data": (
        lambda: ft.Tensor(2, 3),
        (
            "Tensor(2, 3): the second argument is requires_grad, True or False, and the first is "
            "the data"
        ),
        "ft.tensor(np.zeros((2, 3))) is a tensor of a shape, ft.Tensor([2, 3]) one of two numbers",
    ),
    "an option of an update": (
        lambda: X.at[0].set(1.0, mod="drop"),
        "x.at[i].set() has no argument 'mod': did you mean 'mode'?",
        "one of indices_are_sorted, unique_indices, mode, wrap_negative_indices",
    ),
    "no pair": (
        lambda: ft.grad(f, has_aux=True)(X),
        (
            "has_aux=True is for a function that returns a pair (output, extras), but f returned "
            "one value, float64[]"
        ),
        "return output, extras, or leave has_aux out",
    ),
    "no pair, forward": (
        lambda: ft.jvp(f, (X,), (X,), has_aux=True),
        (
            "has_aux=True is for a function that returns a pair (output, extras), but f returned "
            "one value, float64[]"
        ),
        "return output, extras, or leave has_aux out",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_whole_message(name):
    call, what, fix = MISTAKES[name]
    with pytest.raises(TypeError) as info:
        call()
    line = line_of(info.tb, __file__)
    assert str(info.value) == f"{what}\n  at {line}\n  fix: {fix}"


@pytest.mark.parametrize("options", [{"out": X}, {"where": X > 0}], ids=["out", "where"])
def test_refusals_call_a_function_by_its_public_name(options):
    ft.nn.relu, ft.scipy.special.expit  # noqa: B018 - modules are imported when they are used
    known = [p for p in registry if isinstance(p, Unary) and p.public and p.prepare is None]
    for primitive in known:
        with pytest.raises(ft.errors.ImmutableArrayError) as info:
            primitive(X, **options)
        name = primitive.public.replace("functensor.numpy.", "np.")
        assert f"{name}(...)" in str(info.value).partition("fix: ")[2]
    assert {"functensor.nn.relu", "functensor.numpy.sin"} <= {p.public for p in known}


CALLS_WITH_FUNCTIONS = {
    name: getattr(ft, name)
    for name in (
        *("grad", "value_and_grad", "elementwise_grad", "vmap", "jit", "jacrev", "jacfwd"),
        *("jacobian", "hessian", "checkpoint", "custom_vjp", "custom_jvp", "custom_gradient"),
        *("make_program", "vjp", "jvp", "linearize", "eval_shape", "linear_transpose", "hvp"),
    )
}


@pytest.mark.parametrize("name", CALLS_WITH_FUNCTIONS)
def test_a_transformation_refuses_what_is_no_function_at_once(name):
    more = {"jvp": [(X,), (X,)], "hvp": [(X,), (X,)]}.get(name, [])
    if name in ("vjp", "linearize", "eval_shape", "linear_transpose"):
        more = [X]
    with pytest.raises(TypeError, match=rf"{name} takes a function as 'fun\w*', but got an Array"):
        CALLS_WITH_FUNCTIONS[name](f(X), *more)


def test_a_pair_without_has_aux():
    with pytest.raises(ft.errors.NonScalarOutputError) as info:
        ft.grad(lambda w: (f(w), w))(X)
    text = str(info.value)
    assert "the output is a tuple (float64[], float64[3]), not a scalar" in text
    assert "has_aux=True" in text
    assert "Tracer" not in text


AXES = {
    "sum": lambda: np.sum(X, 5),
    "expand_dims": lambda: np.expand_dims(X, 7),
    "concatenate": lambda: np.concatenate([X, X], 5),
    "mean": lambda: np.mean(X, axis=5),
    "softmax": lambda: ft.nn.softmax(X, 5),
    "Array.sum": lambda: X.sum(5),
    "Array.cumsum": lambda: X.cumsum(5),
}


@pytest.mark.parametrize("name", AXES)
def test_an_axis_that_is_not_there_names_the_operation_and_the_line(name):
    with pytest.raises(IndexError) as info:  # what NumPy's error is as well
        AXES[name]()
    assert type(info.value).__name__ == "AxisError"
    pattern = rf"[\w.]*{re.escape(name)}\(\[?float64\[3\].*: axis \d is out of bounds"
    if not name.startswith("Array"):
        assert re.match(pattern, str(info.value)), str(info.value)
    else:
        assert str(info.value).startswith(f"{name}(")
    assert info.value.axis in (5, 7)
    ndim = info.value.ndim
    fix = f"an axis from {-ndim} to {ndim - 1}; -1 is the last one"
    assert info.value.__notes__ == [f"  at {line_of(info.tb, __file__)}\n  fix: {fix}"]


def test_an_axis_under_a_transformation_names_the_line_within():
    def wrong(x):
        return np.sum(np.cumsum(x, axis=4))

    with pytest.raises(IndexError, match=r"functensor\.numpy\.cumsum\(.*axis 4") as info:
        ft.jit(ft.grad(wrong))(X)
    (note,) = info.value.__notes__
    line, fix = note.splitlines()
    assert line == f"  at {__file__}:{wrong.__code__.co_firstlineno + 1}"
    assert fix == "  fix: an axis from -1 to 0; -1 is the last one"


def test_other_errors_name_the_call_and_the_line_in_a_note():
    with pytest.raises(ValueError) as info:  # noqa: PT011
        np.linspace(0.0, 1.0, -3)
    (note,) = info.value.__notes__
    assert note.splitlines() == [
        "  in functensor.numpy.linspace(0.0, 1.0, -3)",
        f"  at {line_of(info.tb, __file__)}",
    ]


# -- names that there are not

NAMES = [
    (np, "sine", "functensor.numpy has no 'sine': did you mean 'sin'?"),
    (ft, "cat", "functensor has no 'cat': use functensor.numpy.concat"),
    (ft, "exp", "functensor has no 'exp': use functensor.numpy.exp"),
    (np, "relu", "functensor.numpy has no 'relu': use functensor.nn.relu"),
    (ft, "vmapp", "functensor has no 'vmapp': did you mean 'vmap'?"),
    (ft.nn, "Linear", "functensor.nn has no 'Linear': layers are functions of weights"),
    (np.linalg, "eighh", "functensor.numpy.linalg has no 'eighh': did you mean 'eigh'?"),
    (ft.random, "randn", "functensor.random has no 'randn': use functensor.random.normal(key"),
    (ft.scipy, "specal", "functensor.scipy has no 'specal': did you mean 'special'?"),
    (ft.optim, "SDG", "functensor.optim has no 'SDG': did you mean 'SGD'?"),
    (ft.optim, "adaam", "functensor.optim has no 'adaam': did you mean 'adam'?"),
    (ft.optim, "Adaam", "functensor.optim has no 'Adaam': did you mean 'Adam'?"),
    (np.linalg, "invert", "functensor.numpy.linalg has no 'invert': did you mean 'inv'?"),
    (np.linalg, "power", "functensor.numpy.linalg has no 'power': did you mean 'matrix_power'?"),
    (np.linalg, "sqrt", "functensor.numpy.linalg has no 'sqrt': use functensor.numpy.sqrt"),
    (ft.scipy.linalg, "sqrt", "functensor.scipy.linalg has no 'sqrt': did you mean 'sqrtm'?"),
    (ft.tree, "flaten", "functensor.tree has no 'flaten': did you mean 'flatten'?"),
    (ft.errors, "ShapError", "functensor.errors has no 'ShapError': did you mean 'ShapeError'?"),
    (X, "backward", "'Array' object has no attribute 'backward': gradients are of functions"),
    (X, "detach", "'Array' object has no attribute 'detach': ft.stop_gradient(x)"),
    (X, "unsqueeze", "'Array' object has no attribute 'unsqueeze': np.expand_dims(x, axis)"),
]


@pytest.mark.parametrize(("place", "name", "words"), NAMES, ids=[name for _, name, _ in NAMES])
def test_a_name_that_is_not_there_is_answered_with_one_that_is(place, name, words):
    with pytest.raises(AttributeError, match=f"^{re.escape(words)}") as info:
        getattr(place, name)
    assert "".join(traceback.format_exception(info.value)).lower().count("did you mean") <= 1
    assert not hasattr(place, name)


def test_tensors_have_what_arrays_are_told_not_to_have():
    assert T.detach().numpy().tolist() == [3.0, 1.0, 2.0]
    assert T.unsqueeze(0).shape == (1, 3)


def test_dir_lists_public_names_alone():
    assert "sin" in dir(np)
    assert "publish" not in dir(ft.nn)


# -- tensors are not immutable


def test_a_sort_of_tensors_is_pytorchs():
    torch = pytest.importorskip("torch")
    data = [[3.0, 1.0, 2.0, 1.0], [0.0, float("nan"), -1.0, 0.0]]
    for options in ({}, {"dim": 0}, {"descending": True, "stable": True}, {"stable": True}):
        theirs = torch.tensor(data).sort(**options) if "stable" not in options else torch.sort(
            torch.tensor(data), **options
        )
        ours = ft.tensor(data).sort(**options)
        assert str(ours.values.tolist()) == str(theirs.values.tolist())
        if "stable" in options:
            assert ours.indices.tolist() == theirs.indices.tolist()
    x = ft.Tensor([3.0, 1.0, 2.0], requires_grad=True)
    (x.sort().values * ft.Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [100.0, 1.0, 10.0]


@pytest.mark.parametrize(
    ("call", "fix"),
    [(lambda x: x.fill(1.0), "x[...] = value")],
)
def test_what_tensors_lack_of_numpys_methods_does_not_call_them_immutable(call, fix):
    with pytest.raises(ft.errors.ImmutableArrayError) as info:
        call(T)
    assert "immutable" not in str(info.value)
    assert f"fix: {fix}" in str(info.value)


# -- where messages point


def test_every_number_of_a_message_is_explained():
    sections = ft.errors.explain().splitlines()
    numbers = [int(line.partition(".")[0]) for line in sections]
    assert len(numbers) > 15
    for number, title in zip(numbers, sections, strict=True):
        assert ft.errors.explain(number).startswith(title)
        assert "```python" in ft.errors.explain(number)
    with pytest.raises(ValueError, match="there is no error 99; there are 1, 2"):
        ft.errors.explain(99)


def test_what_a_message_says_to_run_runs():
    with pytest.raises(ft.errors.ShapeError) as info:
        X + np.ones(4)
    command = str(info.value).splitlines()[-1].removeprefix("  see ").split()
    assert command[:3] == ["python", "-m", "functensor.errors"]
    run = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True)
    assert run.stdout.strip() == ft.errors.explain(16)
    assert run.stderr == ""
    run = subprocess.run([sys.executable, *command[1:3], "99"], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.startswith("there is no error 99; there are 1, 2")


def test_tensors_have_their_messages_whichever_name_is_asked_for_first():
    program = (
        "import functensor as ft\n"
        "try: ft.tensor([1.0]).backward(gradiant=1)\n"
        "except TypeError as error: print(error)"
    )
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert said.startswith("Tensor.backward() has no argument 'gradiant': did you mean 'gradient'?")
