"""Checks of gradients against differences, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends.devices import to_host
from ...backends.errors.public_functions import check_function
from ...primitives.core.shape_dtype import INEXACT
from ...tensors.grad_mode import enable_grad, no_grad
from ...tensors.tensor import Tensor
from .functional import vectorised
from .graphs import grad

__all__ = ["gradcheck", "gradgradcheck"]


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Says whether gradients of a function agree with central differences.

    Args:
        func: takes the inputs and returns a tensor or a tuple.
        inputs: a tensor or a tuple; those that require grad are checked. Use float64.
        eps: the step.
        atol, rtol: how far derivatives may be apart, at all and relative to the differences.
        raise_exception: whether a difference is an error; else the result is False.
        nondet_tol, fast_mode, masked: no effect: all elements are checked, in reverse mode.
        check_undefined_grad, check_grad_dtypes, check_batched_grad: no effect.
        check_batched_forward_grad, check_forward_ad, check_backward_ad: no effect.

    Raises:
        RuntimeError: they do not agree; the message has the input, the output and the figures.
        ValueError: no input requires grad.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([0.5, 1.0], dtype="float64", requires_grad=True)
    >>> torch.autograd.gradcheck(lambda x: (x**3).sin(), (x,))
    True
    """
    check_function("gradcheck", func, "func")
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not places:
        raise ValueError("gradcheck: no input requires grad")
    used = [x.detach().clone().requires_grad_() if i in places else x for i, x in enumerate(given)]
    outs = results_of(func(*used))
    for n, out in enumerate(outs):
        if out.dtype.kind not in INEXACT or out.node is None:
            continue
        found = vectorised(out, [used[i] for i in places], strict=False)
        for i, analytic in zip(places, found):
            wrong = jacobian_difference(func, used, i, n, to_host(analytic._data), eps, atol, rtol)
            if wrong and raise_exception:
                raise RuntimeError(wrong)
            if wrong:
                return False
    return True


def jacobian_difference(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    i: int,
    n: int,
    analytic: Any,
    eps: float,
    atol: float,
    rtol: float,
) -> str:
    """Returns how the derivative of output n by input i is not that of differences, or nothing."""
    x = to_host(inputs[i]._data)
    if x.dtype.kind == "c" or analytic.dtype.kind == "c":
        raise ValueError(
            "gradcheck takes real tensors; functensor.testing.check_grads checks complex ones"
        )
    numeric = np.zeros_like(analytic)

    def value(changed: Any) -> Any:
        given = list(inputs)
        given[i] = Tensor(changed, device=inputs[i].device)
        with no_grad():
            return to_host(results_of(func(*given))[n]._data)

    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = eps
        numeric[(..., *place)] = (value(x + step) - value(x - step)) / (2 * eps)
    if not np.allclose(analytic, numeric, rtol=rtol, atol=atol, equal_nan=True):
        worst = float(np.max(np.abs(analytic - numeric)))
        return (
            f"the derivative of output {n} by input {i} is off by up to {worst:.3g}\n"
            f"gradient: {analytic.tolist()}\ndifferences: {numeric.tolist()}"
        )
    return ""


def results_of(out: Any) -> list[Tensor]:
    """Returns a function's tensors as a list."""
    return [out] if isinstance(out, Tensor) else [x for x in out if isinstance(x, Tensor)]


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Says whether second derivatives agree with differences of the first; see `gradcheck`.

    ``grad_outputs`` are the gradients by the outputs, drawn where they are left out. The options
    that `gradcheck` has no use for have no effect here either.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([0.5, 1.0], dtype="float64", requires_grad=True)
    >>> torch.autograd.gradgradcheck(lambda x: (x**3).sin(), (x,))
    True
    """
    check_function("gradgradcheck", func, "func")
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    outs = results_of(func(*given))
    if grad_outputs is None:
        drawn = np.random.default_rng(0)
        by_outputs = [
            Tensor(drawn.normal(size=x.shape).astype(x.dtype), True, device=x.device) for x in outs
        ]
    else:
        by_outputs = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]

    def first(*some: Any) -> tuple[Tensor, ...]:
        used, gs = some[: len(given)], some[len(given) :]
        wanted = [used[i] if used[i].requires_grad else used[i].requires_grad_() for i in places]
        found = grad(
            results_of(func(*used)), wanted, gs, create_graph=True, allow_unused=True
        )
        return tuple([g for g in found if g is not None])

    def recorded(*some: Any) -> tuple[Tensor, ...]:

        with enable_grad():
            return first(*some)

    return gradcheck(
        recorded, [*given, *by_outputs], eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception,
    )  # fmt: skip
