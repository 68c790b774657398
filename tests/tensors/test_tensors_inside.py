"""Tensors within transformations: their names, constants, and what raises."""

import pytest
from tensors.test_traced_tensors import X

import functensor as ft
from functensor.errors import BackwardError, ConcretizationError, TracerConversionError
from functensor.tensors import TracedTensor


def test_functions_get_tensors_with_pytorchs_names():
    seen = []

    def f(x):
        seen.append(x)
        return x.unsqueeze(0).softmax(dim=-1).clamp(min=0.1).sum(dim=1)

    for call in (ft.jit(f), ft.vmap(f, in_axes=None, axis_size=2), lambda x: ft.vjp(f, x)[0]):
        call(ft.Tensor(X))
        assert type(seen[-1]) is TracedTensor
        assert isinstance(seen[-1], ft.Tensor)


def test_a_constant_within_no_grad_and_of_detach():
    def f(x):
        with ft.no_grad():
            scale = (x * x).sum()
        return (x * scale + x.detach() ** 2).sum()

    x = ft.Tensor(X)
    assert ft.grad(f)(x).tolist() == [14.0] * 3
    with ft.no_grad():
        assert ft.grad(f)(x).tolist() == [14.0] * 3


def test_a_tensor_from_outside_is_not_written_to():
    kept = ft.Tensor(X)

    def f(x):
        kept.add_(x)
        return x.sum()

    with pytest.raises(TracerConversionError):
        ft.jit(f)(ft.Tensor(X))
    assert kept.tolist() == X.tolist()


def test_within_a_transformation_nothing_requires_grad():
    with pytest.raises(BackwardError, match="within jit"):
        ft.jit(lambda x: x.clone().requires_grad_())(ft.Tensor(X))


def test_bool_of_a_traced_tensor_says_what_to_do():
    with pytest.raises(ConcretizationError, match=r"ft\.cond"):
        ft.jit(lambda x: x if x.sum() > 0 else -x)(ft.Tensor(X))
