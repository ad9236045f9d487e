"""What an op is declared with."""
