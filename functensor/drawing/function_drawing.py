"""``draw``: a function's program as a picture."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..backends.errors.public_functions import check_function
from ..functions.wrapping import transformed
from ..jitting.compile import compiled
from ..jitting.jitted import Jitted, jit
from ..primitives.core.trace import base_trace
from ..programs.program import Program
from ..programs.staging import StagingTrace, staged_inputs, staged_run
from ..transforms.tensor_entrance import entrance
from .drawing import Drawing
from .folding import deepest, drawn_nodes, folded
from .program_diagram import program_diagram

__all__ = ["argument_names", "draw", "drawing_of"]

MOST_NODES = 300


def draw(
    fun: Callable[..., Any],
    *,
    optimized: bool | None = None,
    depth: int | None = None,
    limit: int = MOST_NODES,
) -> Callable[..., Drawing]:
    """Returns a function that draws the program of ``fun``.

    Scopes are boxes, operations nodes, and values edges with their shapes and dtypes. Bodies of
    loops, branches, jitted functions and functions with rules of their own have boxes too.
    Operations that a plan fuses are shaded. A scope that is left and entered again has a box for
    each time.

    Args:
        fun: takes and returns trees of arrays.
        optimized: whether to draw the program after all passes, as ``jit`` runs it, with its fused
            regions; if not, the operations as they were written. By default what runs is drawn: the
            optimized program of a function that is jitted itself, and that of others as written.
        depth: how many boxes may lie in each other; deeper ones are folded into single nodes. By
            default as many as ``limit`` allows.
        limit: how many nodes a picture may have. The text has no limit.

    Returns:
        A function of the same arguments: arrays, or ``ShapeDtype`` in their place. It returns a
        drawing, without computing anything that depends on the arguments. Notebooks show it;
        ``.svg`` is its picture, ``.save("program.svg")`` writes it, ``.dot`` is its source, and
        ``str()`` a text, which needs no graphviz.

    Raises:
        TypeError: ``fun`` is not a function, or an option is no whole number.
        ValueError: ``depth`` is negative, or ``limit`` is not positive.

    >>> import functensor as ft, functensor.numpy as np
    >>> def loss(w, x):
    ...     with ft.scope("layer"):
    ...         y = np.tanh(x @ w)
    ...     return np.sum(y**2)
    >>> print(ft.draw(loss)(np.ones((3, 4)), np.ones((2, 3))))
    loss
      a         float64[3,4]  input w
      b         float64[2,3]  input x
      scope layer
        c       float64[2,4]  matmul(b, a)
        d       float64[2,4]  tanh(c)
      e         float64[2,4]  square(d)
      f         float64[]     sum(e, axis=(0, 1))
      return f  float64[]     output
    """
    check_function("draw", fun)
    check_whole("limit", limit, least=1)
    if depth is not None:
        check_whole("depth", depth, least=0)

    def drawn(*args: Any, **kwargs: Any) -> Drawing:
        program = program_of(fun, optimized, args, kwargs)
        return drawing_of(program, argument_names(program, fun), depth, limit)

    return transformed(drawn, fun, draw, fun, optimized=optimized, depth=depth, limit=limit)


def drawing_of(
    program: Program, inputs: list[str], depth: int | None = None, limit: int = MOST_NODES
) -> Drawing:
    """Returns the drawing of a program, by the names of its inputs."""
    whole = program_diagram(program, inputs, result_names(program))
    chosen = depth
    if chosen is None:
        chosen = deepest(whole.box)
        while chosen and drawn_nodes(whole.box, chosen) > limit:
            chosen -= 1
    return Drawing(folded(whole, chosen), limit)


def check_whole(option: str, given: Any, least: int) -> None:
    """Checks that an option is a whole number, and no smaller than the least."""
    if not hasattr(given, "__index__"):
        raise TypeError(f"draw: {option}={given!r} is no whole number")
    if given < least:
        raise ValueError(f"draw: {option}={given} is smaller than {least}")


def program_of(
    fun: Callable[..., Any], optimized: bool | None, args: Sequence[Any], kwargs: dict[str, Any]
) -> Program:
    """Returns the program that is to be drawn."""
    if optimized is None:
        optimized = isinstance(fun, Jitted)
    if optimized or isinstance(fun, Jitted):
        lowered = (fun if isinstance(fun, Jitted) else jit(fun)).lower(*args, **kwargs)
        # Its own optimized program lacks the outputs that are arguments.
        return compiled(lowered.program).program if optimized else lowered.program
    leaves = tree.leaves((args, kwargs))
    if any(isinstance(leaf, entrance.classes) for leaf in leaves):
        return entrance.admitting(staged, fun, args, kwargs)  # type: ignore[no-any-return]
    return staged(fun, args, kwargs)


def staged(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Program:
    """Returns the program of a function, in which calls of jitted functions stay calls."""
    trace = StagingTrace(base_trace(), "draw", fun)
    trace.keeps_calls = True
    inputs, in_tree = staged_inputs(trace, (args, kwargs))
    out = staged_run(trace, in_tree.unflatten(inputs))
    outputs, out_tree = tree.flatten(out)
    return trace.program(inputs, outputs, in_tree, out_tree)


def argument_names(program: Program, fun: Callable[..., Any] | None = None) -> list[str]:
    """Returns what the leaves of the arguments are called: ``params['w']``; ``args[0]['w']``.

    The latter is for a program whose function is not known.
    """
    if program.in_tree is None:
        return [f"args[{number}]" for number in range(len(program.inputs))]
    count = program.in_tree.num_leaves
    paths, _ = tree.flatten_with_path(program.in_tree.unflatten(range(count)))
    try:
        parameters = list(inspect.signature(fun).parameters.values()) if fun else []
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")

    def called(place: int | str) -> str:
        if isinstance(place, str):
            return place
        return named[place] if place < len(named) else f"{rest}[{place - len(named)}]"

    names = [f"{called(path[1].value)}{tree.keystr(path[2:])}" for path, _ in paths]
    # Values of outer transformations.
    return names + ["closed over"] * (len(program.inputs) - count)


def result_names(program: Program) -> list[str]:
    """Returns what the leaves of the result are called: ``output['loss']``."""
    known = program.out_tree
    # Optimized programs may lack outputs that are arguments, and bodies of loops have no tree.
    if known is None or known.num_leaves != len(program.outputs):
        return [f"output[{number}]" for number in range(len(program.outputs))]
    paths, _ = tree.flatten_with_path(program.out_tree.unflatten(range(len(program.outputs))))
    return [f"output{tree.keystr(path)}" for path, _ in paths]
