"""Builds native/torch: for macOS from any machine, and its core for Linux, where the tests stand in for Metal."""
