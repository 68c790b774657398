"""Augmented assignment in libraries written for NumPy: right, or refused, never lost."""

import dis
import os
import subprocess
import sys

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.augmented_assignment import watch
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.bytecode import reads_after
from functensor.primitives.core.errors import ImmutableArrayError
from functensor.testing import check_grads

X = np.arange(1.0, 7.0)

# Functions as a library would have them; NumPy's result is the right one.
LIBRARY = """
def lost(x):
    a = x * 1
    v = a[1:3]
    v += 1.0
    return a

def lost_in_a_loop(x):
    a = x * 1
    for i in range(2):
        total = a.sum()
        v = a.reshape(2, 3)
        v *= 2.0
    return total

def lost_through_two_views(x):
    a = x * 1
    v = a.reshape(2, 3).T[1:]
    v -= a.sum()
    return a * 1

def other_way(x):
    a = x * 1
    v = a[::-1]
    a /= 2.0
    return v

def not_read_again(x):
    a = x * 1
    v = a[1:3]
    v += 1.0
    return v

def read_before(x):
    a = x * 1
    first = a.sum()
    v = a[1:]
    v += first
    a = v * 2
    return a

def own_name(x):
    x = x[1:]
    x += 1.0
    x **= 2
    return x

def no_view(x):
    a = x * 1
    v = a * 2
    v -= a
    return a + v

def apart(x):
    a = x * 1
    v, w = a[:2], a[2:4]
    v += w
    return v * w

def other_name(x):
    a = x * 1
    b = a
    b += 1.0
    return a

def type_of_other_name(x):
    a = x * 1
    b = a
    b += 1.0
    return b * a.shape[0] + a.ndim

def copied(x):
    a = x * 1
    b = a.copy()
    b += 1.0
    return a + b
"""
SCOPE = {"__name__": "scipy.made_up"}
exec(LIBRARY, SCOPE)
LOST = ["lost", "lost_in_a_loop", "lost_through_two_views", "other_way"]
RIGHT = ["not_read_again", "read_before", "own_name", "no_view", "apart", "type_of_other_name"]
RIGHT += ["copied"]
FORMS = {
    "eager": lambda f: lambda x: f(x),
    "grad": lambda f: ft.grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: ft.vmap(f)(fnp.stack([x, x])),
    "jit": ft.jit,
    "jit of grad": lambda f: ft.jit(ft.grad(lambda x: f(x).sum())),
    "vmap of grad": lambda f: lambda x: ft.vmap(ft.grad(lambda x: f(x).sum()))(fnp.stack([x, x])),
}


@pytest.fixture(autouse=True)
def asked():
    watch()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", LOST)
def test_a_write_that_would_be_lost_is_refused(name, form):
    with pytest.raises(ImmutableArrayError, match=rf"{name} of scipy writes into a view") as caught:
        form(SCOPE[name])(wrap(X))
    assert "scipy.made_up, line " in str(caught.value)
    assert "functensor.errors 3" in str(caught.value)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_left_alone(name, form):
    function = SCOPE[name]
    np.testing.assert_allclose(function(wrap(X)), function(X.copy()), rtol=1e-14)
    form(function)(wrap(X))
    check_grads(function, (wrap(X),), order=1)


def test_a_write_by_another_name_is_refused():
    # Of traced values copies may be the same object, so that it is not seen there.
    with pytest.raises(ImmutableArrayError, match="other_name of scipy writes into"):
        SCOPE["other_name"](wrap(X))


def test_users_rebind_names():
    a = wrap(X)
    v = a[1:3]
    v += 1.0
    v *= a[0]
    np.testing.assert_array_equal(v, X[1:3] + 1.0)
    np.testing.assert_array_equal(a, X)
    with pytest.raises(TypeError, match="unsupported operand"):
        v += "a"


def test_variables_read_afterwards():
    def code(a, b, c):
        for i in a:
            b += i
            c = 2
            d = a
        return c, d

    offsets = [s.offset for s in dis.get_instructions(code) if s.opname == "BINARY_OP"]
    target, read = reads_after(code.__code__, offsets[0])
    assert (target, read) == ("b", {"a"})


SCIPY = """
import numpy as np, pytest, scipy.integrate, scipy.signal, scipy.stats
import functensor as ft, functensor.numpy as fnp
from functensor.errors import ImmutableArrayError
x, y = np.random.default_rng(0).normal(size=50), np.arange(6.0)
def oaconvolve(x, y):
    return scipy.signal.oaconvolve(x, y)
refused = {
    "false_discovery_control": lambda x, y: scipy.stats.false_discovery_control(0 * x + 0.1),
    "iircomb": lambda x, y: scipy.signal.iircomb(200.0, 30.0, fs=2000.0, xp=fnp),
}
for call in refused.values():
    with pytest.raises(ImmutableArrayError):
        call(fnp.asarray(x), fnp.asarray(y))
# Up to SciPy 1.17 it writes into a view; in later versions it updates by index.
modes = [lambda f: f, ft.jit, lambda f: ft.grad(lambda x, y: f(x, y).sum())]
writes = tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 18)
for mode in modes if writes else ():
    with pytest.raises(ImmutableArrayError, match="oaconvolve of scipy writes"):
        mode(oaconvolve)(fnp.asarray(x), fnp.asarray(y))
if not writes:
    ours, wanted = (fnp.asarray(x), fnp.asarray(y)), (oaconvolve(x, y), np.full(50, y.sum()))
    for mode, expected in zip(modes[1:], wanted):
        np.testing.assert_allclose(mode(oaconvolve)(*ours), expected, rtol=1e-12, atol=1e-12)
right = {} if writes else {"oaconvolve": oaconvolve}
right |= {
    "fftconvolve": lambda x, y: scipy.signal.fftconvolve(x, y),
    "resample_poly": lambda x, y: scipy.signal.resample_poly(x, 3, 2, padtype="mean"),
    "freqz": lambda x, y: abs(scipy.signal.freqz(x, y + 1)[1]),
    "hypotheses": lambda x, y: scipy.stats.brunnermunzel(x, y).pvalue,
    "mannwhitneyu": lambda x, y: scipy.stats.mannwhitneyu(x, y).pvalue,
    "iqr": lambda x, y: scipy.stats.iqr(x),
    "romb": lambda x, y: scipy.integrate.romb(x[:33]),
    "circstd": lambda x, y: scipy.stats.circstd(x),
    "savgol": lambda x, y: scipy.signal.savgol_coeffs(5, 2, deriv=1, xp=None) * x[0],
}
for name, call in right.items():
    got, wanted = call(fnp.asarray(x), fnp.asarray(y)), call(x, y)
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-9, atol=1e-12, err_msg=name)
"""


def test_scipys_functions_are_right_or_refused():
    done = subprocess.run(
        [sys.executable, "-c", SCIPY],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
