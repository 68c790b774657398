"""Calls of names that no other record has, and of odd arguments, one expression in a line.

The operands are those of ``expressions.py``.
"""

from pathlib import Path

__all__ = ["FURTHER"]

FURTHER = Path(__file__).with_suffix(".txt").read_text().splitlines()
