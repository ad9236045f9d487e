"""The two cells of xLSTM as modules that load the state of the package `xlstm`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

import metalcore
from metalcore.ops.base.check import check_shape, refuse
from metalcore.ops.base.xlstm_configs import check_slstm, checked, parts
from metalcore.torch.xlstm_parts import MultiHeadLayerNorm, one_token


def _sizes(cell: Any, option: str) -> tuple[int, int]:
    """The width of a cell, by the option that says it, and that of a head."""
    name = type(cell).__name__
    size = checked(name, cell.config, option)
    return size, parts(name, option, size, "num_heads", cell.heads)


class mLSTMCell(nn.Module):
    """The matrix memory on q, k, v (batch, tokens, embedding_dim): gates from all three, a norm a head at the end.

    Any length goes: config.context_length is not read. Time and memory grow with the length, not with its square.

    A memory that is empty has m = 0 here and in the package's `step`, and as good as m = -inf in its `forward`. That m
    stands in eps * exp(m) alone, so the two differ by a share of at most eps, 1e-6; and `step` equals `forward` here.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, self.heads = config, config.num_heads
        self.size, self.depth = _sizes(self, "embedding_dim")
        self.igate = nn.Linear(3 * self.size, self.heads)
        self.fgate = nn.Linear(3 * self.size, self.heads)
        self.outnorm = MultiHeadLayerNorm(self.size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Gates that do not depend on the input: forget gates nearly open, more so from head to head."""
        self.outnorm.reset_parameters()
        nn.init.zeros_(self.fgate.weight)
        nn.init.zeros_(self.igate.weight)
        nn.init.normal_(self.igate.bias, std=0.1)
        with torch.no_grad():
            self.fgate.bias.copy_(torch.linspace(3.0, 6.0, self.heads))

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mlstm_state: Any = None, return_last_state: bool = False, **_: Any
    ) -> Any:
        """`mlstm_state` from an earlier call; with `return_last_state` the result is a pair, as that of `step`."""
        name = type(self).__name__
        for argument, x in (("q", q), ("k", k), ("v", v)):
            if x.dim() != 3 or x.shape[-1] != self.size:
                refuse(name, argument, f"of shape (batch, tokens, {self.size})", f"of shape {tuple(x.shape)}")
        i, f = self._gates(q, k, v)
        if mlstm_state is None and not return_last_state:
            q, k, v = self._split(q, k, v)
            h = metalcore.mlstm_chunkwise(q, k, v, i, f)
            return self.outnorm(h).transpose(1, 2).flatten(2)
        q, k, v = self._split(*self._scaled(q, k), v)
        c, n, m = (None,) * 3 if mlstm_state is None else self._states(name, q, mlstm_state)
        h, last = metalcore.mlstm_chunkwise(q, k, v, i, f, c, n, m, return_last_states=True)
        out = self.outnorm(h).transpose(1, 2).flatten(2)
        return (out, _for_package(*last)) if return_last_state else out

    def step(self, q: Tensor, k: Tensor, v: Tensor, mlstm_state: Any = None, **_: Any) -> Any:
        """One token, q, k, v (batch, 1, embedding_dim), and the new state: c (batch, heads, depth, depth),
        n (batch, heads, depth, 1), m (batch, heads, 1, 1)."""
        name = f"{type(self).__name__}.step"
        for argument, x in (("q", q), ("k", k), ("v", v)):
            one_token(name, argument, x, self.size)
        gates = self._gates(q, k, v)
        q, k, v = self._split(*self._scaled(q, k), v)
        if mlstm_state is None:
            shape = (q.shape[0], self.heads, self.depth)
            c, n, m = q.new_zeros((*shape, self.depth)), q.new_zeros(shape), q.new_zeros(shape[:2])
        else:
            c, n, m = self._states(name, q, mlstm_state)
        q, k, v, i, f = (x.squeeze(2) for x in (q, k, v, *gates))
        h, last = metalcore.mlstm_step(q, k, v, i, f, c, n, m)
        return self.outnorm(h.unsqueeze(2)).transpose(1, 2).flatten(2), _for_package(*last)

    def _gates(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, heads, tokens) each, before activations."""
        together = torch.cat((q, k, v), -1)
        return self.igate(together).transpose(1, 2), self.fgate(together).transpose(1, 2)

    def _split(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        """(batch, heads, tokens, depth)."""
        return tuple(x.unflatten(-1, (self.heads, self.depth)).transpose(1, 2) for x in (q, k, v))

    def _scaled(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """The op divides q by sqrt(depth), the package k. The result is the same, states are those of the package."""
        scale = math.sqrt(self.depth)
        return q * scale, k / scale

    def _states(self, name: str, q: Tensor, given: Any) -> tuple[Tensor, Tensor, Tensor]:
        if not isinstance(given, (tuple, list)) or len(given) != 3:
            refuse(name, "mlstm_state", "a tuple (c, n, m)", f"of type {type(given).__name__}")
        batch, heads, depth = q.shape[0], self.heads, self.depth
        shapes = ((depth, depth), (depth, 1), (1, 1))
        for i, (letter, state, shape) in enumerate(zip("cnm", given, shapes, strict=True)):
            check_shape(name, f"mlstm_state[{i}] ({letter})", state, (batch, heads, *shape))
        c, n, m = (state.to(q.device, _wide(q)) for state in given)
        return c, n[..., 0], m[..., 0, 0]


class sLSTMCell(nn.Module):
    """The cell with exponential gates: input (batch, tokens, 4 * hidden_size), the gates i, f, z, o one after another.

    The result is y, of config.output_shape, and the state (4, batch, hidden_size): y, c, n, m. The weights lie as for
    config.backend; a state dict of the other backend is turned as it is loaded.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, self.heads = config, config.num_heads
        self.size, self.depth = _sizes(self, "hidden_size")
        check_slstm(type(self).__name__, config)
        self.is_cuda_layout = config.backend == "cuda"
        self._recurrent_kernel_ = nn.Parameter(torch.empty(self._kernel_shape(self.is_cuda_layout)))
        self._bias_ = nn.Parameter(torch.empty(4 * self.size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        config, bound = self.config, 1.0 / math.sqrt(self.size)
        with torch.no_grad():
            if config.recurrent_weight_init == "zeros":
                self._recurrent_kernel_.zero_()
            else:
                self._recurrent_kernel_.uniform_(-bound, bound)
            bias = self.weights()[1]  # a view of the parameter
            bias.zero_()
            if config.bias_init == "standard":
                bias.uniform_(-bound, bound)
            elif config.bias_init == "small_init":
                bias[1] = torch.linspace(3.0, 6.0, self.depth)
            elif config.bias_init == "powerlaw_blockdependent":  # forget gates from 5 down to -7, later in later blocks
                blocks, index = config._num_blocks or 1, config._block_idx or 0
                at = index / (blocks - 1) if blocks > 1 else 0.0
                bias[1] = 5.0 - 12.0 * (torch.arange(self.depth) / max(1, self.depth - 1)) ** (0.3 + 1.3 * at)

    def weights(self) -> tuple[Tensor, Tensor]:
        """R (4, heads, depth, depth) and b (4, heads, depth), as metalcore.slstm takes them."""
        heads, depth = self.heads, self.depth
        if self.is_cuda_layout:  # (heads, from, gate, to) and (heads, gate, depth)
            R = self._recurrent_kernel_.view(heads, depth, 4, depth).permute(2, 0, 1, 3)
            return R, self._bias_.view(heads, 4, depth).transpose(0, 1)
        R = self._recurrent_kernel_.view(heads, 4, depth, depth).permute(1, 0, 3, 2)
        return R, self._bias_.view(4, heads, depth)

    def forward(self, input: Tensor, state: Tensor | None = None, lengths: Any = None) -> tuple[Any, Tensor]:
        """`lengths` is there for callers of the package, which does not read it."""
        name = type(self).__name__
        if input.dim() != 3 or input.shape[-1] != 4 * self.size:
            expected = f"of three dimensions, the last {4 * self.size}"
            refuse(name, "input", expected, f"of shape {tuple(input.shape)}")
        x = input if self.config.input_shape == "BSGNH" else input.transpose(0, 1)
        x = x.unflatten(-1, (4, self.heads, self.depth))
        states = self._states(name, x, state)
        if x.shape[1] == 1:
            y, last = metalcore.slstm_step(x.squeeze(1), *self.weights(), states)
            y = y.unsqueeze(1)
        else:
            y, last = metalcore.slstm(x, *self.weights(), states, return_last_states=True)
        return self._shaped(y), torch.stack(last).flatten(2)

    def step(self, input: Tensor, state: Tensor | None = None) -> tuple[Any, Tensor]:
        """One token. The state is the new one; the package's own `step` of a cell gives back the old one."""
        tokens = input.shape[1 if self.config.input_shape == "BSGNH" else 0] if input.dim() == 3 else None
        if tokens != 1:
            refuse(f"{type(self).__name__}.step", "input", "of one token", f"of shape {tuple(input.shape)}")
        found: tuple[Any, Tensor] = self(input, state)
        return found

    def _states(self, name: str, x: Tensor, state: Tensor | None) -> tuple[Tensor, ...] | None:
        if state is None:
            return None
        check_shape(name, "state", state, (4, x.shape[0], self.size))
        y, c, n, m = state.to(x.device, _wide(x)).unflatten(-1, (self.heads, self.depth))
        return y, c, n, m

    def _shaped(self, y: Tensor) -> Tensor:
        """From (batch, tokens, heads, depth)."""
        shape = self.config.output_shape
        if shape == "BNSH":
            return y.transpose(1, 2)
        y = y if shape[0] == "B" else y.transpose(0, 1)
        return y if "N" in shape else y.flatten(2)

    def _kernel_shape(self, is_cuda_layout: bool) -> tuple[int, int, int]:
        wide = 4 * self.depth
        return (self.heads, self.depth, wide) if is_cuda_layout else (self.heads, wide, self.depth)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        kernel, bias = (state_dict.get(f"{prefix}{name}") for name in ("_recurrent_kernel_", "_bias_"))
        if kernel is not None and bias is not None and kernel.shape == self._kernel_shape(not self.is_cuda_layout):
            # Both layouts are one transposed: (heads, from, 4 to) and (heads, 4 to, from).
            first = (4, self.heads) if self.is_cuda_layout else (self.heads, 4)
            state_dict[f"{prefix}_recurrent_kernel_"] = kernel.transpose(1, 2)
            state_dict[f"{prefix}_bias_"] = bias.reshape(*first, self.depth).transpose(0, 1).flatten()
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"hidden_size={self.size}, num_heads={self.heads}, backend={self.config.backend!r}"


def _for_package(c: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return c, n[..., None], m[..., None, None]


def _wide(x: Tensor) -> torch.dtype:
    """States keep float32 beside inputs in half precision."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


__all__ = ["mLSTMCell", "sLSTMCell"]
