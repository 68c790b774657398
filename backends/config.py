"""What a user may choose about how backends compute."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Config", "config"]

PRECISIONS = ("highest", "tf32")
CHOICES = ("deterministic", "matmul_precision")


class Config(threading.local):
    """Choices about how backends compute; every thread starts with the defaults.

    Attributes:
        matmul_precision: ``"highest"`` multiplies float32 matrices in float32; ``"tf32"`` allows
            the GPU's matrix units to round operands to TF32, with 10 bits of mantissa.
        deterministic: whether the GPU adds up values in an order that does not change from run
            to run, which scatters and some gradients pay for with time.

    >>> config.matmul_precision
    'highest'
    >>> with config.using(deterministic=True):
    ...     config.deterministic
    True
    """

    def __init__(self) -> None:
        self._matmul_precision = "highest"
        self._deterministic = False

    @property
    def matmul_precision(self) -> str:
        """How float32 matrices are multiplied on a GPU: ``"highest"`` or ``"tf32"``."""
        return self._matmul_precision

    @matmul_precision.setter
    def matmul_precision(self, value: str) -> None:
        if value not in PRECISIONS:
            raise ValueError(f"matmul_precision is one of {', '.join(PRECISIONS)}, not {value!r}")
        self._matmul_precision = value

    @property
    def deterministic(self) -> bool:
        """Whether results on a GPU are the same bits in every run."""
        return self._deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        if type(value) is not bool:
            raise ValueError(f"deterministic is True or False, not {value!r}")
        self._deterministic = value

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in CHOICES:
            raise AttributeError(f"config has no {name!r}; it has {' and '.join(CHOICES)}")
        super().__setattr__(name, value)

    @contextmanager
    def using(self, **choices: Any) -> Iterator[Config]:
        """Makes choices for the length of a ``with`` block.

        Raises:
            AttributeError: there is no such choice.
            ValueError: a value is none that it may have.
        """
        before = {name: getattr(self, name) for name in choices}
        try:
            for name, value in choices.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def __repr__(self) -> str:
        return (
            f"Config(matmul_precision={self.matmul_precision!r}, "
            f"deterministic={self.deterministic})"
        )


config = Config()
