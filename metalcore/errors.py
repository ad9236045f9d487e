"""Every error that metalcore raises on purpose, in one place."""

from __future__ import annotations


class MetalcoreError(Exception):
    """Base of all errors raised by metalcore."""


class CompileError(MetalcoreError, SyntaxError):
    """The MSL does not compile; the message carries the compiler's lines, mapped to the user's source."""


class UnsupportedFeature(MetalcoreError, NotImplementedError):
    """Valid MSL that the engine does not run yet; the message names the feature."""


class UnknownFunction(MetalcoreError, LookupError):
    """No kernel of that name in the library."""


class ConstantError(MetalcoreError, ValueError):
    """A function constant is unknown, missing, or has a value that does not fit its type."""


class ArgumentError(MetalcoreError, TypeError):
    """A kernel argument has the wrong number, type, dtype, size or device."""


class IndexRangeError(MetalcoreError, IndexError, RuntimeError):
    """An index that came from data is out of range; the message names it. torch raises one of the two bases."""


class PagedCacheFull(MetalcoreError, RuntimeError):
    """A paged cache has too few free blocks for tokens; the message has the numbers. Free a sequence first."""


class UnknownSequence(MetalcoreError, LookupError):
    """A paged cache has no such sequence: it was freed, or never allocated."""


class TransformError(MetalcoreError, RuntimeError):
    """An op was called where the framework does not compute but trace, or for a gradient that it does not have."""


class LinAlgError(MetalcoreError, RuntimeError):
    """A matrix has no such factorisation: singular, not positive definite, no convergence. torch tensors and NumPy
    arrays raise the LinAlgError of their own framework."""


class LaunchError(MetalcoreError, ValueError):
    """A launch that Metal would refuse or silently drop: group size, threadgroup memory, buffers."""


class KernelFault(MetalcoreError, RuntimeError):
    """The kernel did something it must not while it ran, such as an access out of bounds."""


class AssertionFault(KernelFault, AssertionError):
    """An `assert` of the kernel did not hold; the message has the condition, the line and the thread."""


class CacheRefused(MetalcoreError, RuntimeError):
    """The cache folder could be changed by another user, and code is loaded from it; the message has the remedy."""


class CacheWarning(UserWarning):
    """The cache folder cannot be used, so that every process compiles anew."""


class MissingPackage(MetalcoreError, ModuleNotFoundError):
    """An optional package that is asked for is not installed; the message says how to get it."""


class LaunchTimeout(MetalcoreError, TimeoutError):
    """A launch took longer than its timeout and was stopped; the message names the kernel and the seconds."""


class IsolationError(MetalcoreError, RuntimeError):
    """The worker of `metalcore.isolate` died, gave nonsense, or could not be sealed. `signal` names what it died of,
    as in "SIGSEGV"; it is empty where no signal did it."""

    def __init__(self, message: str, *, signal: str = "") -> None:
        super().__init__(message)
        self.signal = signal


class IsolationTimeout(IsolationError, LaunchTimeout):
    """A launch or a compilation under `metalcore.isolate` took longer than its limit, and its worker was ended."""


class SanitizerError(MetalcoreError, RuntimeError):
    """Sanitize mode found something, and was asked to stop there."""
