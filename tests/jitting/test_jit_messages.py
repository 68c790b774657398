"""Messages of jitted functions when something goes wrong, and the names that catch it."""

import importlib
import pkgutil
import re
import warnings

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.trace import RAW
from functensor.programs.program import as_weak
from functensor.traces.forward import ForwardTrace, ForwardTracer

X = np.linspace(-1.0, 2.0, 3)


def said(error, f, *args):
    with pytest.raises(error) as caught:
        ft.jit(f)(*args)
    return str(caught.value)


# -- values that are not known

OUTSIDE = "compute with arrays, or pass the number in from outside"


@pytest.mark.parametrize(
    ("f", "code", "fix"),
    [
        (
            lambda n: ["a", "b"][n],
            '["a", "b"][n]',
            'np.asarray(["a", "b"])[n] for numbers, ft.switch(n, ["a", "b"], x) for functions',
        ),
        (lambda n: fnp.ones(n), "fnp.ones(n)", OUTSIDE),
        (lambda n: fnp.ones(6).reshape(n, 2), "fnp.ones(6).reshape(n, 2)", OUTSIDE),
    ],
)
def test_what_asks_for_a_number_is_named(f, code, fix):
    text = said(ft.errors.ConcretizationError, f, 3)
    assert text.startswith(f"{code} asked for the value of int64[], which depends on argument 0")
    assert text.splitlines()[-2] == (
        f"  fix: {fix}; or make the argument static: static_argnums=0"
    )


@pytest.mark.parametrize(
    ("f", "code"),
    [
        (lambda n: np.zeros(n), "np.zeros(n)"),
        (lambda n: np.empty(shape=2 * n), "np.empty(shape=2 * n)"),
        (lambda n: np.full(n, 2.0), "np.full(n, 2.0)"),
        (lambda n: np.random.default_rng(0).normal(size=n), None),
        (lambda n: bytes(n), "bytes(n)"),
    ],
)
@pytest.mark.parametrize("form", [ft.jit, ft.make_program, ft.vmap, lambda f: ft.jit(ft.vmap(f))])
def test_shapes_of_numpys_own_arrays(form, f, code):
    # NumPy puts a message of its own in the place of what an index raises.
    with pytest.raises(ft.errors.ConcretizationError) as caught:
        form(f)(np.array([2, 3]) if form not in (ft.jit, ft.make_program) else 3)
    code = code or "np.random.default_rng(0).normal(size=n)"
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"{code} asked for the value of int64[], which depends on argument ")
    assert lines[1] == f"  at {__file__}:{f.__code__.co_firstlineno}"
    assert lines[-1] == "  see python -m functensor.errors 5"
    # NumPy's own error is not shown.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert any(entry.frame.code.raw is f.__code__ for entry in caught.traceback)


def test_other_errors_of_the_same_instruction_stay():
    def f(n, *values):
        for value in values:
            try:
                np.zeros(n if value is None else value)
            except TypeError as error:
                last = error
        raise last

    with pytest.raises(TypeError, match="'str' object cannot be") as caught:
        ft.jit(f, static_argnums=(1, 2))(3, None, "a")
    assert type(caught.value) is TypeError


def test_loops_are_told_of_fori_loop():
    def f(n, x):
        for _ in range(n):
            x = fnp.sin(x)
        return x

    text = said(ft.errors.ConcretizationError, f, 3, X)
    assert text.startswith("range(n) asked for the value of int64[], which depends on argument 0")
    assert "fix: ft.fori_loop(0, n, body, init) instead of for/range; or make the argument " in text
    assert "static: static_argnums=0\n" in text


def test_code_without_a_source_or_on_many_lines_is_an_index():
    scope = {}
    exec("def f(n): return range(n)", scope)
    assert said(ft.errors.ConcretizationError, scope["f"], 3).startswith("an index asked for")
    text = said(
        ft.errors.ConcretizationError,
        lambda n: range(
            n
        ),
        3,
    )
    assert text.startswith("an index asked for")


@pytest.mark.parametrize("f", [lambda x, m: x[m], lambda x, m: x.at[m].set(X)])
def test_masks_of_unknown_values(f):
    text = said(ft.errors.ConcretizationError, f, X, X > 0)
    assert text.startswith(
        "x[mask], or x.at[mask].set(vector), asked for the number of true elements of bool[3], "
        "which depends on argument 1 (m), which is not known while the function is traced\n"
    )
    assert "fix: np.where(mask, x, 0), or x.at[mask].set(number): they keep the shape" in text


@pytest.mark.parametrize("value", ["relu", object()])
def test_what_is_no_array_can_be_static(value):
    with pytest.raises(TypeError) as info:
        ft.jit(lambda x, how: x)(X, value)
    kind = type(value).__name__
    assert f"argument 1 is of type {kind}, not an array" in str(info.value)
    (note,) = info.value.__notes__
    assert "\n  fix: make it static, static_argnums= or static_argnames=" in note
    with pytest.raises(TypeError, match=r"(?s)not an array.*fix: close over what is not an array"):
        ft.make_program(lambda x, how: x)(X, value)


def test_a_checkpoint_that_differs_names_each_level_once():
    calls = []

    @ft.checkpoint
    def bad(x):
        calls.append(1)
        return fnp.sin(x) if len(calls) == 1 else fnp.cos(x)

    text = said(ft.errors.ReplayError, ft.grad(lambda x: bad(x)), 1.0)
    assert transformations(text) == ["jit", "grad", "checkpoint"]


def transformations(text):
    """Returns the names of those that a message says that it is under."""
    (under,) = [line for line in text.splitlines() if line.startswith("  under ")]
    return re.findall(r"(\w+)\([\w<>]+ \(", under)


@pytest.mark.parametrize("options", [{}, {"policy": ft.checkpoint_policies.dots_saveable}])
def test_an_unknown_value_within_a_checkpoint_names_what_it_is_within(options):
    def sums(x):
        return fnp.sum(ft.checkpoint(lambda x: x if x.sum() > 0 else -x, **options)(x))

    text = said(ft.errors.ConcretizationError, ft.grad(sums), X)
    assert transformations(text) == ["jit", "grad", "checkpoint"]


WITHIN = {
    "vmap": ft.vmap,
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (x,)),
    "grad": lambda f: ft.grad(lambda x: fnp.sum(f(x))),
    "jit": ft.jit,
}
CHECKPOINTS = {
    "": lambda f: f,
    "checkpoint": ft.checkpoint,
    "saving": lambda f: ft.checkpoint(f, policy=ft.checkpoint_policies.dots_saveable),
}


NESTINGS = """
    vmap, jvp, grad, jit, vmap vmap, vmap jvp, vmap grad, vmap jit, jvp vmap, jvp jvp, grad vmap,
    grad jvp, grad grad, jit vmap, jit jvp, jvp vmap grad, grad jit vmap, jit grad vmap,
    vmap vmap jvp
"""


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("names", [names.strip() for names in NESTINGS.split(",")])
def test_every_transformation_is_named_in_order(names, checkpoint):
    def wrong(x):
        return fnp.sum(np.asarray(x))

    f = CHECKPOINTS[checkpoint](wrong)
    for name in reversed(names.split()):
        f = WITHIN[name](f)
    with pytest.raises(ft.errors.TracerConversionError) as caught:
        f(np.ones((2, 2, 2)))
    expected = names.split() + ["checkpoint"] * (checkpoint != "")
    assert transformations(str(caught.value)) == expected


@pytest.mark.parametrize("ask", [bool, float], ids=["bool", "float"])
def test_an_unknown_value_names_what_runs_within_its_own_transformation(ask):
    text = said(ft.errors.ConcretizationError, ft.grad(lambda x: x * ask(x > 0)), 1.0)
    assert transformations(text) == ["jit", "grad"]


# -- names


def test_every_error_and_warning_has_a_public_name():
    # Each of these is caught as the class that it derives from.
    inner = {"ComplexResultError", "NoStepError", "TracedListError", "Unlike", "Untold"}
    inner |= {"NoOutline", "NoState", "Mismatch", "_Unguarded"}
    found = {}
    for module in pkgutil.walk_packages(ft.__path__, "functensor."):
        if ".cuda" in module.name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for value in vars(importlib.import_module(module.name)).values():
                ours = getattr(value, "__module__", None) or ""
                if isinstance(value, type) and issubclass(value, Exception):
                    found |= {value.__name__: value} if ours.startswith("functensor") else {}
    assert found.keys() - inner == set(ft.errors.__all__) - {"explain"}
    for name in found.keys() - inner:
        assert getattr(ft.errors, name) is found[name]


# -- programs


def test_programs_are_shown_with_the_users_lines():
    program = ft.make_program(lambda x: fnp.sin(x))(X)
    first, equation, last = program.show(lines=True).splitlines()
    assert equation.startswith("    b: float64[3] = sin(a)  # ")
    assert "test_jit_messages.py:" in equation
    assert program.show() == str(program)
    assert "#" not in program.show()
    assert [first, last] == program.show().splitlines()[::2]


def test_a_tracer_that_others_hold_keeps_its_value():
    trace = ForwardTrace(RAW, "jvp", None)
    inner = trace.wrap(np.float64(2.0), np.float64(1.0))
    outer = ForwardTrace(trace, "jvp", None).wrap(inner, inner)
    for tracer in (inner, outer):
        out = as_weak(tracer, float)
        assert out is not tracer
        assert type(out) is ForwardTracer
        assert (out.owner, out.tangent) == (tracer.owner, tracer.tangent)
    assert type(inner.value) is np.float64
    assert outer.value is inner
    assert type(as_weak(inner, float).value) is float
    assert type(as_weak(outer, float).value.value) is float
    vector = trace.wrap(np.ones(3), np.ones(3))
    assert as_weak(vector, float) is vector
