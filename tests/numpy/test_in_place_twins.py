"""Functions of NumPy's that work in place are right with our arrays, or raise."""

import inspect
import itertools
import random
import warnings

import numpy as np
import pytest

import functensor.numpy as fnp
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.errors import ImmutableArrayError
from functensor.primitives.core.numpy_protocols import WRITING_FUNCTIONS

M = np.array([[3.0, 1.0, 2.0], [0.0, 8.0, 4.0], [7.0, 5.0, 6.0]])
RNG = np.random.default_rng(0)
# Methods of NumPy's arrays that change them.
IN_PLACE = {"byteswap", "fill", "partition", "put", "resize", "setfield", "setflags", "sort"}

# Calls that change x where it is NumPy's.
CALLS = {
    "np.copyto": lambda x: np.copyto(x, 5.0),
    "np.copyto, named": lambda x: np.copyto(src=5.0, dst=x),
    "np.fill_diagonal": lambda x: np.fill_diagonal(x, 5.0),
    "np.place": lambda x: np.place(x, M > 1, [5.0]),
    "np.put": lambda x: np.put(x, [0], [5.0]),
    "np.put, named": lambda x: np.put(v=[5.0], a=x, ind=[0]),
    "np.put_along_axis": lambda x: np.put_along_axis(x, np.array([[0]]), 5.0, 1),
    "np.putmask": lambda x: np.putmask(x, M > 1, 5.0),
    "np.nan_to_num": lambda x: np.nan_to_num(x, copy=False),
    "fnp.fill_diagonal": lambda x: fnp.fill_diagonal(x, 5.0),
    "fnp.put_along_axis": lambda x: fnp.put_along_axis(x, np.array([[0]]), 5.0, 1),
    "fnp.nan_to_num": lambda x: fnp.nan_to_num(x, copy=False),
    "np.add.at": lambda x: np.add.at(x, [0], 1.0),
    "np.sin.at": lambda x: np.sin.at(x, [0]),
    "fnp.add.at": lambda x: fnp.add.at(x, [0], 1.0),
    "np.modf": lambda x: np.modf(x, out=(x, x)),
    "np.add.reduce": lambda x: np.add.reduce(x, out=x[0]),
    "np.add.accumulate": lambda x: np.add.accumulate(x, out=x),
    "np.add.outer": lambda x: np.add.outer(x, x[0], out=fnp.zeros((3, 3, 3))),
    "x.byteswap": lambda x: x.byteswap(inplace=True),
    "x.fill": lambda x: x.fill(1.0),
    "x.partition": lambda x: x.partition(1),
    "x.put": lambda x: x.put(0, 1.0),
    "x.resize": lambda x: x.resize((2,)),
    "x.setfield": lambda x: x.setfield(1.0, float),
    "x.setflags": lambda x: x.setflags(write=True),
    "x.sort": lambda x: x.sort(),
    "x[]": lambda x: x.__setitem__(0, 1.0),
    "x.flat[]": lambda x: x.flat.__setitem__(0, 1.0),
    "random.shuffle": lambda x: random.shuffle(x),
}
# NumPy's own compiled code refuses these, or Python does. `Generator.random(out=x)` is not among
# them: NumPy takes any object for an array there and reads memory behind it, which may crash.
OTHERS = {
    "nditer": lambda x: np.nditer(x, op_flags=["readwrite"]),
    "Generator.permuted": lambda x: RNG.permuted(x, out=x),
    "masked": lambda x: np.ma.array(x, copy=False).__setitem__(0, 1.0),
    "asarray": lambda x: np.asarray(x).__setitem__(0, 1.0),
    "place in asarray": lambda x: np.place(np.asarray(x), M > 1, [5.0]),
    **{
        f"x.{name} =": lambda x, name=name: setattr(x, name, 1)
        for name in ("T", "data", "dtype", "flat", "flags", "imag", "mT", "real", "shape")
    },
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_would_change_an_array_says_so(call):
    x = wrap(M.copy())
    with pytest.raises(ImmutableArrayError, match="immutable") as caught:
        call(x)
    assert "\n  fix: " in str(caught.value)
    np.testing.assert_array_equal(x, M)


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
def test_what_others_would_change_raises(call):
    x = wrap(M.copy())
    with pytest.raises((AttributeError, TypeError, ValueError)):
        call(x)
    np.testing.assert_array_equal(x, M)


@pytest.mark.filterwarnings("ignore:you are shuffling")
@pytest.mark.parametrize("shuffle", [np.random.shuffle, RNG.shuffle], ids=["old", "new"])
def test_shuffling_raises(shuffle):
    x = wrap(M.copy())
    with pytest.raises(ImmutableArrayError, match="immutable"):
        shuffle(x)
    np.testing.assert_array_equal(x, M)


# Arguments that go with an array that is changed.
BESIDE = [
    (), (5.0,), (1,), (M > 1, [5.0]), ([0], [5.0]), (np.array([[0]]), 5.0, 1), (M[::-1].copy(),),
    (True,),
]  # fmt: skip


def changes(function):
    """Says whether a function of NumPy's changes its first argument, with any of the others."""
    for rest in BESIDE:
        x = M.copy()
        try:
            with np.errstate(all="ignore"):
                function(x, *rest)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            continue
        if not np.array_equal(x, M):
            return True
    return False


def functions_of(space):
    """Returns what can be called in a namespace, by name, without what writes files or prints."""
    left_out = ("save", "tofile", "dump", "info", "show", "set", "test", "frombuffer")
    return {
        name: function
        for name, function in list(vars(space).items())
        if not name.startswith(("_", *left_out))
        and callable(function)
        and not isinstance(function, type | np.ufunc)
    }


@pytest.mark.filterwarnings("ignore")
def test_all_of_numpys_in_place_functions_and_methods_are_here():
    assert {name for name, f in functions_of(np).items() if changes(f)} == set(WRITING_FUNCTIONS)
    assert {f"np.{name}" for name in WRITING_FUNCTIONS} <= set(CALLS)
    methods = {name for name, f in functions_of(np.ndarray).items() if changes(f)}
    assert {"byteswap", "fill", "partition", "put", "sort"} <= methods <= IN_PLACE
    assert {f"x.{name}" for name in IN_PLACE} <= set(CALLS)


def writes(function):
    """Says whether one of NumPy's functions takes an array to write into."""
    if isinstance(function, np.ufunc):
        return True
    try:
        return "out" in inspect.signature(function).parameters
    except (TypeError, ValueError, DeprecationWarning):
        return ", out=None" in (function.__doc__ or "")


WHOLE = M.astype(int)
# Arguments that one or another function takes.
ARGUMENTS = [
    (M,), (M, M), (WHOLE,), (WHOLE, WHOLE), (M, WHOLE), (WHOLE, [M] * 9), ([True, False, True], M),
    (M, 0.5), (M, 0.0, 1.0), ("ij->j", M), ([M, M],), (M[0],), (M, 2), (M, M[0]), (M[0], M),
    ([M, M, M],),
]  # fmt: skip


def arguments_of(function):
    """Returns arguments that a function of NumPy's takes, and what it makes of them."""
    # Arguments in a deprecated form are taken for functions that are deprecated themselves alone.
    for action, args in itertools.product(("error", "ignore"), ARGUMENTS):
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter(action, DeprecationWarning)
                return args, function(*args)
        except (TypeError, ValueError, DeprecationWarning):
            continue
    return None


WRITING_INTO = {
    f"{space}{name}": arguments_of(function)
    for space in ("", "linalg.", "fft.")
    for name, function in list(vars(getattr(np, space[:-1]) if space else np).items())
    if not name.startswith("_") and callable(function) and writes(function)
}
# They are about dates.
LEFT_OUT = {"isnat", "busday_count", "busday_offset", "is_busday"}


def ours(x):
    """Returns arguments as arrays of ours."""
    if isinstance(x, np.ndarray):
        return wrap(x.copy())
    return [ours(item) for item in x] if isinstance(x, list) else x


def test_functions_that_write_are_found():
    names = {"add", "dot", "sum", "take", "clip", "cumsum", "concatenate", "nanmax", "fft.ifft"}
    assert names <= set(WRITING_INTO)
    assert {name for name, found in WRITING_INTO.items() if found is None} <= LEFT_OUT


@pytest.mark.filterwarnings(r"ignore:numpy\.\w+ is deprecated")
@pytest.mark.parametrize("name", sorted(set(WRITING_INTO) - LEFT_OUT))
def test_nothing_is_written_into_an_array(name):
    args, result = WRITING_INTO[name]
    results = result if isinstance(result, tuple) else (result,)
    module, _, function = f".{name}".rpartition(".")
    for namespace in (fnp, np):
        for part in module.split(".")[1:]:
            namespace = getattr(namespace, part)
        outs = tuple(wrap(np.array(r)) for r in results)
        call = getattr(namespace, function)
        with pytest.raises(ImmutableArrayError, match="immutable") as caught:
            call(*map(ours, args), out=outs if isinstance(result, tuple) else outs[0])
        assert "\n  fix: " in str(caught.value)
        for out, wanted in zip(outs, results, strict=True):
            np.testing.assert_array_equal(out, wanted)
