"""Plans on GPUs: programs whose elementwise work and folds are kernels that are made for them."""
