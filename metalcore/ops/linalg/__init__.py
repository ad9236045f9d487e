"""Linear algebra: one file per family of factorisations. What they share is in `base`."""
