"""PyTorch's optimizers, and the schedulers of their learning rates."""

from __future__ import annotations
