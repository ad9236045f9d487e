"""`from metalcore.nn import RMSNorm`: modules over the ops, for PyTorch."""

from metalcore.torch.nn import *  # noqa: F403
from metalcore.torch.nn import __all__ as __all__
