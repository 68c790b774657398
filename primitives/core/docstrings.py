"""Docstrings of primitives: the words that a family shares, around those that differ."""

from __future__ import annotations

__all__ = ["document"]

IMPORTS = {
    "np.": "import functensor.numpy as np",
    "nn.": "from functensor import nn",
    "special.": "from functensor.scipy import special",
}


def document(
    text: str | None,
    arguments: dict[str, str],
    returns: str,
    raises: str = "",
    example: str = "",
    source: str = "",
) -> str | None:
    """Puts a docstring together.

    Args:
        text: what the function returns, in one sentence; longer texts, and None, come back as
            they are.
        arguments: what there is to say of each argument.
        returns: the result's shape and dtype.
        raises: an error and when it is raised.
        example: ``np.add(1, 2) -> 3``: a call and what its result's ``tolist`` gives.
        source: where the formula is from.

    >>> document("Returns x.", {"x": "an array."}, "An array.").splitlines()[2:4]
    ['Args:', '    x: an array.']
    """
    if text is None or "\n" in text:
        return text
    parts = [text]
    parts.append("\n".join(["Args:", *(f"    {name}: {what}" for name, what in arguments.items())]))
    parts.append(f"Returns:\n    {returns}")
    if raises:
        parts.append(f"Raises:\n    {raises}")
    if source:
        parts.append(f"Source: {source}")
    if example:
        call, result = example.split(" -> ")
        imported = [line for prefix, line in IMPORTS.items() if prefix in call]
        lines = [f">>> {line}" for line in [*imported, f"{call}.tolist()"]]
        parts.append("\n".join([*lines, result]))
    return "\n\n".join(parts)
