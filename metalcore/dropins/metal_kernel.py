"""`metalcore.metal_kernel`: mx.fast.metal_kernel on the CPU, for mlx arrays, torch tensors and NumPy arrays.

The rules are MLX's (see `docs/guide/mlx.md`). Unlike MLX's, a call runs at once: it is not a step of a lazy graph.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metalcore import launch
from metalcore.dropins import signature
from metalcore.dropins.binding import aligned_copy
from metalcore.dropins.call_plans import CallPlan, call_key, lies_in_rows
from metalcore.dropins.frameworks import Framework, KernelInputError, dtype_name, framework_of
from metalcore.dropins.signature import CONSTANT_ARRAY_LIMIT, Input, TemplateValue
from metalcore.engine.isolate.current import current as current_sandbox
from metalcore.engine.isolate.current import settled
from metalcore.engine.locks import ForkLock
from metalcore.engine.options import shown
from metalcore.engine.unpicklable import Unpicklable
from metalcore.errors import ArgumentError

if TYPE_CHECKING:
    from metalcore.engine.function import Function

MATH_MODES = ("safe", "relaxed", "fast")
PRELUDE_DIR = Path(__file__).parent / "include"
MLX_HEADERS = "mlx/backend/metal/kernels/"
KEPT_PLANS = 256


def metal_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: Mapping[str, str] | None = None,
) -> MetalKernel:
    """A kernel from the body of an MSL function; its signature is written for it, as mx.fast.metal_kernel does.

    >>> import numpy as np, metalcore
    >>> kernel = metalcore.metal_kernel(
    ...     name="double", input_names=["x"], output_names=["y"],
    ...     source="uint i = thread_position_in_grid.x; y[i] = x[i] + x[i];")
    >>> x = np.arange(4, dtype=np.float32)
    >>> (y,) = kernel(inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype],
    ...               grid=(4, 1, 1), threadgroup=(4, 1, 1))
    >>> y.tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    return MetalKernel(
        name, input_names, output_names, source, header, ensure_row_contiguous, atomic_outputs, compile_options
    )


class MetalKernel(Unpicklable):
    """What metal_kernel returns: call it with keywords, get a list of new arrays."""

    def __init__(
        self,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str,
        ensure_row_contiguous: bool,
        atomic_outputs: bool,
        compile_options: Mapping[str, str] | None,
    ) -> None:
        for label, text in (("name", name), ("source", source), ("header", header)):
            if not isinstance(text, str):
                raise ArgumentError(f"[metal_kernel] `{label}` must be a str, not {type(text).__name__}")
        for label, names in (("input_names", input_names), ("output_names", output_names)):
            if not _is_list(names) or not all(isinstance(each, str) for each in names):
                raise KernelInputError(f"[metal_kernel] `{label}` must be a list of names, not {shown(names)}")
        if not output_names:
            raise KernelInputError("[metal_kernel] Must specify at least one output.")
        self.name = name
        self._inputs = tuple(input_names)
        self._outputs = tuple(output_names)
        self._source = source
        self._header = header
        self._contiguous = ensure_row_contiguous
        self._atomic = atomic_outputs
        self._math_mode = _math_mode(compile_options)
        self._shapes = [signature.mentioned_shapes(each, source) for each in self._inputs]
        self._built: dict[tuple[object, ...], tuple[Function, signature.Signature]] = {}
        self._plans: dict[tuple[object, ...], CallPlan] = {}
        self._lock = ForkLock()
        self._sandbox = current_sandbox()  # what was made inside a block of isolate() stays there

    def __call__(
        self,
        *,
        inputs: Sequence[Any],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[Any],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Sequence[tuple[str, Any]] | None = None,
        init_value: float | None = None,
        verbose: bool = False,
        stream: object = None,
    ) -> list[Any]:
        """Run the kernel and return its outputs. `stream` is accepted and has no meaning on a CPU."""
        key = call_key(inputs, output_shapes, output_dtypes, grid, threadgroup, template, init_value)
        plan = None if key is None or verbose else self._plans.get(key)
        if plan is not None:
            found = plan.run(inputs)
            if found is not None:
                return found
        self._check_count("inputs", inputs, self._inputs)
        self._check_count("output_shapes", output_shapes, self._outputs)
        self._check_count("output_dtypes", output_dtypes, self._outputs)
        framework = framework_of(inputs, output_dtypes)
        arrays = [framework.array(value, f"input '{n}'") for n, value in zip(self._inputs, inputs, strict=True)]
        dtypes = tuple(dtype_name(each, f"output '{n}'") for n, each in zip(self._outputs, output_dtypes, strict=True))
        shapes = [_shape(shape, name) for name, shape in zip(self._outputs, output_shapes, strict=True)]
        arguments = _template(template)
        if init_value is not None and not isinstance(init_value, (Real, np.bool_)):
            raise KernelInputError(f"[metal_kernel] `init_value` must be a number, not {shown(init_value)}")
        if any(array is not value for array, value in zip(arrays, inputs, strict=True)):
            key = None  # what the kernel gets was made of what it was given

        def run(given: Sequence[Any]) -> list[Any]:
            ready = [framework.row_contiguous(array) for array in given] if self._contiguous else given
            infos = tuple(self._info(name, array) for name, array in zip(self._inputs, ready, strict=True))
            function, written = self._function(infos, dtypes, arguments)
            if verbose:
                print(f"Generated source code for `{self.name}`:\n```\n{written.text}\n```")
            size, group = _launch_size(grid, threadgroup, function.facts)
            makers = [framework.maker(shape, dtype, init_value) for shape, dtype in zip(shapes, dtypes, strict=True)]
            outputs = [make() for make in makers]
            between = [self._described(framework, *each) for each in zip(ready, self._shapes, strict=True)]
            bindings = []
            for name, array, others in zip(self._inputs, ready, between, strict=True):
                bindings.append(framework.bind(array, f"input '{name}'"))
                bindings += [aligned_copy(other) for other in others]
            bindings += [framework.bind_new(array, fresh=init_value is None) for array in outputs]
            if 0 not in size:
                function.launch_raw(bindings, grid=size, group=group)
                strides = framework.arrays.strides
                if key is not None and all(lies_in_rows(array.shape, strides(array)) for array in ready):
                    self._keep(key, CallPlan(function, size, group, between, makers))
            return outputs

        return framework.apply(run, arrays)

    def _keep(self, key: tuple[object, ...], plan: CallPlan) -> None:
        if len(self._plans) >= KEPT_PLANS:
            self._plans.clear()
        self._plans[key] = plan

    def _check_count(self, label: str, given: Sequence[Any], names: tuple[str, ...]) -> None:
        if not _is_list(given):
            raise KernelInputError(f"[metal_kernel] `{label}` must be a list, not {type(given).__name__}")
        if len(given) != len(names):
            raise KernelInputError(
                f"[metal_kernel] Expected `{label}` to have size {len(names)} but got size {len(given)}."
            )

    def _info(self, name: str, array: Any) -> Input:
        count = int(np.prod(array.shape, dtype=np.int64))
        dtype = dtype_name(array.dtype, f"input '{name}'")
        return Input(dtype, small=count < CONSTANT_ARRAY_LIMIT, scalar=len(array.shape) == 0)

    def _described(self, framework: Framework, array: Any, shapes: signature.Shapes) -> tuple[Any, ...]:
        """What the body names of an input besides its elements: shape, strides, number of dimensions."""
        if not array.shape:
            return ()
        found = []
        if shapes.shape:
            found.append(np.array(array.shape, np.int32))
        if shapes.strides:
            found.append(np.array(framework.arrays.strides(array), np.int64))
        if shapes.ndim:
            found.append(np.array([len(array.shape)], np.int32))
        return tuple(found)

    def _function(
        self, infos: tuple[Input, ...], dtypes: tuple[str, ...], template: tuple[tuple[str, TemplateValue], ...]
    ) -> tuple[Function, signature.Signature]:
        """Compiled once for each combination of dtypes, sizes below 8 and template arguments."""
        # True and 1 are equal keys but not the same template argument.
        key = (current_sandbox(), infos, dtypes, tuple((name, type(value), value) for name, value in template))
        built = self._built.get(key)
        if built is None:
            with self._lock:
                built = self._built.get(key) or self._build(infos, dtypes, template)
                # What was compiled in a block of isolate() that has ended is not needed again.
                self._plans = {k: v for k, v in self._plans.items() if k[0] in (None, key[0])}
                self._built = {k: v for k, v in self._built.items() if k[0] in (None, key[0])}
                self._built[key] = built
        return built

    def _build(
        self, infos: tuple[Input, ...], dtypes: tuple[str, ...], template: tuple[tuple[str, TemplateValue], ...]
    ) -> tuple[Function, signature.Signature]:
        from metalcore.engine.library import Library

        written = signature.write(
            self.name,
            self._header,
            self._source,
            list(zip(self._inputs, infos, self._shapes, strict=True)),
            list(zip(self._outputs, dtypes, strict=True)),
            template,
            self._atomic,
        )
        prelude, include_dirs = _prelude(self._header + self._source)
        with settled(self._sandbox):
            library = Library(prelude + written.marked, include_dirs=include_dirs, math_mode=self._math_mode)
        return library.function(written.name), written


def _prelude(text: str) -> tuple[str, tuple[str, ...]]:
    """MLX puts its utils.h above every kernel. Ours has the same names; a text that includes MLX's gets MLX's."""
    if MLX_HEADERS not in text:
        return '#include "metalcore_mlx_utils.h"\n', (str(PRELUDE_DIR),)
    spec = importlib.util.find_spec("mlx")
    places = tuple(str(Path(place) / "include") for place in (spec.submodule_search_locations or ())) if spec else ()
    return f'#include "{MLX_HEADERS}utils.h"\n', places


def _math_mode(options: Mapping[str, str] | None) -> str:
    if options is None:
        return "safe"
    if not isinstance(options, dict):
        raise KernelInputError("[metal_kernel] Expected `compile_options` to be a dict.")
    for key in options:
        if key != "math_mode":
            raise KernelInputError(f"[metal_kernel] Unknown compile option `{key}`.")
    mode: str = options.get("math_mode", "safe")
    if mode not in MATH_MODES:
        raise KernelInputError("[metal_kernel] Expected math_mode to be 'safe', 'relaxed', or 'fast'.")
    return mode


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))


def _template(template: Sequence[tuple[str, Any]] | None) -> tuple[tuple[str, TemplateValue], ...]:
    pairs = () if template is None else template
    if not _is_list(pairs) or not all(_is_list(each) and len(each) == 2 for each in pairs):
        raise KernelInputError(f"[metal_kernel] `template` must be a list of (name, value), not {shown(template)}")
    return tuple((name, _template_value(name, value)) for name, value in pairs)


def _template_value(name: str, value: Any) -> TemplateValue:
    if isinstance(value, (bool, int)):
        if not -(1 << 31) <= value < 1 << 31:
            raise KernelInputError(f"[metal_kernel] template argument '{name}': {value} does not fit an int")
        return value
    try:
        return dtype_name(value, f"template argument '{name}'")
    except KernelInputError as error:
        raise KernelInputError(
            f"[metal_kernel] Invalid template argument '{name}'. Must be a dtype, `int` or `bool`. ({error})"
        ) from error


def _shape(shape: Sequence[int], name: str) -> tuple[int, ...]:
    if not _is_list(shape) or not all(isinstance(size, (int, np.integer)) and size >= 0 for size in shape):
        raise KernelInputError(f"[metal_kernel] output '{name}': {shown(shape)} is not a shape")
    return tuple(int(size) for size in shape)


def _launch_size(
    grid: Sequence[int], threadgroup: Sequence[int], kernel: launch.Kernel
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Total threads, and the threadgroup clamped to them on each axis."""
    for label, value in (("grid", grid), ("threadgroup", threadgroup)):
        if not _is_list(value) or len(value) != 3 or not all(isinstance(number, (int, np.integer)) for number in value):
            raise ArgumentError(f"[metal_kernel] `{label}` must be three integers, not {shown(value)}")
        if min(value) < 0:
            raise KernelInputError(f"[metal_kernel] `{label}` {tuple(value)} has a negative size")
    sizes = [int(size) for size in threadgroup]
    total, limits = math.prod(sizes), launch.thread_limits(kernel)
    if total or min(grid) > 0:  # MLX looks at the threadgroup before it clamps it
        limit = min(each.threads for each in limits)
        lead = f"Thread group size ({total}) is greater than the maximum allowed threads per threadgroup ({limit})"
        said = f"threadgroup={tuple(sizes)}"
        launch.check_group(kernel.name, sizes, limits, said, lead if total > limit else "[metal_kernel]")
    clamped = [min(int(t), int(g)) for t, g in zip(threadgroup, grid, strict=True)]
    return (int(grid[0]), int(grid[1]), int(grid[2])), (clamped[0], clamped[1], clamped[2])
