"""Pictures of programs: a program becomes a diagram, and a diagram a DOT source or a listing."""

from __future__ import annotations

from .function_drawing import draw

__all__ = ["draw"]
