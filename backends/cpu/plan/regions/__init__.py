"""Elementwise work and reductions in blocks that fit the cache."""
