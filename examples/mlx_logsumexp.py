"""An MLX program for a Mac: logsumexp with a gradient, as a custom kernel.

Elsewhere: metalcore run examples/mlx_logsumexp.py
"""

import mlx.core as mx

kernel = mx.fast.metal_kernel(
    name="row_logsumexp",
    input_names=["x"],
    output_names=["out"],
    source="""
        uint row = threadgroup_position_in_grid.x;
        uint lane = thread_index_in_simdgroup;
        uint columns = x_shape[1];
        float largest = Limits<float>::min;
        for (uint i = lane; i < columns; i += 32) {
            largest = metal::max(largest, float(x[row * columns + i]));
        }
        largest = simd_max(largest);
        float sum = 0;
        for (uint i = lane; i < columns; i += 32) {
            sum += metal::exp(float(x[row * columns + i]) - largest);
        }
        sum = simd_sum(sum);
        if (lane == 0) {
            out[row] = T(largest + metal::log(sum));
        }
    """,
)


@mx.custom_function
def logsumexp(x):
    rows = x.shape[0]
    (out,) = kernel(
        inputs=[x],
        template=[("T", x.dtype)],
        output_shapes=[(rows,)],
        output_dtypes=[x.dtype],
        grid=(32 * rows, 1, 1),
        threadgroup=(32, 1, 1),
    )
    return out


@logsumexp.vjp
def logsumexp_vjp(x, cotangent, output):
    return mx.exp(x - output[:, None]) * cotangent[:, None]


if __name__ == "__main__":
    assert mx.metal.is_available()
    mx.random.seed(0)
    x = mx.random.normal((64, 1000))
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        values = x.astype(dtype)
        error = mx.abs(logsumexp(values) - mx.logsumexp(values.astype(mx.float32), axis=1)).max().item()
        print(f"{dtype}: largest error {error:.1e}")
        assert error < (1e-5 if dtype == mx.float32 else 5e-2)
    gradient = mx.grad(lambda v: logsumexp(v).sum())(x)
    expected = mx.softmax(x, axis=1)
    print(f"gradient: largest error {mx.abs(gradient - expected).max().item():.1e}")
    assert mx.allclose(gradient, expected, atol=1e-6)
