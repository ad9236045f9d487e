"""The language and the lockstep semantics: tiny kernels, one behaviour each, exact values."""
