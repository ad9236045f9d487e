"""What slstm and slstm_step share: checks, plans of kernels/slstm.metal and its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

from metalcore.ops.base.check import check_float, check_shape, dtype_name, refuse
from metalcore.ops.base.elementwise import check_alike
from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("slstm", "slstm_forward", ("has_states", "has_history"))
TURN = Kernel("slstm_gradient", "slstm_turn")
BACKWARD = Kernel("slstm_gradient", "slstm_backward", ("has_states",))
WEIGHTS = Kernel("slstm_gradient", "slstm_weights", ("has_states",))
STATES = ("y", "c", "n", "m")
DEEPEST = 512
KEPT, EACH = 8, 8  # as in the kernels

_INPUTS = "Tensor x, Tensor R, Tensor b, Tensor? y_state, Tensor? c_state, Tensor? n_state, Tensor? m_state"


def check(op: str, x: Any, R: Any, b: Any, states: Any, shape: str) -> tuple[Any, ...]:
    """The four states, or None for each; `shape` is that of x, in words."""
    check_float(op, "x", x)
    if len(x.shape) != len(shape.split(", ")) or x.shape[-3] != 4:
        refuse(op, "x", f"of shape ({shape})", f"of shape {tuple(x.shape)}")
    batch, (_, heads, depth) = x.shape[0], x.shape[-3:]
    if depth > DEEPEST:
        refuse(op, "x", f"of a depth up to {DEEPEST}", depth)
    check_float(op, "R", R)
    check_shape(op, "R", R, (4, heads, depth, depth))
    check_float(op, "b", b)
    check_shape(op, "b", b, (4, heads, depth))
    if states is None:
        return (None,) * 4
    if not isinstance(states, (tuple, list)) or len(states) != 4:
        given = f"{len(states)} of them" if isinstance(states, (tuple, list)) else f"of type {type(states).__name__}"
        refuse(op, "states", "a tuple (y, c, n, m)", given)
    for i, (name, state) in enumerate(zip(STATES, states, strict=True)):
        argument = f"states[{i}] ({name})"
        kind = check_float(op, argument, state)
        check_shape(op, argument, state, (batch, heads, depth))
        if kind != dtype_name(states[0]):
            refuse(op, argument, f"of the dtype of the first, {dtype_name(states[0])}", f"of dtype {kind}")
    return tuple(states)


class Sizes(NamedTuple):
    """Shapes of a call; a single step has no dimension of time."""

    batch: int
    steps: int
    heads: int
    depth: int

    @staticmethod
    def of(x: Any) -> Sizes:
        return Sizes(x.shape[0], x.shape[1] if len(x.shape) == 5 else 1, *x.shape[-2:])

    def launch(self, run: Runtime, dtype: str) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """Sequences of a threadgroup, floats of a number, threadgroups and threads."""
        chosen = policy("slstm", run.family, dtype)
        count = 4 * self.batch * self.steps * self.heads * self.depth * self.depth
        floats = 2 if dtype == "float32" and count <= chosen["exact"] else 1
        room = 512 if dtype == "float64" else 1024  # four gates of so many numbers, in two turns: threadgroup memory
        rows: int = chosen["rows"]
        while rows > 1 and (
            rows * self.depth * floats > room
            or rows >= 2 * self.batch  # all but a few would be idle
            or self.heads * -(-self.batch // rows) < min(chosen["tasks"], self.heads * self.batch)
        ):
            rows //= 2
        threads = min(chosen["threads"], max(1, -(-self.depth // 32)) * 32)
        groups = (self.heads if self.depth else 0, -(-self.batch // rows), 1)
        return rows, floats, groups, (threads, 1, 1)


@stage(
    f"({_INPUTS}, bool wants_gradient) -> "
    "(Tensor y, Tensor y_last, Tensor c_last, Tensor n_last, Tensor m_last, Tensor history)"
)
def forward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    x, R, b, *given, wants_gradient = values
    op = "slstm" if len(x.shape) == 5 else "slstm_step"
    dtype = check_alike(op, run, x, R=R, b=b)
    wide = accumulator(dtype)
    has_states = given[0] is not None
    kind = run.dtype(given[0]) if has_states else dtype
    if kind not in (dtype, wide):
        refuse(op, "states", f"of dtype {dtype}, as x is, or {wide}", f"of dtype {kind}")
    sizes = Sizes.of(x)
    rows, floats, groups, group = sizes.launch(run, dtype)
    batch, steps, heads, depth = sizes
    state, past = (batch, heads, depth), (floats, heads, batch, steps, KEPT, depth)
    last = Out(state, wide)
    arguments = dict(x=run.contiguous(x), R=run.contiguous(R), b=run.contiguous(b))
    arguments |= {
        f"{name}_state": None if s is None else run.contiguous(s) for name, s in zip(STATES, given, strict=True)
    }
    arguments |= dict(y=Out((*x.shape[:-3], heads, depth), dtype), **{f"{name}_last": last for name in STATES})
    arguments |= dict(rest=Out((3, *state) if floats > 1 else (0,), wide), **sizes._asdict())
    arguments |= dict(history=Out(past if wants_gradient else (0,), wide))
    constants = (has_states, wants_gradient)
    y, y_last, c, n, m, _, history = run.launch(
        FORWARD, (dtype, kind, rows, floats), constants, arguments, groups, group
    )
    return y, y_last, c, n, m, history


@stage(
    "(Tensor grad_y, Tensor grad_y_last, Tensor grad_c_last, Tensor grad_n_last, Tensor grad_m_last, "
    f"{_INPUTS}, Tensor history, bool[] wanted) -> "
    "(Tensor dx, Tensor dR, Tensor db, Tensor dy_state, Tensor dc_state, Tensor dn_state, Tensor dm_state)"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    *grads, x, R, b, y_state, c_state, n_state, m_state, history, wanted = values
    if len(history.shape) == 1:  # nobody had said that there would be a gradient
        history = forward(run, x, R, b, y_state, c_state, n_state, m_state, True)[-1]
    dtype, sizes = run.dtype(x), Sizes.of(x)
    wide, kind = accumulator(dtype), dtype if y_state is None else run.dtype(y_state)
    rows, floats, groups, group = sizes.launch(run, dtype)
    batch, steps, heads, depth = sizes
    has_states = y_state is not None
    state, raw = Out((batch, heads, depth) if has_states else (0,), kind), tuple(x.shape)
    y_state, c_state, n_state = (None if s is None else run.contiguous(s) for s in (y_state, c_state, n_state))
    history = run.contiguous(history)

    arguments = dict(R=run.contiguous(R), turned=Out((4, heads, depth, depth), wide), depth=depth)
    (turned,) = run.launch(TURN, (dtype,), (), arguments, (depth, 4 * heads, 1), group)
    names = ("grad_y", *(f"grad_{name}_last" for name in STATES))
    arguments = {name: run.contiguous(grad) for name, grad in zip(names, grads, strict=True)}
    arguments |= dict(turned=turned, c_state=c_state, n_state=n_state, history=history, **sizes._asdict())
    arguments |= dict(dx=Out(raw, dtype), draws=Out((floats, 4, heads, batch, steps, depth), wide))
    arguments |= {f"d{name}_state": state for name in STATES}
    arguments |= dict(carried=Out((floats, 3, batch, heads, depth), wide))
    types = (dtype, kind, rows, floats)
    dx, draws, *dstates, _ = run.launch(BACKWARD, types, (has_states,), arguments, groups, group)
    dR = db = run.empty((0,), dtype)
    if wanted[1] or wanted[2]:
        arguments = dict(draws=draws, history=history, y_state=y_state)
        arguments |= dict(dR=Out(tuple(R.shape), dtype), db=Out(tuple(b.shape), dtype), **sizes._asdict())
        grid = (-(-depth // 32), -(-depth // EACH) + 1, 4 * heads)
        dR, db = run.launch(WEIGHTS, (dtype, kind, floats), (has_states,), arguments, grid, (32, 1, 1))
    return (dx, dR, db, *dstates)
