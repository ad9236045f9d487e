"""Cases of metalcore.precise, a file for each family."""
