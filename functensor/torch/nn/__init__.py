"""PyTorch's modules: layers with their parameters, and losses."""

from __future__ import annotations
