"""Factors, solutions and functions of matrices."""
