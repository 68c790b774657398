"""The CPU's backend: kernels over NumPy, and plans of programs."""
