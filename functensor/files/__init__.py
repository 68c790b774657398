"""Trees, modules and tensors in files."""

from __future__ import annotations
