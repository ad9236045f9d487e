"""`from metalcore.nn import RMSNorm`: modules over the ops, for PyTorch, and the paged cache of a decoding loop."""

from metalcore.packages import needed_for

with needed_for("metalcore.nn"):
    from metalcore.torch.nn import *  # noqa: F403
    from metalcore.torch.nn import __all__ as _modules
    from metalcore.torch.paged_cache import PagedCache as PagedCache
    from metalcore.torch.xlstm import *  # noqa: F403
    from metalcore.torch.xlstm import __all__ as _xlstm

__all__ = [*_modules, *_xlstm, "PagedCache"]
