"""PyTorch's tools beside tensors."""

from __future__ import annotations
