"""MSL that this project did not write: MLX's kernel templates and PyTorch's Metal headers, from installed wheels."""
