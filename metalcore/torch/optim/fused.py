"""What all optimizers share: one step gathers the parameters that have a gradient and updates them in one launch.

A subclass names its kernel, its state and the numbers of one row of settings. Parameters of all groups go into the same
launch, unless their dtype, device or a function constant differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch

from metalcore.arrays.torch_private import without_compiling
from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import Kernel
from metalcore.torch.optim.layout import Work, place
from metalcore.torch.optim.many import DTYPES, Column, EngineLaunch, chunks_of, launch_of, most_tensors
from metalcore.torch.optim.plan import Kept, Plan
from metalcore.torch.optim.random import seed_of, stream_keys

SHARED_CONSTANTS = ("is_scaled", "has_master", "is_stochastic", "maximize")
MASTER = "master_param"
Row = tuple[float, ...]


@dataclass
class Batch:
    """Parameters that one launch takes."""

    columns: list[Column | None]
    groups: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Which parameter of the optimizer each is: its random numbers depend on it."""
    work: list[Work] = field(default_factory=list)
    steps: Any = None


class FusedStep(torch.optim.Optimizer, ABC):
    """The step of an optimizer as one kernel over all its parameters."""

    _step_supports_amp_scaling = True  # GradScaler sets `grad_scale` and `found_inf` and leaves the rest to `step`
    _kernel: Kernel
    _plan: Plan | None = None
    _width: int
    """Numbers in a row of settings; the last one is the loss scale."""

    @abstractmethod
    def _state_names(self, group: dict[str, Any]) -> Sequence[str]:
        """State tensors in the order of the kernel's buffers, "" where one is not used."""

    @abstractmethod
    def _constants(self, group: dict[str, Any]) -> tuple[bool, ...]:
        """The kernel's own function constants, behind the shared ones."""

    @abstractmethod
    def _rows(self, batch: Batch) -> list[Row]:
        """A row of settings for each parameter, without the loss scale; also moves the state's step on."""

    def _create(self, group: dict[str, Any], state: dict[str, Any], param: torch.Tensor) -> None:
        """State that is not a tensor like the parameter."""

    def _note_new(self, state: dict[str, Any], name: str) -> None:
        """Called when a tensor of the state was made, of zeros."""

    def _add_options(self, master_weights: bool, stochastic_rounding: bool, seed: int | None) -> None:
        """Options that torch's optimizers do not have stand in the groups only where they are on."""
        if master_weights:
            self.defaults["master_weights"] = True
        if stochastic_rounding:
            self.defaults.update(stochastic_rounding=True, seed=seed_of(seed), roundings=0)
        self._complete_groups()

    def _complete_groups(self) -> None:
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of optimization. Parameters that have no gradient are left as they are."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        found_inf, grad_scale = getattr(self, "found_inf", None), getattr(self, "grad_scale", None)
        if found_inf is not None and float(found_inf) != 0.0:
            return loss
        with torch.no_grad():
            self._update(None if grad_scale is None else float(grad_scale))
        return loss

    @without_compiling  # torch.compile leaves a step as it is: it is one kernel already
    def _update(self, scale: float | None) -> None:
        options = [self._options(group, scale is not None) for group in self.param_groups]
        if not self._repeat(options, 1.0 if scale is None else scale):
            self._plan = None
            batches = self._gather(options)
            parts = [self._launch(key, batch, 1.0 if scale is None else scale) for key, batch in batches.items()]
            if all(kept is not None for kept in parts):
                self._plan = Plan(self, options, [kept for kept in parts if kept is not None])
        for group in self.param_groups:
            if group.get("stochastic_rounding"):
                group["roundings"] = group.get("roundings", 0) + 1

    def _options(self, group: dict[str, Any], is_scaled: bool) -> tuple[Any, ...]:
        """What decides which kernel runs for a group: names of the state, and constants."""
        shared = (is_scaled, bool(group.get("master_weights")), bool(group.get("stochastic_rounding")))
        return tuple(self._state_names(group)), (*shared, bool(group["maximize"]), *self._constants(group))

    def _repeat(self, options: list[Any], scale: float) -> bool:
        """Run the launches of the last step again, where nothing but gradients and numbers has changed."""
        plan = self._plan
        if plan is None or not plan.matches(self, options):
            return False
        grads = [kept.fits() for kept in plan.launches]
        if any(found is None for found in grads):
            return False
        for kept, found in zip(plan.launches, grads, strict=True):
            self._fill(kept.batch, kept.rows, kept.keys, scale)
            kept.run(found or [])
            torch.autograd.graph.increment_version(kept.params)
        return True

    def _gather(self, options: list[Any]) -> dict[Any, Batch]:
        """Checks everything, so that an error leaves all parameters as they were."""
        batches: dict[Any, Batch] = {}
        number = -1
        for group, (names, (is_scaled, wants_master, is_stochastic, *rest)) in zip(
            self.param_groups, options, strict=True
        ):
            for param in group["params"]:
                number += 1
                grad = param.grad
                if grad is None:
                    continue
                dtype = param.dtype
                if dtype not in DTYPES or grad.dtype is not dtype or grad.layout is not torch.strided or grad.is_nested:
                    self._refuse(param, grad)
                is_low = dtype is not torch.float32 and dtype is not torch.float64
                state = self.state[param]
                tensors = self._tensors(group, state, param, names, wants_master and is_low)
                has_master = tensors[0] is not None
                constants = (is_scaled, has_master, is_stochastic and is_low, *rest)
                key = dtype, param.device.type, constants
                batch = batches.get(key)
                if batch is None:
                    kinds: list[Column | None] = [[], [], *(None if t is None else [] for t in tensors)]
                    batch = batches[key] = Batch(kinds)
                placed = place((param, grad, *tensors), batch.work)
                for column, tensor in zip(batch.columns, placed, strict=True):
                    if column is not None:
                        column.append(tensor)
                batch.groups.append(group)
                batch.states.append(state)
                batch.numbers.append(number)
        return batches

    def _tensors(
        self, group: dict[str, Any], state: dict[str, Any], param: torch.Tensor, names: Sequence[str], master: bool
    ) -> list[Any]:
        """The float copy of the parameter, and its state; made where they are not there yet."""
        if not state:
            self._create(group, state, param)
        wide = torch.float64 if param.dtype is torch.float64 else torch.float32
        found: list[Any] = [None]
        if master:
            if MASTER not in state:
                state[MASTER] = param.detach().to(wide, copy=True)
            found[0] = state[MASTER]
        for name in names:
            if not name:
                found.append(None)
                continue
            tensor = state.get(name)
            if tensor is None:
                tensor = torch.zeros_like(param, dtype=wide, memory_format=torch.preserve_format)
                state[name] = tensor
                self._note_new(state, name)
            elif tensor.dtype is not wide:
                tensor = state[name] = tensor.to(wide)
            found.append(tensor)
        return found

    def _refuse(self, param: torch.Tensor, grad: torch.Tensor) -> None:
        name = type(self).__name__
        if grad.is_nested:
            raise ArgumentError(f"{name}: a parameter is one block of memory, not a nested tensor")
        if grad.layout is not torch.strided:
            raise RuntimeError(
                f"{name} does not support sparse gradients: a gradient must be strided, not {grad.layout}"
            )
        if param.dtype not in DTYPES:
            raise ArgumentError(f"{name}: parameters must be float32, float16, bfloat16 or float64, not {param.dtype}")
        raise ArgumentError(f"{name}: a gradient must have its parameter's dtype {param.dtype}, not {grad.dtype}")

    def _fill(self, batch: Batch, rows: Any, keys: Any, scale: float) -> None:
        """The tables of numbers of one launch."""
        rows[:, :-1] = self._rows(batch)
        rows[:, -1] = scale
        if keys is not None:
            keys[:] = stream_keys([(g["seed"], g["roundings"]) for g in batch.groups], batch.numbers)

    def _launch(self, key: Any, batch: Batch, scale: float) -> Kept | None:
        """Returns what the next step may use again."""
        dtype, device, constants = key
        launch = launch_of(self._kernel, dtype, constants, device)
        count = len(batch.numbers)
        rows = np.empty((count, self._width), np.float64 if dtype is torch.float64 else np.float32)
        is_stochastic = constants[SHARED_CONSTANTS.index("is_stochastic")]
        keys = np.empty((count, 2), np.uint32) if is_stochastic else None
        self._fill(batch, rows, keys, scale)
        most = most_tensors(device)
        for at in range(0, len(batch.numbers), most):
            part = slice(at, at + most)
            columns = [None if c is None else c[part] for c in batch.columns]
            params = columns[0] or []
            chunks = chunks_of(params)
            tables = (rows[part], None if keys is None else keys[part], chunks.table(params[0].device))
            launch(columns, tables, chunks.groups, chunks.group)
        for work in batch.work:
            work.write_back()
        params = batch.columns[0] or []
        torch.autograd.graph.increment_version(params)  # autograd sees that they were written
        is_plain = not batch.work and all(t.is_contiguous() for c in batch.columns if c is not None for t in c)
        if isinstance(launch, EngineLaunch) and is_plain:
            return Kept(batch, launch, rows, keys, chunks_of(params))
        return None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete_groups()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, and from torch's; but state stays in float32 where parameters are float16 or bfloat16."""
        seen: list[dict[str, Any]] = []
        first = self.register_load_state_dict_pre_hook(lambda _, given: seen.append(given))
        last = self.register_load_state_dict_post_hook(lambda _: self._widen(seen[0]), prepend=True)
        try:
            super().load_state_dict(state_dict)
        finally:
            first.remove()
            last.remove()

    def _widen(self, given: dict[str, Any]) -> None:
        """torch has rounded the state to the parameters' dtype: take it again from what was given."""
        ids = chain.from_iterable(g["params"] for g in given["param_groups"])
        params = chain.from_iterable(g["params"] for g in self.param_groups)
        for key, param in zip(ids, params, strict=True):
            for name, value in given["state"].get(key, {}).items():
                if not isinstance(value, torch.Tensor):
                    continue
                if name == "step":
                    self.state[param][name] = value.detach().clone().cpu()
                elif value.is_floating_point() and param.dtype in (torch.float16, torch.bfloat16):
                    self.state[param][name] = value.to(param.device, torch.float32)
