"""Machine code calls functions that lie farther away than one instruction reaches."""

import ctypes
import mmap
import sys

import pytest
from support.native import missing

from functensor.backends.native import machine
from functensor.backends.processor import IS_ARM64

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(sys.platform != "linux", reason="memory at an address of Linux"),
]
# A jump of x86-64 reaches 2 GiB, and one of arm64 128 MiB.
FARTHEST_JUMP = 1 << 31
# Returns 7, by the two instructions of each processor.
SEVEN = bytes.fromhex("e0008052c0035fd6" if IS_ARM64 else "b807000000c3")
ADDRESSES = [1 << 36, 3 << 36, 5 << 36]
TEXT = """
declare i32 @far_away()
define i32 @f() {
  %x = call i32 @far_away()
  %y = add i32 %x, 1
  ret i32 %y
}"""


def function_at(address):
    """Returns the address of a function that returns 7, at an address or where there is room."""
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mmap.restype = ctypes.c_void_p
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size, flags = mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    place = libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    ctypes.memmove(place, SEVEN, len(SEVEN))
    assert libc.mprotect(place, size, mmap.PROT_READ | mmap.PROT_EXEC) == 0
    return place


def test_far_functions_are_called(monkeypatch):
    known, distances = machine.c_functions(), []
    for address in ADDRESSES:
        place = function_at(address)
        monkeypatch.setattr(machine, "c_functions", lambda place=place: known | {"far_away": place})
        llvm = machine.Llvm()
        code = llvm.linked(llvm.image(TEXT), ["f"], from_disk=False)
        assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("f"))() == 8
        distances.append(abs(code.address("f") - place))
    assert max(distances) > FARTHEST_JUMP
