"""Random bits of keys, and what is drawn by rejection."""
