"""Reshaping, joining, indexing and updating by index."""
