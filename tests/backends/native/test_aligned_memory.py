"""Arrays that begin with a line of the cache, in memory that a handler of NumPy's takes."""

import ctypes
import gc
import pickle
import sys

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name
from support.native import missing, run_python

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.native import aligned_memory
from functensor.backends.native.aligned_memory import ALIGNED_FROM, LINE, aligned_empty

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)
FLOATS = ALIGNED_FROM // 4
OWN = "functensor: whole lines"


def address(x):
    return x.__array_interface__["data"][0]


def test_large_arrays_begin_with_a_line():
    held = [aligned_empty((FLOATS + i,), np.dtype(np.float32)) for i in range(40)]
    assert {address(x) % LINE for x in held} == {0}
    assert {get_handler_name(x) for x in held} == {OWN}
    assert all(x.base is None and x.flags.owndata and x.flags.writeable for x in held)


def test_small_arrays_and_those_of_others_have_numpys_handler():
    assert get_handler_name(aligned_empty((FLOATS - 1,), np.dtype(np.float32))) != OWN
    aligned_empty((FLOATS,), np.dtype(np.float32))
    assert get_handler_name() == get_handler_name(np.empty(FLOATS, np.float32)) != OWN


def test_the_handler_is_set_back_where_memory_is_refused():
    with pytest.raises((MemoryError, ValueError)):
        aligned_empty((1 << 60,), np.dtype(np.float32))
    assert get_handler_name() != OWN


def test_a_handler_of_the_user_stays():
    change, _, numpys = aligned_memory.handler_change()
    name = ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    memory = (ctypes.c_char * 168).from_buffer_copy(
        ctypes.string_at(name(numpys, b"mem_handler"), 168)
    )
    memory[:6] = b"users\0"
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    change(new(ctypes.addressof(memory), b"mem_handler", None))
    try:
        assert get_handler_name(aligned_empty((FLOATS,), np.dtype(np.float32))) == "users"
        assert get_handler_name() == "users"
    finally:
        change(numpys)
    gc.collect()


@pytest.mark.parametrize("more", [-1000, 1000])
def test_elements_stay_where_an_array_is_resized(more):
    x = aligned_empty((2 * FLOATS,), np.dtype(np.float32))
    x[:] = np.arange(2 * FLOATS)
    x.resize(2 * FLOATS + more, refcheck=False)
    assert address(x) % LINE == 0
    assert get_handler_name(x) == OWN
    kept = min(2 * FLOATS, 2 * FLOATS + more)
    np.testing.assert_array_equal(x[:kept], np.arange(kept))


def test_its_handler_makes_zeros():
    change, own, _ = aligned_memory.handler_change()
    for _ in range(3):
        before = change(own)
        try:
            x, none = np.zeros((FLOATS, 3)), np.zeros(0)
        finally:
            change(before)
        assert not x.any()
        assert address(x) % LINE == 0
        assert get_handler_name(none) == OWN
        x[:] = 1
        del x, none


def test_the_name_of_a_handler_lives_as_long_as_the_handler():
    counts = []
    for _ in range(3):
        aligned_memory.handler_change.__wrapped__()
        counts.append(sys.getrefcount(aligned_memory.HANDLER))
    assert counts == sorted({*counts})


def test_memory_goes_back():
    code = """
import resource, numpy as np
from functensor.backends.native.aligned_memory import aligned_empty
def fill(n):
    for i in range(n):
        aligned_empty((1 << 20,), np.dtype(np.float32)).fill(i)
fill(3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fill(100)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000)
"""
    assert run_python(code).strip() == "True"


def test_results_of_machine_code_begin_with_a_line():
    f = ft.jit(lambda x: (fnp.tanh(x) + 1, fnp.sum(x, 1), x @ x))
    x = np.ones((512, 512), np.float32)
    f.compile(x)
    for _ in range(3):
        first, _, last = map(np.asarray, f(x))
        assert address(first) % LINE == address(last) % LINE == 0
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again, first)
