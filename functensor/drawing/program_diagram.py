"""The diagram of a program: its equations as nodes, in boxes by scope, call, body and region."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from ..primitives.core.array import Tracer
from ..primitives.core.errors import describe, function_name
from ..primitives.identities import checkpoint_name
from ..programs.labels import label
from ..programs.program import Equation, Program, Variable, type_of, variable_name
from .body_names import body_names, control_title
from .diagram import Box, BoxKind, Diagram, Edge, Name, Node, NodeKind, printable

__all__ = ["program_diagram"]

# Objects that say where they lie in memory would make every picture another one.
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# An operand to which an edge leads.
EDGE_OPERAND = "·"
# The words of an operation in the listing lose their end after so many characters.
LONGEST_LINE = 200


class Source(NamedTuple):
    """The node that a value comes from, and its name."""

    node: int
    value: Name


def program_diagram(program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> Diagram:
    """Returns the diagram of a program.

    Args:
        program: any program.
        inputs, outputs: what its inputs and outputs are called.
    """
    builder = Builder()
    box = Box(next(builder.numbers), "program", printable(program.name))
    builder.add_program(program, box, inputs, outputs)
    return Diagram(box, builder.edges)


class Builder:
    """Makes the nodes, boxes and edges of one diagram.

    Attributes:
        edges: those that were made so far.
        numbers: gives nodes and boxes their numbers.
    """

    def __init__(self) -> None:
        self.edges: list[Edge] = []
        self.numbers = count()
        self._values = count()

    def node(
        self,
        box: Box,
        kind: NodeKind,
        title: str,
        names: Sequence[Name],
        text: str,
        detail: str = "",
        line: str = "",
    ) -> Node:
        """Returns a new node, the last one in a box."""
        words = printable(text, LONGEST_LINE)
        made = Node(next(self.numbers), kind, printable(title), names, words, detail, line)
        box.items.append(made)
        return made

    def inner_box(self, box: Box, kind: BoxKind, title: str) -> Box:
        """Returns a new box, the last one in another."""
        made = Box(next(self.numbers), kind, printable(title))
        box.items.append(made)
        return made

    def name(self, x: Any) -> Name:
        """Returns a new name for a value of the type of a variable or a constant."""
        device = getattr(x, "device", "cpu")
        at = "" if device == "cpu" else f"@{device}"
        return Name(variable_name(next(self._values)), f"{type_of(x)}{at}")

    def add_program(
        self,
        program: Program,
        box: Box,
        inputs: Sequence[str],
        outputs: Sequence[str],
        scope: str = "",
    ) -> None:
        """Adds the inputs, the equations and the outputs of a program to a box."""
        known: dict[Any, Source] = {}
        for variable, title in zip(program.inputs, inputs, strict=True):
            value = self.name(variable)
            made = self.node(box, "input", title, [value], f"input {title}")
            known[variable] = Source(made.number, value)
        self.add_equations(program, box, known, scope)
        for x, title in zip(program.outputs, outputs, strict=True):
            source = self.source(x, box, known)
            letters = printed_scalar(x) if source is None else source.value.letters
            value = Name(f"return {letters}", str(type_of(x)))
            number = letters if source is None else ""
            made = self.node(box, "output", title, [value], title, number)
            if source is not None:
                self.edges.append(Edge(source.node, made.number, source.value))

    def add_equations(
        self, program: Program, box: Box, known: dict[Any, Source], scope: str
    ) -> None:
        """Adds equations to a box, and what they define to what is known.

        A scope that is left and entered again has a box for each time.

        Args:
            program: has the equations.
            box: where they go.
            known: the sources of the variables, and of constants by their ids.
            scope: the scope of the box.
        """
        open_scopes = [("", box)]
        for equation in program.equations:
            names = relative_scope(equation.scope, scope).split("/") if equation.scope else []
            names = [name for name in names if name]
            shared = 0
            for name, (opened, _) in zip(names, open_scopes[1:], strict=False):
                if name != opened:
                    break
                shared += 1
            del open_scopes[shared + 1 :]
            for name in names[shared:]:
                open_scopes.append((name, self.inner_box(open_scopes[-1][1], "scope", name)))
            self.add_equation(equation, open_scopes[-1][1], known)

    def add_equation(self, equation: Equation, box: Box, known: dict[Any, Source]) -> None:
        """Adds one equation to a box."""
        call = equation.primitive
        if call.bodies and not call.fused:
            inner = self.inner_box(box, "control", control_title(call))
            self.add_operation(equation, inner, known)
            for names, body in zip(body_names(equation), call.bodies, strict=True):
                part = self.inner_box(inner, "body", names.title)
                self.add_program(body, part, names.inputs, names.outputs, equation.scope)
        elif call.program is not None:
            kind: BoxKind = "fused" if call.fused else "call"
            title = f"fused over {shown_grid(call.grid)}" if call.fused else f"call {call.name}"
            inner = self.inner_box(box, kind, title)
            self.add_call(equation, inner, known)
        else:
            self.add_operation(equation, box, known)

    def add_call(self, equation: Equation, box: Box, known: dict[Any, Source]) -> None:
        """Adds the equations of a call whose operands and outputs are those of its program."""
        program = equation.primitive.program
        within: dict[Any, Source] = {}
        given: dict[Variable, Any] = {}
        for variable, x in zip(program.inputs, equation.operands, strict=True):
            source = self.source(x, box, known)
            if source is None:
                given[variable] = x
            else:
                within[variable] = source
        body = program
        if given:
            replaced = [e.over(given) for e in program.equations]
            outputs = [given.get(x, x) if type(x) is Variable else x for x in program.outputs]
            body = program.with_equations(replaced, outputs)
        self.add_equations(body, box, within, equation.scope)
        for variable, x in zip(equation.outputs, body.outputs, strict=True):
            source = self.source(x, box, within)
            if source is None:
                value = self.name(variable)
                made = self.node(box, "constant", printed_scalar(x), [value], printed_scalar(x))
                source = Source(made.number, value)
            known[variable] = source

    def add_operation(self, equation: Equation, box: Box, known: dict[Any, Source]) -> None:
        """Adds the node of an equation, and the edges to it."""
        sources = [self.source(x, box, known) for x in equation.operands]
        pairs = list(zip(equation.operands, sources, strict=True))
        texts = [printed_scalar(x) if s is None else s.value.letters for x, s in pairs]
        static = [f"{key}={shown_value(v)}" for key, v in shown_parameters(equation)]
        brief = [printed_scalar(x) if s is None else EDGE_OPERAND for x, s in pairs]
        title = name = label(equation.primitive.name, equation.params)
        if any(s is None for s in sources):
            title = f"{name}({', '.join(brief)})"
        values = [self.name(x) for x in equation.outputs]
        made = self.node(
            box,
            "operation",
            title,
            values,
            f"{name}({', '.join([*texts, *static])})",
            detail=printable(", ".join(static)),
            line=equation.line,
        )
        self.edges += [Edge(s.node, made.number, s.value) for s in sources if s is not None]
        for variable, value in zip(equation.outputs, values, strict=True):
            known[variable] = Source(made.number, value)

    def source(self, x: Any, box: Box, known: dict[Any, Source]) -> Source | None:
        """Returns where an operand comes from; None of a number, which stands in its node.

        An array that is a constant gets a node where it is used first.
        """
        if type(x) is Variable:
            return known[x]
        if type_of(x).shape == () and not isinstance(x, Tracer):
            return None
        if id(x) not in known:
            value = self.name(x)
            text = "traced value" if isinstance(x, Tracer) else "constant"
            made = self.node(box, "constant", text, [value], text, detail=value.type)
            known[id(x)] = Source(made.number, value)
        return known[id(x)]


def relative_scope(scope: str, outer: str) -> str:
    """Returns a scope as it is called within an outer one."""
    if not outer:
        return scope
    return "" if scope == outer else scope.removeprefix(f"{outer}/")


def shown_grid(grid: Sequence[int]) -> str:
    """Returns the lengths of a region's axes: ``1000 × 64``."""
    return " × ".join(map(str, grid)) or "1"


def printed_scalar(x: Any) -> str:
    """Returns a constant as an operand: a number's value, an array's dtype and shape."""
    if type_of(x).shape == () and not isinstance(x, Tracer):
        return str(x)
    return f"<{describe(x)}>"


def shown_parameters(equation: Equation) -> list[tuple[str, Any]]:
    """Returns the static parameters that say something: neither None nor an option that is off.

    That of a tag is in its name.
    """
    if equation.primitive.name == checkpoint_name.name:
        return []
    return [(k, v) for k, v in equation.params.items() if v is not None and v is not False]


def shown_value(value: Any) -> str:
    """Returns a static parameter's text, the same in every process."""
    text = function_name(value) if callable(value) else str(value)
    return printable(ADDRESS.sub("", text))
