"""Cases of metalcore.linalg, a file for each family."""
