# Made by `python -m tests.ops.stubs`; do not edit.
# ruff: noqa

from metalcore.precise import cholesky as cholesky, dot as dot, matmul as matmul, norm as norm, qr as qr, solve as solve, sum as sum
