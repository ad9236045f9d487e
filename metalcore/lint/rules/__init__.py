"""The rules, one small module for each family."""
