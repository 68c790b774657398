"""Layers of neural networks: activations, normalisation, pooling, losses."""
