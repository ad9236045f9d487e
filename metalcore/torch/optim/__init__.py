"""Optimizers for PyTorch: each step is one launch over all parameters."""

from metalcore.torch.optim.adam import Adam
from metalcore.torch.optim.adamw import AdamW
from metalcore.torch.optim.clip import clip_grad_norm_
from metalcore.torch.optim.lion import Lion
from metalcore.torch.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Lion", "clip_grad_norm_"]
