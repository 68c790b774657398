"""Threads of plans: the pool, products in parts, and groups of equations side by side."""
