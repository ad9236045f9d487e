"""A kernel of a library, to call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from metalcore import launch
from metalcore.engine import coverage, modes
from metalcore.engine.isolate.current import current as current_sandbox
from metalcore.engine.model import FAST, SANITIZE, Argument, Variant
from metalcore.engine.modes import current_mode, current_report
from metalcore.engine.outcome import raise_outcome
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.launch import Plan
from metalcore.engine.runtime.native_library import call_objects, know, runtime_library
from metalcore.engine.runtime.threads import Threads, get_num_threads
from metalcore.engine.timeouts import checked_seconds, limit_of, timeout_around
from metalcore.engine.units import Constants, SourceUnit
from metalcore.engine.unpicklable import Unpicklable
from metalcore.forking import import_whole
from metalcore.launch.device import block

if TYPE_CHECKING:
    from metalcore.engine.checks.report import Finding
    from metalcore.engine.isolate.sandbox import Sandbox
    from metalcore.engine.isolate.unit import IsolatedUnit
    from metalcore.engine.runtime.binding import Packed
    from metalcore.engine.runtime.launch import Code
    from metalcore.engine.runtime.raw_binding import Binding

_KEPT_PLANS = 512
_KEPT_TWINS = 4
block_around = block.get


class Function(Unpicklable):
    """A kernel to call: `f(x, y, threads=n, group_size=256)`."""

    def __init__(
        self, unit: SourceUnit | IsolatedUnit, name: str, constants: Constants, follows_isolation: bool = True
    ) -> None:
        self.name = name
        self._unit, self._constants = unit, constants
        self._follows = follows_isolation and isinstance(unit, SourceUnit)
        self._twins: dict[Sandbox, Function] = {}  # of the isolations that it was called in last
        signature = unit.signature(name, constants)
        self.arguments: tuple[Argument, ...] = signature.arguments
        """Every parameter of the kernel: name, index, kind, type."""
        declared = None
        if signature.requirements:
            from metalcore.launch.requirements import conditions

            given = {c.name: dict(constants).get(c.index) for c in unit.constants}
            declared = conditions(name, signature.requirements, self.arguments, given)
        self.facts = launch.describe(name, self.arguments, signature.max_threads, declared)
        """What launch validation knows of the kernel."""
        self.max_threads = launch.thread_limit(self.facts, launch.COMMON)
        """Most threads that one threadgroup may have; a target may allow fewer."""
        launch.check_buffers(self.facts)
        import_whole("metalcore.engine.runtime.binding")
        from metalcore.engine.runtime.binding import Binder  # brings NumPy, which `import metalcore` does without

        self._binder = Binder(name, self.arguments, self._record_of)
        self._loaded: dict[Variant, Code] = {}
        self._plans: dict[Any, Plan | None] = {}
        self._packed_plans: dict[Any, Plan] = {}
        self._call: Any = None  # of the runtime, which may still be built while the kernel is compiled
        self._call_objects: Any = None

    def _record_of(self, argument: Argument) -> Any:
        """The layout of the struct that an argument takes."""
        return self._unit.record(self.name, self._constants, self.arguments.index(argument))

    @property
    def static_threadgroup_memory(self) -> int:
        """Bytes of threadgroup memory that the kernel declares itself."""
        if twin := self._twin():
            return twin.static_threadgroup_memory
        loaded = next(iter(self._loaded.values()), None)
        loaded = loaded or self._load(Variant.choose((self.max_threads, 1, 1), current_mode() != FAST))
        return loaded.native.static_threadgroup_memory

    def __call__(
        self,
        *args: Any,
        threads: Any = None,
        threadgroups: Any = None,
        group_size: Any = None,
        threadgroup_memory: Mapping[int | str, int] | None = None,
        timeout: float | None = None,
        **named: Any,
    ) -> None:
        """Run the kernel; returns when it is done.

        Positional argument i goes to [[buffer(i)]], keywords use the names in the MSL, None fills a slot that is
        disabled or not used (a `constant T&` is then zeros). `threads` is the grid in threads, `threadgroups` in
        threadgroups. A launch that takes more than `timeout` seconds (or those of the block of `metalcore.mode` around
        it) is stopped: LaunchTimeout.
        """
        if timeout is not None:
            timeout = checked_seconds(timeout)
        try:
            key = (block_around() or modes.process_key, threads, threadgroups, group_size, threadgroup_memory)
            plan = self._plans[key]
        except (KeyError, TypeError):
            if twin := self._twin():
                sizes = {"threads": threads, "threadgroups": threadgroups, "group_size": group_size}
                return twin(*args, **sizes, threadgroup_memory=threadgroup_memory, timeout=timeout, **named)
            plan = self._plan(threads, threadgroups, group_size, threadgroup_memory)
            if timeout is None:
                timeout = timeout_around()  # plans are not found at once where a block has one
        if plan is None:
            return
        if plan.is_watched:
            self._run(plan, self._binder.pack(args, named, plan.written), timeout)
            return
        if timeout is None:
            if named:
                args, named = self._binder.in_slots(args, named), {}
            status = self._call_objects(plan.address, args, Threads.count or get_num_threads(), layout.DECLARED)
            if not status:
                return
            if status not in (layout.NOT_SIMPLE, layout.TOO_WIDE):
                self.raise_status(status, plan)
            know(args)
        packed = self._binder.pack(args, named, plan.written)
        self._run(plan, packed, timeout)

    def check_launch(
        self,
        *,
        threads: Any = None,
        threadgroups: Any = None,
        group_size: Any = None,
        threadgroup_memory: Mapping[int | str, int] | None = None,
        target: str | None = None,
        max_threads: int | None = None,
    ) -> None:
        """Raise LaunchError where a launch of this shape would be refused; nothing runs.

        `target` and `max_threads` are those of `metalcore.target`, for this launch alone.
        """
        with launch.target(target, max_threads=max_threads) if target else nullcontext():
            (self._twin() or self)._plan(threads, threadgroups, group_size, threadgroup_memory)

    def launch_objects(
        self, args: tuple[Any, ...], grid: tuple[int, int, int], group: tuple[int, int, int], how: int
    ) -> bool:
        """Run with arrays (and numbers, where `how` is layout.STORAGE) whose types are not compared, if C can bind them
        all; else nothing happens."""
        plan = self._plans.get((block_around() or modes.process_key, grid, None, group, None))
        if plan is None:
            if self._twin() or timeout_around() is not None:
                return False
            plan = self._plan(grid, None, group, None)
            if plan is None:
                return True
        if plan.is_watched:
            return False
        status = self._call_objects(plan.address, args, Threads.count or get_num_threads(), how)
        if not status:
            return True
        if status not in (layout.NOT_SIMPLE, layout.TOO_WIDE):
            self.raise_status(status, plan)
        know(args)
        return False

    def launch_raw(
        self,
        bindings: Sequence[Binding | None],
        *,
        grid: Sequence[int],
        group: Sequence[int],
        threadgroup_memory: Mapping[int | str, int] | None = None,
    ) -> None:
        """Run with memory that the caller has bound, slot by slot. No dtype is checked."""
        if twin := self._twin():
            return twin.launch_raw(bindings, grid=grid, group=group, threadgroup_memory=threadgroup_memory)
        plan = self._plan(tuple(grid), None, tuple(group), threadgroup_memory)
        if plan is None:
            return
        from metalcore.engine.runtime.raw_binding import pack_raw

        self._run(plan, pack_raw(self._binder, bindings, plan.written), timeout_around())

    def launch_packed(
        self, data: bytes, keep: object, threadgroups: tuple[int, ...], group_size: tuple[int, ...]
    ) -> None:
        """Run with arguments that the caller has packed as `mc_call` takes them and answers for.

        For kernels that are tested with the package: `fast`, unless a block of `mode` or the process says otherwise.
        """
        plan = self.packed_plan(threadgroups, group_size)
        if plan is None:
            return
        if not plan.is_watched:
            seconds = None if block_around() is None else timeout_around()
            status = self._call(plan.address, data, Threads.count or get_num_threads(), None, 0, limit_of(seconds))
            if status == layout.TOO_WIDE:
                self._packed_plans[self._packed_key(threadgroups, group_size)] = self._wide(plan)
                self.launch_packed(data, keep, threadgroups, group_size)
            elif status:
                self.raise_status(status, plan, seconds)
            return
        from metalcore.engine.runtime.binding import Packed

        self._run(plan, Packed(data, None, 0, keep), timeout_around())

    def packed_plan(self, threadgroups: tuple[int, ...], group_size: tuple[int, ...]) -> Plan | None:
        """What `launch_packed` runs; None where there is nothing to run."""
        key = self._packed_key(threadgroups, group_size)
        plan = self._packed_plans.get(key)
        if plan is None:
            with modes.mode(FAST) if modes.is_default() else nullcontext():
                plan = self._plan(None, threadgroups, group_size, None, is_ours=True)
            if plan is not None and not plan.is_watched:
                self._packed_plans[key] = plan
        return plan

    @staticmethod
    def _packed_key(threadgroups: tuple[int, ...], group_size: tuple[int, ...]) -> Any:
        return block_around(), modes.process_mode, threadgroups, group_size

    def _twin(self) -> Function | None:
        """The same kernel where launches now go; None: it is this one."""
        sandbox = current_sandbox() if self._follows else None
        if sandbox is None:
            return None
        twin = self._twins.get(sandbox)
        if twin is None:
            twin = Function(sandbox.unit(self._unit.source), self.name, self._constants)
            self._twins = dict([*self._twins.items(), (sandbox, twin)][-_KEPT_TWINS:])
        return twin

    def _plan(
        self,
        threads: Any,
        threadgroups: Any,
        group_size: Any,
        memory: Mapping[int | str, int] | None,
        is_ours: bool = False,
    ) -> Plan | None:
        """`is_ours`: a kernel of the library, which is covered by its own tests."""
        mode = current_mode()
        is_covered = coverage.current is not None and not is_ours and mode != SANITIZE
        sizes = tuple(sorted(memory.items(), key=repr)) if isinstance(memory, Mapping) and memory else None
        key: Any = (mode, threads, threadgroups, group_size, sizes)
        if chosen := launch.chosen_target():
            key += (chosen,)
        if mode == SANITIZE:
            key += (current_report().compiled_in,)
        if is_covered:
            key += ("covered",)
        try:
            return self._plans[key]
        except (KeyError, TypeError):
            pass
        kernel: Code
        edge: Code

        def code(shape: launch.Shape) -> launch.Code:
            nonlocal kernel, edge
            kernel, edge = self._load_for(shape, mode, is_covered)
            return _code(kernel, edge)

        valid = launch.validate(
            self.facts,
            threads=threads,
            threadgroups=threadgroups,
            group_size=group_size,
            threadgroup_memory=memory,
            code=code,
        )
        if valid.shape.empty:
            return None
        plan = Plan(kernel, edge, valid, self._binder)
        if self._call is None:
            self._call_objects, self._call = call_objects(), runtime_library().mc_call
        if len(self._plans) >= _KEPT_PLANS:
            self._plans.clear()
            self._packed_plans.clear()
        with suppress(TypeError):  # lists instead of tuples: fine, but not kept
            self._plans[key] = plan
        return plan

    def _load_for(self, shape: launch.Shape, mode: str, is_covered: bool) -> tuple[Code, Code]:
        """Machine code for the threadgroups of a launch, and for those that the grid clips in x."""
        variant = replace(Variant.choose(shape.group, mode != FAST, shape.grid), covered=is_covered)
        if mode == SANITIZE:
            variant = variant.with_checks(current_report().compiled_in, shape.clipped_in_x)
        kernel = self._load(variant)
        return kernel, self._load(variant.edge()) if shape.clipped_in_x else kernel

    def _load(self, variant: Variant) -> Code:
        loaded = self._loaded.get(variant)
        if loaded is None and not variant.tail:  # code that also runs partial simdgroups serves as well
            loaded = self._loaded.get(replace(variant, tail=True))
        if loaded is None:
            loaded = self._loaded.setdefault(variant, self._unit.load(self.name, self._constants, variant))
        return loaded

    def _wide(self, plan: Plan) -> Plan:
        """The same launch with machine code for buffers of any size."""
        if plan.wide is None:
            kernel, edge = (self._load(replace(each.variant, wide=True)) for each in (plan.kernel, plan.edge))
            plan.wide = Plan(kernel, edge, plan.valid, self._binder)
        return plan.wide

    def _run(self, plan: Plan, packed: Packed, timeout: float | None) -> None:
        if plan.is_watched:
            if plan.valid.concerns_arguments:
                from metalcore.engine.runtime.declared_values import reader

                plan.valid.check_arguments(reader(self.arguments, packed))
            if plan.is_sanitized:
                self._sanitize(plan, packed, timeout)
                return
            if plan.kernel.is_remote:
                self._run_isolated(plan, packed, timeout)
                return
        status = self._call_packed(plan, packed, timeout)
        if status == layout.TOO_WIDE:
            self._run(self._wide(plan), packed, timeout)
        elif status:
            self.raise_status(status, plan, timeout)

    def _call_packed(self, plan: Plan, packed: Packed, timeout: float | None) -> int:
        threads = Threads.count or get_num_threads()

        def call() -> int:
            regions = packed.regions, packed.n_regions
            status: int = self._call(plan.address, packed.data, threads, *regions, limit_of(timeout))
            return status

        if not plan.says:
            return call()
        from metalcore.engine.runtime.said import listen, said_by

        return listen(self.name, plan, said_by(plan, call))

    def _run_isolated(self, plan: Plan, packed: Packed, timeout: float | None) -> None:
        from metalcore.engine.isolate.launches import run

        threads = Threads.count or get_num_threads()
        if plan.says:
            from metalcore.engine.isolate.launches import run_and_listen

            status, error = run_and_listen(self.name, plan, packed, threads, timeout)
        else:
            status, error, _ = run(self.name, plan, packed, threads, timeout=timeout)
        if status == layout.TOO_WIDE:
            self._run(self._wide(plan), packed, timeout)
        elif status:
            self.raise_status(status, plan, timeout, error)

    def _sanitize(self, plan: Plan, packed: Packed, timeout: float | None) -> None:
        """Run on one thread, in order, and report instead of raising."""
        from metalcore.engine.runtime.sanitize import run_sanitized

        found: list[Finding] = []

        def call() -> int:
            nonlocal found
            status, found = run_sanitized(self.name, plan, packed, self.arguments, current_report(), limit_of(timeout))
            return status

        if plan.says and not plan.kernel.is_remote:
            from metalcore.engine.runtime.said import hear, said_by

            status = hear(self.name, plan, said_by(plan, call))
        else:
            status = call()
        if status == layout.TOO_WIDE:
            self._sanitize(self._wide(plan), packed, timeout)
            return
        if status & ~layout.FAULT:
            self.raise_status(status, plan, timeout)
        for index in plan.valid.unused:
            current_report().note(
                f"kernel '{self.name}' has no [[threadgroup({index})]] argument: the bytes that threadgroup_memory= "
                "gives it count against the limit, and the kernel does not see them"
            )
        if found:
            from metalcore.diagnostics.launched import launch_line

            source, line = self._unit.remember(), launch_line()  # the report quotes the source's lines
            found = [replace(finding, source=source, launched=line) for finding in found]
        current_report().add(found)

    def raise_status(
        self, status: int, plan: Plan, timeout: float | None = None, error: layout.Error | None = None
    ) -> None:
        """The error of a launch that did not end well; `error` is what it noted, this thread's last one by default."""
        raise_outcome(self.name, self.arguments, status, plan, timeout, error)

    def __repr__(self) -> str:
        shown = ", ".join(f"{a.type} {a.name}" for a in self.arguments if a.kind != "builtin")
        return f"<metalcore.Function {self.name}({shown})>"

    def _repr_html_(self) -> str:
        from metalcore.diagnostics.html import html_table

        rows = [
            ("" if a.kind == "builtin" else a.index, a.name, a.type, a.space or a.attribute, "yes" * a.writable)
            for a in self.arguments
        ]
        return html_table(self.name, ["buffer", "name", "type", "space or attribute", "written"], rows)


def _code(kernel: Code, edge: Code) -> launch.Code:
    """What launch validation wants to know of the machine code."""
    natives = kernel.native, edge.native
    return launch.Code(
        max(native.static_threadgroup_memory for native in natives),
        frozenset(kernel.native.features + edge.native.features),
        natives[0].whole_simdgroups or natives[1].whole_simdgroups,
    )
