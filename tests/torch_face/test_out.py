"""``out=`` of functions: who takes it, what becomes of the tensor, and what is refused."""

from __future__ import annotations

import gc
import sys
import warnings

import numpy as np
import pytest
from torch_face.expressions import array, values
from torch_face.recorded import differences, load
from torch_face.with_out import CALLS, SPACES, called, names_of, recorded_names

import functensor as ft
import functensor.torch as torch
from functensor.torch.outputs import TAKE_OUT

VERSION, RECORDED = recorded_names()
FULL_NAMES = [f"{space}.{name}" for space in SPACES for name in RECORDED[space]]
RANDOM = {"bernoulli", "empty", "multinomial", "normal", "rand", "randint", "randn", "randperm"}
RESULTS = {}
for record in (
    "laws", "special", "fourier", "further_expressions", "name_expressions", "expressions",
):  # fmt: skip
    RESULTS.update({text: both[0] for text, both in load(record)[1].items()})


def test_names_are_those_of_the_record():
    assert {space: sorted(names) for space, names in TAKE_OUT.items()} == RECORDED
    assert len(FULL_NAMES) > 330


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FULL_NAMES)
def test_results_are_written_to_out(name):
    for text in CALLS[name]:
        found = eval(text, values(torch))
        several = isinstance(found, tuple | list)
        bases = [torch.zeros(2, *x.shape, dtype=x.dtype) for x in (found if several else [found])]
        outs = [base[1] for base in bases]
        given = called(text, values(torch), tuple(outs) if several else outs[0])
        assert not several or type(given) is type(found)
        assert all(a is b for a, b in zip(given if several else [given], outs, strict=True)), text
        # What the tensor is a view of has it too.
        ours = [array(base[1]) for base in bases]
        assert not any(np.any(array(base[0])) for base in bases)
        if name.rpartition(".")[2] in RANDOM:
            assert all(np.isfinite(x).all() for x in ours)
            continue
        for a, b in zip(ours, found if several else [found], strict=True):
            np.testing.assert_array_equal(a, array(b))
        if text in RESULTS:
            assert not list(differences([ours], [RESULTS[text]])), text


@pytest.mark.parametrize("name", ["argsort", "relu", "as_tensor", "zeros_like", "isnan", "reshape"])
def test_other_functions_take_no_out(name):
    with pytest.raises(TypeError, match="has no argument 'out'"):
        called(CALLS[f"torch.{name}"][0], values(torch), torch.empty(0))


def test_the_first_tutorial():
    t = torch.ones(4, 4)
    t[:, 1] = 0
    y, z = torch.rand_like(t), torch.rand_like(t)
    torch.matmul(t, t.T, out=y)
    torch.mul(t, t, out=z)
    assert (y.tolist(), z.tolist()) == ((t @ t.T).tolist(), (t * t).tolist())


def test_no_out_is_none():
    assert torch.add(torch.ones(2), 1, out=None).tolist() == [2.0, 2.0]


def test_an_argument_may_be_out():
    x = torch.arange(3.0)
    view = x[1:]
    assert torch.cumsum(x, 0, out=x) is x
    assert (x.tolist(), view.tolist()) == ([0.0, 1.0, 3.0], [1.0, 3.0])


def test_an_empty_out_gets_the_shape():
    out = torch.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.add(torch.ones(2, 3), 1, out=out)
    assert out.tolist() == [[2.0] * 3] * 2


def test_an_out_of_another_shape_gets_the_shape_with_a_warning():
    out = torch.zeros(2, 2)
    with pytest.warns(UserWarning, match=r"resized since it had shape \[2, 2\].* shape \[3\]"):
        torch.add(torch.ones(3), 1, out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.filterwarnings("ignore")
def test_an_out_in_shared_memory_does_not_grow():
    base = torch.zeros(6)
    part = base[2:4]
    with pytest.raises(RuntimeError, match=r"sin\(out=\.\.\.\).* shares memory"):
        torch.sin(torch.ones(3), out=part)
    assert (base.tolist(), part.shape) == ([0.0] * 6, (2,))
    part = base[1:]
    torch.exp(torch.zeros(2), out=part)
    assert (base.tolist(), part.tolist()) == ([0.0, 1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0])


@pytest.mark.parametrize(("to", "fits"), [
    ("float64", True), ("float16", True), ("complex64", True), ("int64", False), ("bool", False),
])  # fmt: skip
def test_dtypes(to, fits):
    out = torch.zeros(3, dtype=getattr(torch, to))
    if fits:
        assert torch.add(torch.ones(3), 1, out=out).tolist() == [2, 2, 2]
        assert out.dtype == to
    else:
        with pytest.raises(RuntimeError, match=f"float32 can't be cast to .* output type {to}"):
            torch.add(torch.ones(3), 1, out=out)
        assert not out.any()


def test_nothing_is_written_where_one_of_several_is_refused():
    values, places = torch.zeros(2), torch.zeros(2, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="int64 can't be cast"):
        torch.sort(torch.tensor([3.0, 1.0]), out=(values, places))
    assert values.tolist() == [0.0, 0.0]


def test_what_requires_grad_is_refused():
    x, out = torch.ones(3, requires_grad=True), torch.zeros(3)
    leaf = torch.zeros(3, requires_grad=True)
    for call in (
        lambda: torch.add(x, 1, out=out), lambda: torch.add(1, x, out=out),
        lambda: torch.stack([x], out=out), lambda: torch.add(out, 1, out=leaf),
        lambda: torch.sort(x, out=(out, torch.empty(0, dtype=torch.int64))),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            call()
    with torch.no_grad():
        assert torch.add(x, 1, out=leaf) is leaf
    assert (leaf.tolist(), leaf.requires_grad, leaf.is_leaf) == ([2.0, 2.0, 2.0], True, True)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: torch.add(x, 1, out=3), "not int"),
        (lambda x: torch.sort(x, out=x), "out is of 1 tensors, and the results are 2"),
        (lambda x: torch.sort(x, out=(x,)), "out is of 1 tensors, and the results are 2"),
        (lambda x: torch.sort(x, out=(x, 2)), r"out\[1\] is a tensor .* not int"),
        (lambda x: torch.add(x, 1, out=(x,)), "the results are 1"),
        (lambda x: torch.add(x, 1, otu=x), "did you mean|has no argument 'otu'"),
        (lambda x: torch.add(out=x), "lacks its arguments 'input' and 'other'"),
    ],
)
def test_what_is_no_out(call, text):
    with pytest.raises(TypeError, match=text):
        call(torch.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda **more: torch.zeros(2, **more), lambda **more: torch.full((2,), 0.1, **more),
        lambda **more: torch.arange(0, 0.2, 0.1, **more), lambda **more: torch.eye(2, **more),
        lambda **more: torch.linspace(0, 1, 3, **more), lambda **more: torch.fft.fftfreq(3, **more),
        lambda **more: torch.logspace(0, 1, 3, **more),
    ],
)  # fmt: skip
def test_makers_compute_in_the_dtype_of_out(make):
    out = torch.empty(0, dtype=torch.float64)
    assert make(out=out) is out
    assert out.tolist() == make(dtype=torch.float64).tolist()
    with pytest.raises(RuntimeError, match="dtype float32 does not match"):
        make(out=out, dtype=torch.float32)
    assert make(out=out, requires_grad=True).requires_grad


def test_draws_are_those_of_the_seed():
    out = torch.empty(3)
    torch.manual_seed(3)
    torch.randn(3, out=out)
    torch.manual_seed(3)
    assert out.tolist() == torch.randn(3).tolist()


def test_within_transformations():
    def f(x):
        out = torch.zeros(3)
        torch.mul(x, x, out=out[1:])
        return out.sum()

    x = torch.tensor([2.0, 3.0])
    assert ft.grad(f)(x).tolist() == [4.0, 6.0]
    assert torch.vmap(f)(torch.stack([x, x + 1])).tolist() == [13.0, 25.0]
    with pytest.raises(ft.errors.ImmutableArrayError, match="caller's tensor would not see"):
        ft.jit(lambda x: torch.add(x, 1, out=x))(x)


def test_results_in_the_memory_of_numpy():
    array = np.zeros(3, np.float32)
    torch.add(torch.ones(3), 1, out=torch.from_numpy(array))
    assert array.tolist() == [2.0, 2.0, 2.0]


def test_the_record_is_pytorchs():
    there = pytest.importorskip("torch")
    assert names_of(there) == RECORDED, f"recorded with PyTorch {VERSION}"


def calls_of(function, *args):
    """Returns how many functions of Python run, without those of garbage collections."""
    found = []
    collects = gc.isenabled()
    gc.disable()
    sys.setprofile(lambda frame, event, arg: found.append(event) if event == "call" else None)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
        if collects:
            gc.enable()
    return len(found)


def test_a_call_without_out_goes_through_one_wrapper():
    x = torch.ones(2)
    torch.add(x, x)
    assert calls_of(torch.add, x, x) == calls_of(torch.add.__wrapped__, x, x) + 1
