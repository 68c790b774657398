"""Jobs of hooks, done in functensor, PyTorch and JAX: `python -m benchmarks.hooks_beside`."""
