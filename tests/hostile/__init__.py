"""Hostile launches: generated kernels that leave their arrays, with guard pages around each and an exact oracle."""
