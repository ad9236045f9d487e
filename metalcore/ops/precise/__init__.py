"""Extended precision: sums and products with more digits than float32 has."""
