"""Transformations for users: ``grad``, ``jvp``, ``vmap`` and what is made of them."""
