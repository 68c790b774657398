"""Data sets that are fetched once, and read from local files."""

from __future__ import annotations
