"""Public namespaces: the wrappers of their functions, and advice for wrong names."""
