"""Programs: what staging records, passes transform, and plans run."""

from .program import Equation, Program, ProgramError, Variable, check

__all__ = ["Equation", "Program", "ProgramError", "Variable", "check"]
