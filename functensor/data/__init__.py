"""Data sets, and their batches."""

from __future__ import annotations
