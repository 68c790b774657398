"""The base of all that an equation or a node runs, with the attributes that others ask for.

Primitives derive from ``PrimitiveLike``, and what has several outputs from ``Call``: functions with
rules of their own, loops, branches, fused regions. Passes, staging and plans read the attributes
and do not ask for the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Call", "PrimitiveLike"]


class PrimitiveLike:
    """A primitive, or what stands for one in an equation or in a node of reverse mode.

    The attributes without a default here are set in every primitive. A default would be looked up
    before the primitive's own value, on the hot path too.

    Attributes:
        name: its name.
        compute: the array module's function by name, or a function; None of calls.
        impl: computes it on raw buffers and returns one; None of calls.
        ahead: the same, and what rules get in the output's place; None where nothing is done ahead.
        infer: infers types without computing; None where only evaluation tells.
        family: the name of the family that built it; empty without one.
        constant: whether its outputs carry no derivative.
        broadcasts: whether a cotangent is summed down to a broadcast operand's shape.
        creates: whether the result is made on the default device, whatever its operands.
        fused: whether it is a region, which a plan runs block by block.
        bodies: the programs that it runs.
        program: the program that computes it, once it was staged; None elsewhere.
        trips: how often it runs its bodies; None where nothing limits that.
        chooses: whether it runs only one of its bodies.
        device: where its outputs are; None where the operands tell.
        effect: whether somebody sees that it runs, so that no pass may leave it out.
        collective: whether it may be an operation of several processes; `exchanges` says whether it
            is one.
        told_as: the name of the user's operation in errors; empty where it is its own.
    """

    __slots__ = ()

    name: str
    compute: str | Callable[..., Any] | None
    impl: Callable[..., Any] | None
    ahead: Callable[..., tuple[Any, Any]] | None
    infer: Callable[..., Any] | None
    family: str
    constant: bool
    broadcasts: bool
    creates: bool
    fused = False
    bodies: Sequence[Any] = ()
    program: Any = None
    trips: int | None = 1
    chooses = False
    device: str | None = None
    effect = False
    collective = False
    told_as = ""

    def exchanges(self, params: Mapping[str, Any]) -> bool:
        """Says whether several processes do it together, given its parameters.

        All of them do so in the same order. Passes, which may find other constants in each
        process, neither leave such operations out nor change their order.
        """
        return self.collective

    def under(self, trace: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Does its work under a trace, on values of that level."""
        raise NotImplementedError

    def branches(self) -> Sequence[Any] | None:
        """Returns the programs of a choice that a plan may write out; None where it may not."""
        return None

    def machine_loop(self) -> Any:
        """Returns the programs of a loop of which machine code is made; None where it is none."""
        return None

    def machine_branches(self) -> Sequence[Any] | None:
        """Returns the programs of a choice in the form of which machine code is made, or None."""
        return None

    def machine_steps(self) -> Callable[[Sequence[Any]], list[Any]] | None:
        """Returns what runs a loop's steps by machine code, one by one; None where it is none."""
        return None

    def plain_facts(self) -> tuple[Any, ...] | None:
        """Returns what its work follows from beside its class, its name and its bodies.

        They are plain values, by which its plan is found on the disk. None where these tell not
        all.
        """
        return None

    def compile_for(self, types: Sequence[Any]) -> None:
        """Compiles the machine code that it runs by itself on operands of such types, if any."""

    def replayed(self) -> Any:
        """Returns the same where a backward pass runs it again, with an effect of that."""
        return self

    def unwatched(self) -> Any:
        """Returns the same without the hooks that see its cotangents."""
        return self

    def prove(self) -> None:
        """Checks what it claims of its program; `check_programs` asks for that."""


class Call(PrimitiveLike):
    """An operation with a list of outputs, which is bound to operands alone.

    Attributes:
        dissolves: whether staging puts its program in its place.
        each_time: whether a loop does it in every step, though it depends on none.
        out_flags: of a call for a batch, which outputs have the batch axis; None stands for all.
    """

    __slots__ = ()

    compute: str | Callable[..., Any] | None = None
    impl: Callable[..., Any] | None = None
    infer: Callable[..., Any] | None = None
    family = ""
    constant = False
    broadcasts = False
    creates = False
    dissolves = False
    each_time = False
    out_flags: Sequence[bool] | None = None
    evaluate: Callable[[list[Any]], list[Any]]

    def bind(self, operands: Sequence[Any]) -> list[Any]:
        """Applies the call at the level of the current trace."""
        raise NotImplementedError

    def on_buffers(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the outputs as buffers, of buffers."""
        raise NotImplementedError

    def reported_on_buffers(self, buffers: Sequence[Any]) -> list[Any]:
        """Does the same in a plan that reports where NaN or infinity is made.

        A call that runs bodies reports what happens in them.
        """
        return self.on_buffers(buffers)

    def sources(self) -> Mapping[str, str]:
        """Returns the texts of the plans that it runs, by what they compute."""
        return {}

    def reverse(
        self, level: Any, values: list[Any], wanted: Sequence[bool]
    ) -> tuple[list[Any], Callable[[list[Any]], list[Any]]]:
        """Returns the outputs and the function that pulls cotangents back."""
        raise NotImplementedError

    def reached(self, wanted: tuple[bool, ...]) -> Sequence[bool] | None:
        """Returns for every output whether it has a derivative by operands; None if not known."""
        return None

    def forward(
        self, level: Any, values: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Returns the outputs and their tangents; None for one that has none."""
        raise NotImplementedError

    def in_parts(self, trace: Any, args: Sequence[Any]) -> list[Any] | None:
        """Does its work under a trace as a primitive's; None where it is to stay a call."""
        return None

    def batched(self, flags: Sequence[bool], size: int, axis_name: Any = None) -> Call:
        """Returns the same for a batch; operands without a flag are shared by all examples."""
        raise NotImplementedError
