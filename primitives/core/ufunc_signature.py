"""The signature of elementwise primitives, whose text has dots for the options of all ufuncs."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

__all__ = ["UfuncSignature"]


class UfuncSignature(Signature):
    """A signature that has all parameters, and a text that has the operands alone.

    ``help`` shows the text; editors and ``bind`` see the parameters.

    >>> operands = [Parameter("x", Parameter.POSITIONAL_ONLY)]
    >>> options = [Parameter("dtype", Parameter.KEYWORD_ONLY, default=None)]
    >>> str(UfuncSignature(operands + options))
    '(x, /, ...)'
    """

    def __str__(self) -> str:
        return self.format()

    def format(self, **layout: Any) -> str:
        """Returns the text; it is so short that no layout, such as a width, changes it."""
        kinds = self.parameters.values()
        operands = [x for x in kinds if x.kind is Parameter.POSITIONAL_ONLY]
        text = str(Signature(operands, return_annotation=self.return_annotation))
        return text.replace("/)", "/, ...)", 1)
