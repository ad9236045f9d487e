"""Singular value decomposition of mx arrays: one large matrix, a batch of small ones, a graded one, and a gradient.

python examples/mlx_svd.py
"""

from __future__ import annotations

import time

import mlx.core as mx
import numpy as np

import metalcore.mlx
from metalcore.health.linalg.ratios import svd as ratios


def main() -> None:
    mx.random.seed(0)
    for shape in ((200, 120), (1000, 8, 8)):
        A = mx.random.normal(shape)
        metalcore.mlx.linalg.svd(A)  # compiles the kernels
        begin = time.perf_counter()
        U, S, Vh = metalcore.mlx.linalg.svd(A, full_matrices=False)
        mx.eval(U, S, Vh)
        seconds = time.perf_counter() - begin
        found = ratios(A, U, S, Vh)
        print(
            f"{'x'.join(map(str, shape))}: {seconds * 1e3:.1f} ms; residual ratio {found['residual']:.2g}, "
            f"orthogonality of U {found['left']:.2g}, of V {found['right']:.2g} (limit 35)"
        )
        assert max(found.values()) < 35

    # Rows from 1 to 1e-16: the smallest singular value is far below what rounding of the largest one would leave.
    rows = mx.array(10.0 ** -np.arange(0, 18, 2.0).astype(np.float32))
    turned, _, _ = metalcore.mlx.linalg.svd(mx.random.normal((9, 9)))
    smallest = float(metalcore.mlx.linalg.svdvals(rows[:, None] * turned)[-1].item())
    print(f"graded rows: the smallest singular value is {smallest:.3g}, the smallest row {rows[-1].item():.3g}")
    assert 0.1 < smallest / rows[-1].item() <= 1.0001

    A = mx.random.normal((6, 4))
    gradient = mx.grad(lambda A: metalcore.mlx.linalg.svdvals(A).sum())(A)  # of the nuclear norm: U Vh
    U, _, Vh = metalcore.mlx.linalg.svd(A, full_matrices=False)
    difference = float(np.abs(np.array(gradient - U @ Vh)).max())
    print(f"gradient of the nuclear norm: {difference:.2g} away from U Vh")
    assert difference < 1e-5


if __name__ == "__main__":
    main()
