"""Programs without the hooks that see the cotangents of their operations."""

from __future__ import annotations

from .program import Program

__all__ = ["unwatched"]


def unwatched(program: Program) -> Program:
    """Returns a program without the hooks that see cotangents of its operations."""
    if "unwatched" not in program.derived:
        plain = [e.primitive.unwatched() for e in program.equations]
        pairs = [*zip(program.equations, plain, strict=True)]
        program.derived["unwatched"] = program if all(e.primitive is p for e, p in pairs) else (
            program.with_equations([e.by(p, e.operands, e.params) for e, p in pairs])
        )
    return program.derived["unwatched"]  # type: ignore[no-any-return]
