"""CUDA kernels: each family has a module and a source of one name."""
