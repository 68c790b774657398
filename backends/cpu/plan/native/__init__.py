"""Regions as kernels: primitives written in operations, and runs of machine code."""
