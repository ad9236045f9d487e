"""The mutation check: 20 correct kernels, one change at a time, and does sanitize mode see it?

`python -m tests.sanitizer.mutation` runs it: `kernels/` and `cases.py` hold the kernels, `mutants.py` makes the
changes, `judge.py` runs one mutant, `pool.py` many, and `summary.py` counts.
"""
