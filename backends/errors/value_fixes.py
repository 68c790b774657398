"""Right code for where Python asks for a value that is not known while a function is traced."""

from __future__ import annotations

from ..frames import library, source_line, user_frame

__all__ = ["item_fix", "value_fix"]

# By what asks.
FIXES = {
    "bool()": "np.where(condition, a, b) instead of if/and/or/min, or ft.cond(condition, f, g, x)",
    "float()": "x.astype(float) instead of float(x), functensor.numpy instead of math",
    "int()": "x.astype(int) instead of int(x)",
    "complex()": "x.astype(complex) instead of complex(x), functensor.numpy instead of cmath",
    ".item()": "x without .item(): an array of one element computes as a number does",
    ".tolist()": "x without .tolist(): an array can be indexed and iterated over",
}
OTHERWISE = "compute with arrays, or pass the number in from outside"


def is_at_while() -> bool:
    """Says whether the user's line is the head of a ``while`` loop."""
    frame = user_frame()
    if frame is None:
        return False
    return source_line(frame, frame.f_lineno).lstrip().startswith(("while ", "while("))


def item_fix() -> str:
    """Returns right code for where an item of an array is assigned to."""
    through = library()
    if not through:
        return "x = x.at[i].set(value)"
    own = ", or functensor.scipy's function, where there is one" if through == "scipy" else ""
    return f"call {through} outside of transformed functions, with numpy.asarray(x){own}"


def value_fix(wanted: str) -> str:
    """Returns right code for where a value that is not known is asked for.

    Args:
        wanted: what asks: a conversion, or the user's expression.
    """
    through = library()
    if through:
        own = ", or functensor.scipy's function, where there is one" if through == "scipy" else ""
        return f"call {through} outside of the transformed function{own}"
    if wanted == "bool()" and is_at_while():
        return "ft.while_loop(condition, body, init) instead of while"
    if wanted in FIXES:
        return FIXES[wanted]
    if wanted.startswith("range("):
        return "ft.fori_loop(0, n, body, init) instead of for/range"
    if wanted.startswith("round("):
        return f"np.{wanted}"
    base, _, key = wanted.removesuffix("]").rpartition("[")
    if base and base.count("[") == base.count("]") and wanted.endswith("]") and ":" not in key:
        return f"np.asarray({base})[{key}] for numbers, ft.switch({key}, {base}, x) for functions"
    return OTHERWISE
