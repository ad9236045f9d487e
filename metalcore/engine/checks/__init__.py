"""Checks of sanitize mode: each adds hooks to a kernel's inlined, unoptimised scalar IR."""
