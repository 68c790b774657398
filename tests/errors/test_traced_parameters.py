"""Every parameter for integers of every public function of arrays, given one that is traced.

The parameters are found by walking the signatures. Either the result is that of the plain integer,
or the error is ours: it names the public function and the parameter, and says what to write.
"""

import copy
import gc
import inspect
import pickle
import re
import weakref
from functools import cache
from importlib import import_module
from itertools import product

import numpy
import pytest
from errors.test_misused_calls import NAMESPACES, PLAIN

import functensor as ft
import functensor.numpy as np
from functensor.errors import ConcretizationError
from functensor.primitives.core.ufunc_facts import Ufunc

P = inspect.Parameter
BY_PLACE = (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
OPEN = (P.VAR_POSITIONAL, P.VAR_KEYWORD)
WALKED = re.compile(r"functensor\.(numpy|scipy|nn|random)\b")
# Parameters for integers that are annotated more widely, since they take several, or None.
WIDER = {
    *("axis", "axes", "shape", "size", "s", "n", "N", "num", "shift", "repeats", "reps", "kth"),
    *("obj", "indices_or_sections", "pad_width", "window", "stride", "padding", "dilation"),
    *("output_padding", "deg", "bins", "newshape", "total_repeat_length", "minlength", "ddof"),
    *("correction", "offset", "decimals", "ndmin", "source", "destination", "sections", "dims"),
    "d",
}
# Parameters of such a name that take an array, a word, a path, names, or only None.
OTHERS = {
    ("functensor.numpy.convolve", "mode"),
    ("functensor.numpy.correlate", "mode"),
    ("functensor.numpy.einsum_path", "optimize"),
    ("functensor.numpy.vectorize", "excluded"),
    ("functensor.scipy.linalg.sqrtm", "blocksize"),
    ("functensor.scipy.signal.resample", "window"),
    ("functensor.scipy.signal.filtfilt", "irlen"),
}
# Functions that depend on no array: of files, text, and settings of the process.
APART = {
    *("array_repr", "array_str", "base_repr", "binary_repr", "load", "setbufsize", "fromstring"),
    *("fromiter", "frombuffer", "fromfile"),
}
X = numpy.arange(12.0).reshape(3, 4)
CUBE = numpy.arange(8.0).reshape(2, 2, 2)
SQUARE = numpy.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]])
V = numpy.array([3.0, 1.0, 2.0, 5.0])
ROW = numpy.array([0.1, 0.4, 0.2, 0.3])
WIDE = numpy.sin(numpy.arange(400.0)).reshape(20, 20)
BYTES = numpy.array([[3, 7], [1, 2]], "u1")
INDEX = numpy.array([[2, 0, 1, 1]])
PLACES = numpy.array([2, 0, 1])
KEY = ft.random.key(0)
IMAGE = numpy.arange(50.0).reshape(1, 2, 5, 5)
SOS = numpy.array([[0.2, 0.4, 0.2, 1.0, -0.3, 0.1]])
# The integers to try; the first that the function takes untraced is traced.
VALUES = (1, 0, 2, 3, -1, 4, 5)
# Values of parameters, by their names.
NAMED = {
    **dict.fromkeys(["x", "a", "y", "b", "x1", "x2", "m", "array", "ary", "arr", "filt"], X),
    **dict.fromkeys(["z", "p", "values", "object", "prototype", "v", "f", "keys", "sample"], X),
    **dict.fromkeys(["data", "samples", "A", "scores", "compare", "input"], X),
    **dict.fromkeys(["ar1", "ar2", "ar", "w", "q"], V),
    "key": KEY, "n": 4, "k": 2, "N": 4, "M": 4, "num": 5, "start": 1.0, "stop": 2.0,
    "shape": (2, 3),
    "axis": 0, "axis1": 0, "axis2": 1, "indices": PLACES, "dims": (3, 4), "kth": 1, "d": 2,
    "obj": 1, "df": 2.0, "scale": 1.0, "condition": X > 3, "fill_value": 1.0, "arrays": [X, X],
    "indices_or_sections": 1, "target": 7, "repeats": 2, "reps": 2, "shift": 1, "deg": 1,
    "source": 0, "destination": 1, "window": 2, "mode": 0.5, "left": 0.0, "right": 1.0,
    "lower": -1.0, "upper": 1.0, "lam": 2.0, "minval": 0, "maxval": 9, "dfnum": 2.0, "dfden": 3.0,
    "beta": 1.0, "concentration": 1.0, "logits": X, "labels": PLACES, "targets": X, "groups": 2,
    "log_predictions": X, "num_classes": 3, "in1": V, "in2": V, "mean": numpy.zeros(3),
    "cov": SQUARE, "alpha": V, "pad_width": 1, "window_length": 5, "polyorder": 2, "sos": SOS,
    "f_obs": V, "pk": ROW, "ps": ROW, "popmean": 1.0, "proportiontocut": 0.2, "lmb": 0.5,
    "bins": numpy.sort(V), "coordinates": [V], "xi": numpy.arange(4.0), "yi": V,
    "condlist": [X > 3], "choicelist": [X], "dimensions": (2, 3), "axes": (0, 1),
}  # fmt: skip
# Values of the others, by the functions' names.
SAMPLES = {
    "avg_pool": {"x": IMAGE, "window": 2},
    "max_pool": {"x": IMAGE, "window": 2},
    "conv": {"x": IMAGE, "w": numpy.ones((2, 2, 2, 2))},
    "conv_transpose": {"x": IMAGE, "w": numpy.ones((2, 2, 2, 2)), "stride": 2},
    "variance_scaling": {"mode": "fan_in", "distribution": "normal"},
    "apply_along_axis": {"func1d": np.sum},
    "apply_over_axes": {"func": np.sum},
    "fromfunction": {"function": np.add},
    "packbits": {"a": PLACES},
    "unpackbits": {"a": BYTES},
    "ravel_multi_index": {"multi_index": (PLACES, PLACES)},
    "mask_indices": {"mask_func": np.tril},
    "put_along_axis": {"indices": INDEX, "inplace": False},
    "squeeze": {"a": IMAGE},
    "take_along_axis": {"indices": INDEX},
    "compress": {"condition": numpy.array([True, False, True]), "size": 2, "axis": 0},
    "polyder": {"p": V},
    "polyint": {"p": V},
    "polyfit": {"x": ROW, "y": V},
    "vander": {"x": V},
    "quantile": {"q": 0.5},
    "nanquantile": {"q": 0.5},
    "percentile": {"q": 50},
    "nanpercentile": {"q": 50},
    "cross": {"a": SQUARE, "b": SQUARE},
    "insert": {"values": 7.0},
    "dsplit": {"ary": IMAGE},
    "bincount": {"x": PLACES},
    "matrix_power": {"a": SQUARE},
    "tensorinv": {"a": numpy.eye(4)},
    "tensorsolve": {"a": SQUARE, "b": V[:3]},
    "eigh": {"a": SQUARE, "b": SQUARE},
    "eigvalsh": {"a": SQUARE, "b": SQUARE},
    "matvec": {"x1": SQUARE, "x2": SQUARE},
    "vecmat": {"x1": SQUARE, "x2": SQUARE},
    "lu_solve": {"lu_and_piv": ft.scipy.linalg.lu_factor(SQUARE), "b": V[:3]},
    "solve_banded": {"ab": numpy.ones((3, 4)) + numpy.eye(3, 4), "b": V},
    "solve_triangular": {"a": SQUARE, "b": V[:3]},
    "map_coordinates": {"input": V, "order": 1},
    "convolve": {"in1": X, "in2": X},
    "convolve2d": {"in1": X, "in2": X},
    "correlate2d": {"in1": X, "in2": X},
    "lfilter": {"b": [1.0, 0.5], "a": [1.0, 0.2], "x": X},
    "filtfilt": {"b": [1.0, 0.5], "a": [1.0, 0.2], "x": WIDE},
    "sosfiltfilt": {"x": WIDE},
    "savgol_filter": {"x": WIDE},
    "bartlett": {"*samples": (X, X + V)},
    "f_oneway": {"*samples": (X, X + V)},
    "levene": {"*samples": (X, X + V)},
    "pmean": {"a": X + 1, "p": 2.0},
}
# Values of parameters that take several integers.
WRITTEN = (lambda n: n, lambda n: (n,), lambda n: (n, 0), lambda n: (n, 2), lambda n: (n, 4))
WRITTEN += (lambda n: ([n], [n]), lambda n: [(n, 1), 0, 0], lambda n: [0, (n, 1), 0])
FORMS = {
    "jit": lambda f, n: ft.jit(f)(n),
    "vmap": lambda f, n: ft.tree.map(lambda x: x[0], ft.vmap(f)(numpy.array([n]))),
}


def is_for_integers(p):
    """Says whether a parameter is one for an integer."""
    annotated = re.search(r"\bint\b", str(p.annotation)) is not None
    return p.kind not in OPEN and (annotated or type(p.default) is int or p.name in WIDER)


def parameters():
    """Yields the public functions that have such a parameter, and the parameter."""
    for module in filter(WALKED.match, NAMESPACES):
        namespace = import_module(module)
        for name in namespace.__all__:
            value = getattr(namespace, name)
            plain = inspect.isfunction(value) or isinstance(value, ft.extend.Primitive)
            if not plain or name in APART:
                continue
            for p in inspect.signature(value).parameters.values():
                # Ufuncs other than those of matrices refuse these, whatever is given.
                if isinstance(value, Ufunc) and p.name in ("axis", "axes"):
                    continue
                if is_for_integers(p) and (f"{module}.{name}", p.name) not in OTHERS:
                    yield f"{module}.{name}", value, p


def called(function, parameter, given):
    """Returns a function of the integer, and of nothing else."""
    form = inspect.signature(function).parameters.values()

    def call(n):
        args, kwargs, by_place = [], {}, True
        for p in form:
            if p.name == parameter:
                value = n
            elif p.name in given:
                value = given[p.name]
            elif p.kind is P.VAR_POSITIONAL:
                args += given.get(f"*{p.name}", ())
                by_place = False
                continue
            else:
                by_place = False
                continue
            if by_place and p.kind in BY_PLACE:
                args.append(value)
            else:
                kwargs[p.name] = value
        out = function(*args, **kwargs)
        # An initializer, or a function of the same kind, is called as well.
        return out(KEY, (3, 4)) if inspect.isroutine(out) else out

    return call


def leaves(out):
    """Returns the arrays of a result."""
    return [numpy.asarray(x) for x in ft.tree.leaves(out) if not isinstance(x, str)]


@cache
def sample(name, function, parameter):
    """Returns a call of an integer, an integer that it takes, and the result; or None."""
    known = SAMPLES.get(name.rpartition(".")[2], {})
    required = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.default is P.empty and p.kind not in OPEN
    ]
    given = {p: NAMED[p] for p in required if p in NAMED} | known
    if any(p not in given and p != parameter for p in required):
        return None
    call = called(function, parameter, given)
    for shown, value in product(WRITTEN, VALUES):
        def asked(n, shown=shown):
            return call(shown(n))

        try:
            return asked, value, leaves(asked(value))
        except Exception:
            continue
    return None


def faults(name, p, form, call, value, wanted):
    """Returns what is wrong with a call of a traced integer, by the rule."""
    try:
        got = leaves(FORMS[form](call, value))
    except ft.errors.ConcretizationError as error:
        text = str(error)
        said = re.search(r"plain value is wanted for '(\w+)' of ([\w.]+)\(\)\n", text)
        right = said and said[1] == p.name and PLAIN[said[2]] is PLAIN[name]
        at = all(part in text for part in (f"\n  at {__file__}:", "\n  fix: "))
        # An integer was given, and is asked for: not what was computed of it.
        at = at and "the value of bool[]" not in text
        return [] if right and at else [f"is told: {text}"]
    except Exception as error:
        return [f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}"]
    for x, y in zip(got, wanted, strict=True):
        if x.shape != y.shape or not numpy.allclose(x, y, equal_nan=True):
            return [f"returns {x}, not {y}"]
    return []


PARAMETERS = list(parameters())
PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::functensor.errors.RetraceWarning")
def test_every_parameter_for_integers_takes_a_traced_one_or_says_its_name(form, part):
    bad = []
    for name, function, p in PARAMETERS[part::PARTS]:
        known = sample(name, function, p.name)
        if known is None:
            bad.append(f"{name}, {p.name}: there is no sample of a call")
        else:
            bad += [f"{name}, {p.name}: {fault}" for fault in faults(name, p, form, *known)]
    assert len(PARAMETERS) > 500
    assert not bad, f"{len(bad)}:\n" + "\n".join(bad)


# -- errors hold nothing of what was traced

KEPT = []
ASKING = {
    "bool": lambda x: x if x > 0 else -x,
    "float": float,
    "number": lambda x: numpy.zeros(x),
    "shape": lambda x: np.full(x, 1.0),
    "axis": lambda x: np.sum(np.ones((2, 3)), axis=x),
    "list": lambda x: np.reshape(np.ones(6), [2, x]),
    "of NumPy": lambda x: np.array_split(np.ones(6), x),
    "value": lambda x: np.unique(np.ones(6) * x),
    "repeats": lambda x: np.repeat(np.ones(2), x),
}


def error_of(call):
    """Returns what a call raises, as one keeps it who reads the message alone."""
    try:
        call()
    except TypeError as error:
        return error.with_traceback(None)
    return None


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("form", [ft.jit, ft.vmap, lambda f: ft.grad(ft.jit(f), allow_int=True)])
def test_errors_are_pickled_and_copied(name, form):
    error = error_of(lambda: form(ASKING[name])(np.ones(1, int) if form is ft.vmap else 3))
    assert isinstance(error, ConcretizationError)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)


@pytest.mark.filterwarnings("ignore::functensor.programs.staging_warnings.StagingWarning")
@pytest.mark.parametrize("name", ASKING)
def test_errors_that_are_kept_are_no_leaks(name):
    def f(x):
        KEPT.append(error_of(lambda: ASKING[name](x)))
        return x * 2

    with ft.config.using(check_tracer_leaks=True):
        assert ft.jit(f)(3) == 6
    assert all(isinstance(error, TypeError) for error in KEPT)
    KEPT.clear()


@pytest.mark.parametrize("name", ASKING)
def test_errors_that_are_kept_keep_no_program(name):
    seen = []

    def f(x):
        seen.append(weakref.ref(x))
        return ASKING[name](x)

    error = error_of(lambda: ft.jit(f)(3))
    gc.collect()
    assert isinstance(error, ConcretizationError)
    assert [traced() is None for traced in seen] == [True]
