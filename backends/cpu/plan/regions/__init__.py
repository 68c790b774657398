"""Regions: elementwise work and reductions in blocks that fit into the cache."""
