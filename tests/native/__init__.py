"""Tests of native/, which stand in for the systems that it is for."""
