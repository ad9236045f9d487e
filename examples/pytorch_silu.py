"""A PyTorch program for a Mac: silu and its gradient, as Metal kernels.

Elsewhere: metalcore run examples/pytorch_silu.py
"""

import torch

library = torch.mps.compile_shader("""
#include <metal_stdlib>
using namespace metal;

kernel void silu(
    device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = x[i] / (1.0f + exp(-x[i]));
}

kernel void silu_backward(
    device const float* x, device const float* dy, device float* dx, uint i [[thread_position_in_grid]]) {
  const float s = 1.0f / (1.0f + exp(-x[i]));
  dx[i] = dy[i] * s * (1.0f + x[i] * (1.0f - s));
}
""")


class SiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        assert x.is_mps and x.is_contiguous()
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        library.silu(x, y, threads=x.numel(), group_size=256)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        library.silu_backward(x, dy.contiguous(), dx, threads=x.numel(), group_size=256)
        return dx


if __name__ == "__main__":
    assert torch.backends.mps.is_available()
    device = torch.device("mps")
    torch.manual_seed(0)
    x = torch.randn(1000, 37, device=device, requires_grad=True)
    y = SiLU.apply(x)
    y.square().sum().backward()

    expected = x.detach().clone().requires_grad_()
    torch.nn.functional.silu(expected).square().sum().backward()
    torch.mps.synchronize()
    print(f"device {y.device}")
    print(
        f"largest error: forward {(y - torch.nn.functional.silu(x)).abs().max().item():.1e}, "
        f"gradient {(x.grad - expected.grad).abs().max().item():.1e}"
    )
    torch.testing.assert_close(y, torch.nn.functional.silu(x))
    torch.testing.assert_close(x.grad, expected.grad)
