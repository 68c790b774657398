"""Puts the registry through its checks on the backend of ``examples/backend.py``.

It is run as a program, with ``tests`` and ``examples`` on the path: a backend that is registered
stays registered, and other tests count them. It prints, by primitive, what the backend lacks for
it: nothing where all checks pass.
"""

import json
import re
import sys
import traceback

import backend
import support.registry_cases as cases
import torch
from core.test_primitives import PRIMITIVES
from support.run_on_device import calls_on

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.registry import registry
from functensor.testing import assert_allclose

DEVICE = backend.TorchBackend.kind
REFUSED = re.compile(rf"(\w+) is not computed by the {DEVICE} backend: ")
# Its samples leave the device, which the others must not.
LEAVING = "to_device"
# In the short form these go through all checks, and of the others the first sample's values.
FEW = {"add", "index", "matmul", "scatter_add", "softmax", "sum"}


def check_jitted(primitive, sample):
    """A jitted call gives what an eager one does, and so does a jitted derivative."""
    with ft.default_device("cpu"):
        operands = cases.operands_of(primitive, sample)
    there = [ft.to_device(x, DEVICE) for x in operands]

    def call(*xs):
        return primitive.bind(xs, sample.params)

    def pulled(*values):
        return list(ft.vjp(rest, *values)[1](cotangent))

    wanted = call(*there)
    got = ft.jit(call)(*there)
    assert got.device == wanted.device == DEVICE
    assert_allclose(got, wanted)
    if cases.has_derivative(primitive, sample):
        rest, values = cases.by_inexact(call, there)
        cotangent = wanted
        assert_allclose(ft.jit(pulled)(*values), pulled(*values))


CHECKS = {**cases.SAMPLE_CHECKS, "jitted": check_jitted}


def lacking(primitive, in_full):
    """Returns the primitive that the backend lacks for one, or what went wrong, or nothing."""
    try:
        with calls_on(DEVICE):
            if in_full:
                for check in CHECKS.values():
                    cases.run_check(check, primitive)
            else:
                cases.check_forward(primitive, primitive.samples[0])
    except Exception as error:
        refused = REFUSED.match(str(error))
        return refused[1] if refused else traceback.format_exc()
    return ""


def check_usual_calls():
    """Arrays are made there, chosen from by booleans, and read."""
    x = np.arange(5.0, device=DEVICE)
    assert (x.tolist(), x[1].item()) == ([0, 1, 2, 3, 4], 1)
    assert x[x > 2].device == DEVICE
    assert x[x > 2].tolist() == [3, 4]
    assert x.at[x > 2].set(0).tolist() == [0, 1, 2, 0, 0]
    assert np.eye(2, device=DEVICE).tolist() == [[1, 0], [0, 1]]


def main(form):
    torch.set_num_threads(1)
    check_usual_calls()
    found = {}
    for name in PRIMITIVES:
        if name != LEAVING:
            found[name] = lacking(registry[name], form == "long" or name in FEW)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
