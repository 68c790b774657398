"""Random bits of keys, dropout, and random numbers by rejection."""
