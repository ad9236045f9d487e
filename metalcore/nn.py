"""`from metalcore.nn import RMSNorm`: modules over the ops, for PyTorch."""

from metalcore.packages import needed_for

with needed_for("metalcore.nn"):
    from metalcore.torch.nn import *  # noqa: F403
    from metalcore.torch.nn import __all__ as __all__
