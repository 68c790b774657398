"""Products and factors of matrices on a GPU, by cuBLAS and cuSOLVER."""
