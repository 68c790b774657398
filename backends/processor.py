"""Tells what NumPy gives on this processor for numbers out of range and for zeros."""

from __future__ import annotations

import platform

import numpy as np

__all__ = ["ARM", "IS_ARM64", "IS_X86_64", "X86", "ZEROS_ARE_ORDERED"]

# What Python calls them.
X86, ARM = ("x86_64", "amd64"), ("arm64", "aarch64")
IS_X86_64 = platform.machine().lower() in X86
IS_ARM64 = platform.machine().lower() in ARM
# Of two zeros arm64 takes the positive one for the larger. Elsewhere ``np.maximum`` and
# ``np.minimum`` return the second operand.
ZEROS_ARE_ORDERED = bool(np.signbit(np.minimum(np.array([-0.0, 0.0]), np.array([0.0, -0.0]))).all())
