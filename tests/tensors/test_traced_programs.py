"""Random programs of views and second names do as eagerly under transformations."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized
from tensors.test_traced_tensors import TRANSFORMATIONS, X

import functensor as ft
import functensor.numpy as np

NAMES = "abc"
STATEMENTS = [
    "{0} = {1}", "{0} = {1}[1:]", "{0} = {1}[:1]", "{0} = {1}.reshape(-1)", "{0} = {1}.T",
    "{0} = {1} * 2", "{0} = {1}.copy()", "{0} *= 3", "{0} += 1", "{0} += {1}[:1]", "{0} -= x[:1]",
    "{0}[0] = {1}[-1]", "{0}[1:].mul_({1}.sum())", "{0} = {1}.detach()",
    "{0} = np.sin({1})", "{0} = {1}[[0]]", "{0}, *_ = {1}.reshape(1, -1)",
]  # fmt: skip


@settings(max_examples=sized(40, 400))
@given(st.data())
def test_random_programs_do_as_eagerly(data):
    lines = [
        data.draw(st.sampled_from(STATEMENTS)).format(*data.draw(st.permutations(NAMES))[:2])
        for _ in range(data.draw(st.integers(1, 7)))
    ]
    source = ["def f(x):", "a, b, c = x * 2, x + 1, x * x", *lines]
    source.append("return a.sum() + 2 * b.sum() - c.sum()")
    space = {"np": np}
    exec("\n    ".join(source), space)
    f = space["f"]
    try:
        wanted = float(f(ft.Tensor(X)))
    except (IndexError, ValueError):
        # A missing part cannot be unpacked; empty slices do not broadcast.
        return
    for name in ("jit", "value_and_grad", "jvp", "vmap"):
        found = float(TRANSFORMATIONS[name](f))
        assert math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-4), (name, source)
