"""Arrays of NumPy, torch, mlx and DLPack: their memory and their dtypes. What is special about one is in its module."""
