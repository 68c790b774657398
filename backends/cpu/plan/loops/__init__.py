"""Plans of loops and branches: each is one generated function."""
