"""Calls of PyTorch and MLX that need a Mac, answered by the engine: same names, same rules, same errors."""
