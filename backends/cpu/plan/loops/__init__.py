"""Loops as one generated function."""
