"""The error of a kernel that breaks a rule of its language."""

__all__ = ["KernelError"]


class KernelError(ValueError):
    """A kernel breaks a rule of its language: whoever made it is wrong."""
