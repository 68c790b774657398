"""Contractions: products of matrices, ``einsum``, convolutions, Fourier transforms."""
