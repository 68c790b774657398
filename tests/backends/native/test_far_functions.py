"""Machine code calls functions that lie farther away than one instruction reaches."""

import ctypes
import sys

import pytest
from support.native import CALLS_FAR_AWAY, FARTHEST_JUMP, function_at, missing

from functensor.backends.native import machine

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(sys.platform != "linux", reason="memory at an address of Linux"),
]
ADDRESSES = [1 << 36, 3 << 36, 5 << 36]


def test_far_functions_are_called(monkeypatch):
    known, distances = machine.c_functions(), []
    for address in ADDRESSES:
        place = function_at(address)
        monkeypatch.setattr(machine, "c_functions", lambda place=place: known | {"far_away": place})
        llvm = machine.Llvm()
        code = llvm.linked(llvm.image(CALLS_FAR_AWAY), ["f"], from_disk=False)
        assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("f"))() == 8
        distances.append(abs(code.address("f") - place))
    assert max(distances) > FARTHEST_JUMP
