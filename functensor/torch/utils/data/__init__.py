"""PyTorch's names for data sets and their batches."""

from __future__ import annotations
