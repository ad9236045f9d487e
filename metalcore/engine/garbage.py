"""Python's search for garbage, left out where hundreds of thousands of objects are made that all stay to the end."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def without_collections(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """A function during which nothing looks for garbage: a tenth of the time of a large kernel's stages."""

    @wraps(function)
    def run(*given: _Given.args, **options: _Given.kwargs) -> _Result:
        is_on = gc.isenabled()
        gc.disable()
        try:
            return function(*given, **options)
        finally:
            if is_on:
                gc.enable()

    return run
