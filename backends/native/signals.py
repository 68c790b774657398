"""Signals such as Ctrl-C, which long loops of machine code look for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .instructions import Lines

__all__ = ["INTERRUPTED", "signal_status"]

# What a function returns where the handler of a signal has raised an error.
INTERRUPTED = 3
# The lock of the interpreter is taken, or is there already. Other threads get it behind that.
SIGNAL_TEXT = f"""\
define internal i64 @signal_status() noinline {{
  %state = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %well = icmp eq i32 %raised, 0
  %status = select i1 %well, i64 0, i64 {INTERRUPTED}
  ret i64 %status
}}"""
DECLARATIONS = {
    "PyErr_CheckSignals": "declare i32 @PyErr_CheckSignals()",
    "PyGILState_Ensure": "declare i32 @PyGILState_Ensure()",
    "PyGILState_Release": "declare void @PyGILState_Release(i32)",
}


def signal_status(lines: Lines, functions: dict[str, str]) -> str:
    """Writes the handling of signals that have come; returns the name of the status behind it.

    Args:
        lines: where it is written.
        functions: the texts of functions of the module, by their names.
    """
    functions["signal_status"] = SIGNAL_TEXT
    lines.declared.update(DECLARATIONS)
    return lines.let("call i64 @signal_status()")
