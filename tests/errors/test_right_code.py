"""Errors of NumPy or Python in a public function name it, the place, and right code.

The functions and their parameters are found by walking the namespaces.
"""

import inspect
import re
import traceback
from importlib import import_module

import numpy
import pytest
from errors.test_misused_calls import CALLABLES, NAMESPACES
from errors.test_traced_parameters import NAMED, PARAMETERS, SAMPLES, called
from errors.test_whose_line import told
from support.error_cases import line_of

import functensor as ft
import functensor.numpy as np

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
P = inspect.Parameter
X = np.ones((3, 4))
V = np.ones(3)
AXES = [(name, f, p) for name, f, p in PARAMETERS if p.name in ("axis", "axes", "axis1", "axis2")]
# Axes of a shape that is not known yet, and of a metric that takes two operands.
OTHER_AXES = ("functensor.scipy.signal.convolve",)
COUNTS = [(n, f, p) for n, f, p in PARAMETERS if re.fullmatch(r"'?int'?", str(p.annotation))]
DRAWING = [
    (f"functensor.random.{name}", getattr(ft.random, name))
    for name in ft.random.__all__
    if inspect.isfunction(getattr(ft.random, name))
    and next(iter(inspect.signature(getattr(ft.random, name)).parameters), "") == "key"
]


def given_of(name, function):
    """Returns a value for each parameter that has no default."""
    required = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.default is P.empty and p.name in NAMED
    ]
    return {p: NAMED[p] for p in required} | SAMPLES.get(name.rpartition(".")[2], {})


def graded(call, value):
    """Returns what is wrong with the error of a call, by the rule."""
    try:
        call(value)
    except Exception as error:
        text = told(error)
        # The values that are allowed can be told where one is refused.
        fixed = "fix: " in text or (type(error) is ValueError and f"not {value!r}" in text)
        fixed = fixed or f"={value!r}: " in text
        return [] if "\n  at " in text and fixed else [text]
    return ["nothing is raised"]


def test_an_axis_that_is_not_there_is_answered_with_those_that_are():
    bad = []
    for name, function, p in AXES:
        if name in OTHER_AXES:
            continue
        call = called(function, p.name, given_of(name, function))
        faults = graded(call, 77)
        if faults and p.name == "axes":
            faults = graded(call, (77, 78))
        bad += [f"{name}, {p.name}: {fault}" for fault in faults]
    assert len(AXES) > 150
    assert not bad, f"{len(bad)}:\n" + "\n".join(bad)


def test_text_for_an_integer_is_answered_with_an_integer():
    bad = []
    for name, function, p in COUNTS:
        call = called(function, p.name, given_of(name, function))
        bad += [f"{name}, {p.name}: {fault}" for fault in graded(call, "a")]
    assert len(COUNTS) > 100
    assert not bad, f"{len(bad)}:\n" + "\n".join(bad)


def test_a_misspelt_dtype_is_answered_with_the_one_that_was_meant():
    bad, count = [], 0
    for module in NAMESPACES:
        if not module.startswith(("functensor.numpy", "functensor.random", "functensor.nn")):
            continue
        for name in import_module(module).__all__:
            function = getattr(import_module(module), name)
            if not callable(function) or isinstance(function, type):
                continue
            try:
                form = inspect.signature(function)
            except ValueError:
                continue
            known = given_of(name, function) | ({"axis": 0} if "cumulative" in name else {})
            lacking = [
                p
                for p in form.parameters.values()
                if p.default is P.empty and p.name not in known
                and p.kind not in (P.VAR_POSITIONAL, P.VAR_KEYWORD)
            ]
            if "dtype" not in form.parameters or lacking or name == "einsum":
                continue
            count += 1
            try:
                called(function, "dtype", known)("flot32")
            except TypeError as error:
                if 'did you mean \'float32\'?' not in told(error):
                    bad.append(f"{module}.{name}: {told(error)}")
            except Exception as error:
                bad.append(f"{module}.{name}: {type(error).__name__} {error}")
            else:
                bad.append(f"{module}.{name}: nothing is raised")
    assert count > 60
    assert not bad, f"{len(bad)} of {count}:\n" + "\n".join(bad)


@pytest.mark.parametrize("key", [3, (3,), V, None, "a"], ids=str)
def test_what_is_no_key_is_answered_with_how_to_make_one(key):
    for name, function in DRAWING:
        given = {**given_of(name, function), "key": key}
        with pytest.raises(TypeError) as info:
            called(function, "key", given)(key)
        text = told(info.value)
        assert name == "functensor.random.fold_in" or "expected a key, uint64[2]" in text
        assert "\n  at " in text
        assert "\n  fix: " in text
    with pytest.raises(TypeError) as info:
        ft.random.normal(key)
    assert "fix: random.key(seed) makes one" in told(info.value)
    assert len(DRAWING) > 30


TAKING = [
    (name, function, p.name)
    for name, function in CALLABLES
    for p in inspect.signature(function).parameters.values()
    if re.match("Callable|_Function", str(p.annotation)) and p.kind is not P.VAR_POSITIONAL
]
# Declarations of primitives check their arguments by errors of their own.
UNASKED = ("functensor.scipy.optimize.root", "callback")
DECLARING = ("functensor.extend.", "functensor.checkpoint_policies.", "functensor.tree.re")


def test_what_takes_a_function_refuses_what_is_none_at_once():
    bad, count = [], 0
    for name, function, parameter in TAKING:
        # SciPy's default solver asks for no callback either.
        if name.startswith(DECLARING) or (name, parameter) == UNASKED:
            continue
        args, kwargs, by_place = [], {}, True
        for p in inspect.signature(function).parameters.values():
            if p.kind in (P.VAR_POSITIONAL, P.VAR_KEYWORD):
                continue
            if p.name == parameter:
                value = V
            elif p.default is P.empty:
                value = np.sin if (name, function, p.name) in TAKING else SQUARES.get(p.name, V)
            else:
                by_place = False
                continue
            if by_place and p.kind is not P.KEYWORD_ONLY:
                args.append(value)
            else:
                kwargs[p.name] = value
        count += 1
        try:
            out = function(*args, **kwargs)
        except TypeError as error:
            text = told(error)
            if "function" not in text or "\n  at " not in text or "fix: " not in text:
                bad.append(f"{name}, {parameter}: {text}")
        except Exception as error:
            bad.append(f"{name}, {parameter}: {type(error).__name__}: {error}")
        else:
            bad.append(f"{name}, {parameter}: {out} is returned")
    assert count > 50
    assert not bad, f"{len(bad)} of {count}:\n" + "\n".join(bad)


SQUARES = {"A": numpy.eye(3), "args": (V,), "params": [ft.tensor([1.0], requires_grad=True)]}


MISTAKES = {
    "float of several": (lambda: float(V), "float(float64[3])", "x.item() of an array with one"),
    "truth of several": (lambda: bool(V), "bool(float64[3])", "x.any() or x.all()"),
    "an item of several": (lambda: V.item(), "Array.item()", "x.item() of an array with one"),
    "a fraction as an index": (lambda: V[1.5], "x[1.5]", "x[int(i)]"),
    "text as an index": (lambda: V["a"], "x['a']", "x[int(i)]"),
    "an index that is not there": (lambda: X[0, 5], "x[0, 5]", "an index from -4 to 3"),
    "too many indices": (lambda: X[:, 1:, 0], "x[:, 1:, 0]", "one index for each axis, at most 2"),
    "an update that is not there": (
        lambda: V.at[5].set(1.0), "x.at[i].set(1.0)", 'an index from -3 to 2, or mode="drop"'
    ),
    "a negative length": (lambda: np.zeros((-1, 2)), "zeros((-1, 2))", "lengths from 0 up"),
    "a negative power": (
        lambda: np.asarray([2]) ** -1, "power(int64[1], -1)", "x.astype(float) ** n"
    ),
    "bits of floats": (lambda: ~V, "invert(float64[3])", "x.astype(int) for bits"),
    "a fraction as a count": (lambda: np.linspace(0, 1, 2.0), "linspace(0, 1, 2.0)", "num=2"),
    "a method": (lambda: np.sin(V.sum), "sin(sum)", "call the method: x.sum()"),
    "nothing": (lambda: np.sin(None), "sin(None)", "give an array; a function without a return"),
    "PyTorch's dtype": (lambda: V.astype("torch.float64"), "astype('torch", 'dtype="float64"'),
    "reduce": (lambda: np.add.reduce(X, axis=7), "add.reduce(float64[3, 4], axis=7)", "an axis"),
    "accumulate": (
        lambda: np.maximum.accumulate(X, axis=7), "maximum.accumulate(float64[3, 4]", "an axis"
    ),
    "a singular matrix": (
        lambda: np.linalg.inv(np.zeros((2, 2))), "inv(float64[2, 2])", "lstsq and pinv take"
    ),
    "text under jit": (lambda: ft.jit(np.sin)("s"), "jit(sin)('s')", "make it static"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_names_the_call_the_line_and_right_code(name):
    call, called, fix = MISTAKES[name]
    with pytest.raises(Exception) as info:  # noqa: PT011
        call()
    text = told(info.value)
    assert called in text
    assert f"\n  at {line_of(info.tb, __file__)}\n  fix: " in text
    assert fix in text.rpartition("fix: ")[2]
    assert {f.filename for f in traceback.extract_tb(info.tb)} == {__file__}


def test_an_index_out_of_bounds_says_the_same_under_transformations():
    def wrong(x):
        return np.sum(x.at[5].set(1.0))

    def text(call):
        with pytest.raises(IndexError) as info:
            call(V)
        return told(info.value)

    for form in (ft.jit, ft.grad, lambda f: ft.vmap(f, in_axes=None, axis_size=2)):
        assert text(form(wrong)) == text(wrong)


def test_a_function_of_the_users_that_lacks_an_argument_is_to_be_given_it():
    def plane(x, y, z):
        return x * y * z

    with pytest.raises(TypeError) as caught:
        ft.draw(plane)(V)
    where = f"{__file__}:{plane.__code__.co_firstlineno}"
    fix = f"fix: pass 'y' and 'z' too, or write a default into plane at {where}"
    assert told(caught.value).splitlines()[-1].strip() == fix
