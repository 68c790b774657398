"""Machine code for kernels: LLVM prints, compiles and keeps it."""
