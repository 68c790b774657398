"""PyTorch's functions of graphs: gradients, and functions with rules of their own."""

from __future__ import annotations
