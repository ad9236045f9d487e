"""Kernels in a sealed worker process: `with metalcore.isolate():` (docs/guide/isolate.md, docs/design/isolate.md)."""
