"""The test of labels and indices in machine code, a vector at a time."""

import ctypes

import numpy as np
import pytest
from support.native import missing

import functensor as ft
from functensor.backends.cpu.plan.native.label_code import LabelTests, write_label_test
from functensor.backends.native.instructions import Lines
from functensor.backends.native.machine import machine_code
from functensor.backends.native.object_cache import ObjectCache

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

COUNTS = [0, 1, 2, 3, 7, 8, 9, 31, 33, 64, 65, 130]
BOUNDS = [(-7, 5), (0, 100), (-300, 300), (-1, 1), (5, 5)]


def text(name, dtype, count, bounds):
    lines = Lines()
    lines.begin("entry")
    write_label_test(lines, LabelTests("%labels", dtype, count, bounds), 2)
    body = "\n".join([f"define i64 @{name}(ptr %labels) {{", *lines.text, "  ret i64 0", "}"])
    return body, lines.declared


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_wrong_labels_are_found_wherever_they_stand(kind):
    dtype, info = np.dtype(kind), np.iinfo(kind)
    texts, declared, cases = [], {}, []
    for bounds in BOUNDS:
        for count in COUNTS:
            name = f"f{len(texts)}"
            body, more = text(name, dtype, count, bounds)
            texts.append(body)
            declared.update(more)
            cases.append((name, count, bounds))
    module = "\n".join([*declared.values(), *texts])
    code = machine_code(module, [name for name, *_ in cases], ObjectCache(None))
    for name, count, (low, end) in cases:
        test = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address(name))
        # Numbers of 64 bits are places, of which the largest are negative.
        signed = np.dtype(np.int64) if kind == "uint64" else dtype

        def said(labels, test=test):
            return test(labels.ctypes.data)

        around = {low - 1, low, low + 1, end - 1, end, info.min, info.max, -1}
        one = [v for v in around if np.iinfo(signed).min <= v <= np.iinfo(signed).max]
        fine = [v for v in one if low <= v < end]
        if not fine:
            assert said(np.zeros(count, dtype)) == (2 if count and not low <= 0 < end else 0)
            continue
        labels = np.resize(np.array(fine, signed).astype(dtype), count)
        assert said(labels) == 0
        for place in range(count):
            for value in set(one) - set(fine):
                wrong = labels.copy()
                wrong[place] = np.array(value, signed).astype(dtype)
                assert said(wrong) == 2, (kind, count, low, end, place, value)


@pytest.mark.parametrize("place", [0, 1, 4_999, 49_999, 99_999])
def test_threads_find_a_wrong_index(place):
    table = np.arange(50, dtype=np.float32)
    indices = np.arange(100_000) % 100 - 50
    take = ft.jit(lambda t, i: t[i] * 2 + 1).compile(table, indices)
    np.testing.assert_array_equal(take(table, indices), table[indices] * 2 + 1)
    for value in (50, -51):
        wrong = indices.copy()
        wrong[place] = value
        for _ in range(6):
            with pytest.raises(IndexError, match=f"index {value} is out of bounds"):
                take(table, wrong)
