"""Primitives that this backend does not compute, with the way out that their error shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..messages import message

__all__ = ["UNSUPPORTED_FUNCTIONS", "absent", "not_on_gpu"]


def not_on_gpu(name: str, reason: str) -> NotImplementedError:
    """Returns the error that says why a function is not computed on a GPU, and the way out."""
    return NotImplementedError(
        message(
            f"{name} is not computed on a GPU: {reason}",
            fix=f'ft.to_device({name}(ft.to_device(x, "cpu")), "cuda"), which differentiates',
            number=14,
        )
    )


def absent(name: str, reason: str) -> Callable[..., NoReturn]:
    """Returns a function that raises the error, in place of one that the CPU alone has."""

    def refuse(*buffers: Any, **params: Any) -> NoReturn:
        raise not_on_gpu(name, reason)

    return refuse


FADDEEVA = "CuPy has no error functions of complex numbers"

UNSUPPORTED_FUNCTIONS: dict[str, Callable[..., NoReturn]] = {
    name: absent(name, FADDEEVA)
    for name in (
        *("complex_erf", "complex_erfc", "complex_erfcx", "complex_erfi", "complex_ndtr"),
        "faddeeva",
    )
}
