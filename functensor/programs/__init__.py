"""Programs: what staging records, passes transform, and plans run."""

from .program import ProgramError, check
from .program import Equation, Program, Variable

__all__ = ["Equation", "Program", "ProgramError", "Variable", "check"]
