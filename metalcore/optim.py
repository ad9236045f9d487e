"""Optimizers for PyTorch, drop-ins for those of torch.optim: each step is one launch over all parameters."""

from metalcore.packages import needed_for

with needed_for("metalcore.optim"):
    from metalcore.torch.optim import SGD, Adam, AdamW, Lion, clip_grad_norm_

__all__ = ["SGD", "Adam", "AdamW", "Lion", "clip_grad_norm_"]
