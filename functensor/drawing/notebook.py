"""HTML of a program for notebooks: its picture, or the aligned text without Graphviz."""

from __future__ import annotations

from html import escape

from ..programs.program import Program
from .function_drawing import argument_names, drawing_of

__all__ = ["program_html"]


def program_html(program: Program) -> str:
    """Returns the drawing of a program as HTML.

    >>> import functensor as ft
    >>> "sin" in program_html(ft.make_program(ft.numpy.sin)(1.0))
    True
    """
    drawing = drawing_of(program, argument_names(program))
    try:
        svg = drawing._repr_svg_()
    # Graphviz may be built without SVG, and fails on some pictures.
    except RuntimeError:
        svg = None
    if svg is None:
        return f"<pre>{escape(str(drawing))}</pre>"
    # What stands in front of the element is for files.
    return f'<div style="overflow-x: auto">{svg[svg.index("<svg") :]}</div>'
