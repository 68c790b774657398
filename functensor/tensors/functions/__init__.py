"""PyTorch's functions of tensors, over primitives; many are methods of `Tensor` too."""
