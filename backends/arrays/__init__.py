"""Kernels for any array module: NumPy's, CuPy's or another one."""
