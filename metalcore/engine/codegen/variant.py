"""Its old place: see metalcore.engine.model."""

from metalcore.engine.model import PRIVATE as PRIVATE
from metalcore.engine.model import STACK_AROUND as STACK_AROUND
from metalcore.engine.model import TABLE as TABLE
from metalcore.engine.model import NativeKernel as NativeKernel
from metalcore.engine.model import Place as Place
from metalcore.engine.model import Site as Site
from metalcore.engine.model import ThreadgroupVariable as ThreadgroupVariable
from metalcore.engine.model import Variant as Variant
