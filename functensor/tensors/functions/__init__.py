"""PyTorch's functions of tensors, by families; most are methods of tensors too."""

from __future__ import annotations
