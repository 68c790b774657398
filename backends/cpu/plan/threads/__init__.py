"""Work of a plan that threads share, or do side by side."""
