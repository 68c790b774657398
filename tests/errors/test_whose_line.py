"""Errors and warnings name the user's line and the public function, whoever stands in between."""

import copy
import inspect
import os
import pickle
import re
import subprocess
import sys
import traceback
import warnings

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.backends.errors.warnings import relocate_warnings

X = np.ones((3, 4))
V = np.ones(3)


def here(offset=0):
    """Returns ``file:line`` of the caller's line, or of one after it."""
    return f"{__file__}:{inspect.currentframe().f_back.f_lineno + offset}"


def told(error):
    """Returns what users read of an error."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def raised(call, *args):
    """Returns what a call raises."""
    with pytest.raises(Exception) as info:  # noqa: PT011
        call(*args)
    return info.value


# -- other libraries between the user and functensor


def test_calls_through_scipy_name_the_users_line():
    pytest.importorskip("scipy")
    program = (
        "import functensor as ft, functensor.numpy as np\n"
        "from scipy import signal, stats\n"
        "def told(call):\n"
        "    try: call(np.ones((3, 4)))\n"
        "    except Exception as e: print(e, *getattr(e, '__notes__', []), sep='\\n')\n"
        "told(ft.jit(lambda x: signal.butter(2, x[0, 0] / 2)))\n"
        "told(lambda x: stats.zscore(x, axis=7))\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.stderr == ""
    assert "\n  at <string>:6, through scipy\n" in run.stdout
    assert "fix: call scipy outside of the transformed function" in run.stdout
    assert "\nfunctensor.numpy.mean(float64[3, 4], axis=7, keepdims=True): axis 7" in run.stdout
    assert "\n  at <string>:7, through scipy\n  fix: an axis from -2 to 1" in run.stdout
    assert ".py:" not in run.stdout


def test_calls_through_numpy_name_the_users_line():
    line = here(1)
    text = told(raised(lambda: numpy.apply_along_axis(lambda r: r @ np.ones(9), 0, X)))
    assert f"\n  at {line}\n" in text


def test_a_function_that_a_library_calls_is_the_users():
    integrate = pytest.importorskip("scipy.integrate")

    def inner(t):
        return np.sum(V @ np.ones(5))

    text = told(raised(integrate.quad, inner, 0, 1))
    assert f"\n  at {__file__}:{inner.__code__.co_firstlineno + 1}\n" in text
    assert "through" not in text


@pytest.mark.parametrize("transform", [lambda f: f, ft.jit, ft.grad])
def test_an_item_that_a_library_writes_is_no_line_of_the_users(transform):
    scope = {"__name__": "scipy.made_up"}
    exec("def scaled(x):\n    x[0] = 2.0\n    x[1:] = 3.0\n    return x.sum()", scope)
    text = told(raised(transform(lambda x: scope["scaled"](x)), V))
    assert f"\n  at {__file__}:" in text
    assert ", through scipy\n" in text
    fix = "call scipy outside of transformed functions, with numpy.asarray(x)"
    assert f"\n  fix: {fix}, or functensor.scipy's function" in text


def test_a_library_that_functensor_calls_is_not_named():
    def objective(v):
        return np.sum(v) if v.shape == (4,) else v @ np.ones(4)

    text = told(raised(lambda: ft.scipy.optimize.minimize(objective, V, method="BFGS")))
    assert "\n  at " in text
    assert "through" not in text


# -- functions that are handed over


def boom(*args, **kwargs):
    return 1 / 0


def nothing(*args, **kwargs):
    return None


def few():
    return 1.0


def ruled(forward, backward):
    f = ft.custom_vjp(lambda x: x * 2)
    f.defvjp(forward, backward)
    return f


def hooked(f):
    with ft.hooks.use(ft.hooks.FnHook(forward=f)):
        return np.sin(V)


TAKING = {
    "pad": lambda f: np.pad(V, 2, f),
    "apply_along_axis": lambda f: np.apply_along_axis(f, 0, X),
    "apply_over_axes": lambda f: np.apply_over_axes(f, X, 0),
    "vectorize": lambda f: np.vectorize(f)(V),
    "piecewise": lambda f: np.piecewise(V, [V > 0], [f]),
    "fromfunction": lambda f: np.fromfunction(f, (2, 2)),
    "mask_indices": lambda f: np.mask_indices(3, f),
    "tree.map": lambda f: ft.tree.map(f, [1.0, 2.0]),
    "fwd": lambda f: ft.grad(ruled(f, lambda _, g: (g,)))(1.0),
    "bwd": lambda f: ft.grad(ruled(lambda x: (x, None), f))(1.0),
    "hook": hooked,
    "scan": lambda f: ft.scan(f, 0.0, V),
    "cond": lambda f: ft.jit(lambda p: ft.cond(p, f, f, V))(True),
    "while_loop": lambda f: ft.jit(lambda x: ft.while_loop(f, f, x))(V),
    "fori_loop": lambda f: ft.jit(lambda x: ft.fori_loop(0, 3, f, x))(V),
    "vmap": lambda f: ft.vmap(f)(V),
    "jit": lambda f: ft.jit(f)(V),
    "grad": lambda f: ft.grad(f)(V),
    "minimize": lambda f: ft.scipy.optimize.minimize(f, V, method="BFGS"),
    "odeint": lambda f: ft.scipy.integrate.odeint(f, 1.0, V.cumsum()),
}


@pytest.mark.parametrize("name", TAKING)
def test_what_a_users_function_raises_ends_at_its_line(name):
    error = raised(TAKING[name], boom)
    assert type(error) is ZeroDivisionError
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.filename, last.name) == (__file__, "boom")


@pytest.mark.parametrize("name", TAKING)
def test_a_users_function_of_other_arguments_is_named_with_its_line(name):
    text = told(raised(TAKING[name], few))
    assert "few() takes 0 positional arguments but" in text
    assert re.search(r"fix: def few\(a(, \w)*\): \.\.\. at (.*) takes what it", text)[2] == (
        f"{__file__}:{few.__code__.co_firstlineno}"
    )


@pytest.mark.parametrize("name", TAKING)
def test_no_message_about_a_users_function_names_a_line_of_functensor(name):
    for function in (nothing, few):
        said = ""
        try:
            TAKING[name](function)
        except Exception as error:
            said = told(error)
        assert not re.search(r"functensor/[\w/]+\.py|primitives/\w+\.py", said)


def test_piecewise_names_the_function_whose_result_does_not_fit():
    def wrong(x):
        return np.ones(7)

    text = told(raised(lambda: np.piecewise(V, [V > 0], [wrong])))
    assert f"wrong ({__file__}:{wrong.__code__.co_firstlineno}) returned float64[7]" in text


# -- attributes


@pytest.mark.parametrize("form", [lambda f: f, ft.grad, ft.jit, ft.vmap])
def test_what_an_attribute_raises_ends_at_the_users_line(form):
    names = [n for n in dir(V) if n[0] != "_"]
    names = [n for n in names if isinstance(inspect.getattr_static(V, n), property)]
    seen = []
    for name in names:

        def asked(x, name=name):
            getattr(x, name)
            return np.sum(x)

        try:
            form(asked)(X if form is ft.vmap else V)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            assert {f.filename for f in frames} == {__file__}, name
            seen.append(name)
    assert "mT" in seen


# -- warnings


def test_numpys_warnings_name_the_users_line_once_for_each():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        relocate_warnings()
        lines = []
        for _ in range(3):
            lines.append(here(1))
            np.log(V * 0)
        lines.append(here(1))
        V / 0.0
        lines.append(here(1))
        ft.grad(lambda x: np.exp(x * 1e5))(1.0)
    found = [f"{w.filename}:{w.lineno}" for w in seen]
    assert found == list(dict.fromkeys(lines))
    assert "divide by zero encountered in log" in str(seen[0].message)
    assert all(w.category is RuntimeWarning for w in seen)


def test_filters_of_the_users_module_decide():
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.filterwarnings("error", module=re.escape(__name__))
        relocate_warnings()
        line = here(1)
        error = raised(lambda: np.log(V * 0))
        assert type(error) is RuntimeWarning
        assert f"in functensor.numpy.log(float64[3])\n  at {line}" in told(error)
        assert traceback.extract_tb(error.__traceback__)[-1].filename == __file__
        with numpy.errstate(all="ignore"):
            np.log(V * 0)
        warnings.filterwarnings("ignore")
        np.log(V * 0)
    assert not seen


def test_warnings_of_others_are_left_alone():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        relocate_warnings()
        numpy.log(numpy.zeros(1))
        warnings.warn("overflow encountered in a test", RuntimeWarning, stacklevel=1)
        warnings.warn("mine", stacklevel=1)
        # Those who read filters find nothing of ours in the way.
        filters = pickle.loads(pickle.dumps(warnings.filters))
        assert filters == copy.deepcopy(warnings.filters) == warnings.filters
        assert not re.match(filters[0][1].pattern, "any text")
    assert [w.filename for w in seen] == [__file__] * 3


def test_importing_functensor_is_enough():
    program = (
        "import functensor.numpy as np\n"
        "for _ in range(2):\n"
        "    np.log(np.zeros(2))\n"
        "np.log(np.zeros(2))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == ""
    # Python 3.13 shows the line of the command below.
    assert [line for line in run.stderr.splitlines() if not line.startswith("  ")] == [
        "<string>:3: RuntimeWarning: divide by zero encountered in log",
        "<string>:4: RuntimeWarning: divide by zero encountered in log",
    ]
    command = [sys.executable, "-W", "error", "-c", program]
    error = subprocess.run(command, capture_output=True, text=True).stderr.splitlines()
    assert [line for line in error if "File" in line] == ['  File "<string>", line 3, in <module>']
    assert "RuntimeWarning: divide by zero encountered in log" in error


@pytest.mark.parametrize(
    ("flags", "first"),
    [
        ([], "warnings.filterwarnings('ignore', category=RuntimeWarning)"),
        ([], "warnings.simplefilter('ignore', RuntimeWarning)"),
        ([], "warnings.filterwarnings('ignore', '(?!)', RuntimeWarning)"),
        ([], "warnings.resetwarnings()"),
        (["-W", "ignore::RuntimeWarning"], ""),
        (["-W", "ignore"], ""),
    ],
)
def test_importing_functensor_loses_no_filter_of_the_users(flags, first):
    program = (
        "import numpy, sys, warnings\n"
        f"{first}\n"
        "before = warnings.filters[:]\n"
        "import functensor.numpy as np\n"
        "assert warnings.filters[1:] == before, warnings.filters\n"
        "from functensor.backends.errors.warnings import relocate_warnings\n"
        "relocate_warnings()\n"
        "assert warnings.filters[1:] == before, warnings.filters\n"
        "numpy.log(numpy.zeros(1)), np.log(np.zeros(1))\n"
    )
    command = [sys.executable, *flags, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert ("divide by zero" in run.stderr) == ("reset" in first or "?!" in first)
