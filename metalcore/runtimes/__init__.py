"""Where a library kernel runs: the engine (cpu.py), PyTorch MPS (mps.py), MLX (mlx.py). Same names in each."""
