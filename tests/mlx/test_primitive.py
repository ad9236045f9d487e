"""The MLX primitive: ops inside of mlx's graph, under its transforms, on its streams, in threads and after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from metalcore.errors import IndexRangeError
from metalcore.mlx.build import file_name, key
from metalcore.mlx.primitive import explain, primitive
from metalcore.runtimes.mlx import has_metal

mx: Any = pytest.importorskip("mlx.core")
metal: Any = pytest.importorskip("metalcore.mlx")
fast: Any = pytest.importorskip("metalcore.mlx.fast")
pytestmark = [
    pytest.mark.skipif(has_metal(), reason="with Metal, kernels are steps of the graph"),
    pytest.mark.skipif(primitive() is None, reason="there is no primitive"),
]

X = mx.random.normal((4, 33), key=mx.random.key(0))
W = mx.random.normal((33,), key=mx.random.key(1))
BIG = mx.random.normal((300, 700), key=mx.random.key(2))


def ours(x: Any, w: Any = None) -> Any:
    return fast.rms_norm(x, w, 1e-6)


def plain(x: Any, w: Any = None) -> Any:
    return mx.fast.rms_norm(x, w, 1e-6)


def loss(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: (f(x, w) ** 2 * x).sum()


def agree(a: Any, b: Any) -> None:
    for x, y in zip(a, b, strict=True) if isinstance(a, (list, tuple)) else [(a, b)]:
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(np.array(x), np.array(y), rtol=2e-5, atol=2e-5)


def test_it_says_that_it_is_there() -> None:
    assert explain().startswith("mlx ") and "the primitive (" in explain()


def test_large_and_unevaluated_arrays_are_steps_of_the_graph() -> None:
    agree(ours(BIG), plain(BIG))
    agree(ours(BIG.T), plain(BIG.T))
    agree(ours(ours(X * 2, W) + 1, W), plain(plain(X * 2, W) + 1, W))
    agree(ours(mx.broadcast_to(X[:1], X.shape), W), plain(mx.broadcast_to(X[:1], X.shape), W))
    later = ours(BIG * 2)
    mx.async_eval(later)
    agree(later, plain(BIG * 2))


def test_compile() -> None:
    for x in (X, BIG[:, :33], X.T.reshape(-1, 33)):
        agree(mx.compile(ours)(x, W), plain(x, W))
    both = mx.compile(mx.value_and_grad(loss(ours), argnums=(0, 1)))
    for _ in range(2):
        (value, grads), (expected, truths) = both(X, W), mx.value_and_grad(loss(plain), argnums=(0, 1))(X, W)
        agree(value, expected)
        agree(grads, truths)
    agree(mx.compile(lambda x: ours(X, W) + x)(X + 1), plain(X, W) + X + 1)
    with pytest.raises(ValueError, match="MetalcoreOp cannot infer output shapes"):
        mx.compile(ours, shapeless=True)(X, W)


@pytest.mark.parametrize("axes", [(0, None), (1, None), (0, 0), (None, 0), (-1, 1)])
def test_vmap(axes: tuple[Any, Any]) -> None:
    x = {0: X, 1: X.T, -1: X.T, None: X}[axes[0]]
    weights = mx.random.normal((4, 33), key=mx.random.key(3))
    w = {0: weights, 1: weights.T, None: W}[axes[1]]
    agree(mx.vmap(ours, in_axes=axes)(x, w), mx.vmap(plain, in_axes=axes)(x, w))
    agree(mx.vmap(ours, in_axes=axes, out_axes=1)(x, w), mx.vmap(plain, in_axes=axes, out_axes=1)(x, w))


def test_vmap_of_gradients_and_in_each_other() -> None:
    grads = [mx.vmap(mx.grad(loss(f), argnums=(0, 1)), in_axes=(0, None))(X, W) for f in (ours, plain)]
    agree(*grads)
    deep = mx.random.normal((2, 3, 4, 33), key=mx.random.key(4))
    for f in (ours, lambda x: metal.softmax(x, -1)):
        agree(mx.vmap(mx.vmap(f))(deep), f(deep))
        agree(mx.grad(lambda x, f=f: (mx.vmap(f)(x) ** 2).sum())(deep), mx.grad(lambda x, f=f: (f(x) ** 2).sum())(deep))
        agree(mx.compile(mx.vmap(f, in_axes=1))(deep), f(deep.swapaxes(0, 1)))
    assert mx.vmap(ours)(mx.zeros((0, 3, 33))).shape == (0, 3, 33)


def test_an_op_that_is_looped_over() -> None:
    """Indices are mapped too, and an index table of each row is its own."""
    rows = mx.random.normal((3, 10, 5), key=mx.random.key(5))
    index = mx.array([[1, 9], [0, 0], [5, 2]])
    found = mx.vmap(lambda x, i: metal.index_select(x, 0, i))(rows, index)
    agree(found, mx.stack([r[i] for r, i in zip(rows, index, strict=True)]))


def test_several_launches_and_sorting() -> None:
    """A gradient with two kernels, and one whose plan sorts, which is not recorded as a whole."""
    table, words = mx.random.normal((11, 8), key=mx.random.key(6)), mx.array([[1, 4, 4], [10, 0, 1]])
    grads = [f(mx.grad(lambda t: (metal.embedding_bag(words, t) ** 2).sum()))(table) for f in (lambda f: f, mx.compile)]
    agree(grads[1], grads[0])
    agree(grads[0], mx.grad(lambda t: (t[words].mean(1) ** 2).sum())(table))
    target = mx.array([3, 0, 32, 5])
    agree(
        mx.compile(mx.grad(lambda x: metal.cross_entropy(x, target)))(X),
        mx.grad(lambda x: metal.cross_entropy(x, target))(X),
    )


def test_plans_that_slice_and_look_at_values() -> None:
    """They are not recorded: with values they run at once."""
    a = mx.random.normal((2, 6, 4), key=mx.random.key(7))
    expected = np.linalg.svd(np.array(a), compute_uv=False)
    found = metal.linalg.svd(a)[1]
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-5, atol=1e-5)
    slope = mx.grad(lambda a: metal.linalg.svd(a, full_matrices=False)[1].sum())(a)
    u, _, v = np.linalg.svd(np.array(a), full_matrices=False)
    np.testing.assert_allclose(np.array(slope), u @ v, rtol=1e-4, atol=1e-4)


def test_streams() -> None:
    stream = mx.new_stream(mx.cpu)
    agree(fast.rms_norm(BIG, None, 1e-6, stream=stream), plain(BIG))
    with mx.stream(stream):
        y = ours(BIG * 2)
    agree(ours(y), plain(plain(BIG * 2)))


def test_threads() -> None:
    expected = plain(X, W)
    mx.eval(expected)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                agree(ours(mx.array(np.array(X)) * 1, W), expected)
                agree(ours(mx.array(np.array(X)), W), expected)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_errors_reach_the_caller() -> None:
    """At the call where there are values, where the graph is evaluated else; and what comes after works."""
    wrong = mx.array([0, 99, 1, 2])
    with pytest.raises(IndexRangeError, match="target 99 of row 1 is out of range"):
        metal.cross_entropy(X, wrong)
    with pytest.raises(IndexRangeError, match="target 99 of row 1 is out of range"):
        mx.grad(lambda x: metal.cross_entropy(x, wrong))(X)
    for evaluate in (mx.eval, lambda y: y.item(), np.array):
        late = mx.compile(metal.cross_entropy)(X, wrong)
        with pytest.raises(RuntimeError, match="cross_entropy: target 99 of row 1 is out of range"):
            evaluate(late)
        agree(ours(X * 1, W), plain(X, W))
    for _ in range(30):  # mlx waits for ever after some exceptions on its own threads
        between = mx.exp(X)
        late = mx.compile(metal.cross_entropy)(between * 2, wrong)
        with pytest.raises(RuntimeError, match="target 99 of row 1"):
            mx.eval(late * 2 + 1)
        mx.eval(between + 1)
    agree(mx.compile(ours)(X, W), plain(X, W))


def test_after_a_fork() -> None:
    """In a child there is no thread of mlx's streams: small arrays do not need one."""
    agree(ours(X, W), plain(X, W))
    expected = np.array(plain(X, W))
    child = os.fork()
    if not child:
        try:
            os._exit(0 if np.allclose(np.array(ours(X, W)), expected, atol=1e-5) else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_modes_of_the_engine_take_the_python_route() -> None:
    import metalcore

    with metalcore.mode("checked"):
        agree(ours(X, W), plain(X, W))


WITHOUT = """
import mlx.core as mx, metalcore.mlx
from metalcore.errors import TransformError
from metalcore.mlx import fast
print(metalcore.mlx.explain())
x = mx.random.normal((4, 33))
assert mx.allclose(fast.rms_norm(x, None, 1e-6), mx.fast.rms_norm(x, None, 1e-6), atol=1e-5)
for transform in (mx.compile, mx.vmap):
    try:
        transform(lambda x: fast.rms_norm(x, None, 1e-6))(x)
    except TransformError as error:
        print(error)
"""


def test_without_it_the_python_route_says_so() -> None:
    environment = os.environ | {"METALCORE_MLX_PRIMITIVE": "0"}
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, env=environment, check=True)
    first, *errors = done.stdout.splitlines()
    assert "the Python route, since there is no primitive (METALCORE_MLX_PRIMITIVE=0)" in first
    assert len(errors) == 2 and all("rms_norm cannot run inside mx.compile or mx.vmap without" in e for e in errors)


def test_the_command_that_builds_it(tmp_path: Any) -> None:
    environment = os.environ | {"PATH": str(tmp_path)}
    command = [sys.executable, "-m", "metalcore.mlx.build", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1 and "there is no g++" in done.stderr
    assert file_name().startswith("mlx-") and len(key()) > 20


def test_what_a_gpu_would_get() -> None:
    """The recording for Metal: text, buffers and sizes, as far as that goes without a Mac; the primitive takes it."""
    from metalcore.mlx.record import Recorded
    from metalcore.mlx.record_metal import MetalRecorder
    from metalcore.ops.rms_norm import OP
    from metalcore.runtimes.text import DEVICE, shader_text

    recorder = MetalRecorder([X, W])
    results = OP.forward.plan(recorder, *recorder.inputs, 1, 1e-6)
    (launch,) = recorder.steps
    variant = variant_of(launch.entry)
    assert launch.source == DEVICE + shader_text(variant) and launch.library == f"metalcore_{launch.entry}_true"
    kinds = [kind for kind, _, _ in launch.slots]
    assert kinds == [1, 1, 2, 2, 3, 3, 3] and [s[1] for s in launch.slots[:4]] == [0, 1, 2, 3]
    assert launch.slots[4:6] == ((3, 4, 8), (3, 33, 8))
    assert launch.slots[6] == (3, int(np.float32(1e-6).view(np.uint32)), 4)
    assert launch.groups == (1, 1, 1) and launch.group[1:] == (1, 1) and launch.group[0] % 32 == 0
    library = primitive()
    assert library is not None
    recorded = Recorded(library, "rms_norm", recorder, results)
    assert recorded.shapes == [(4, 33), (4,)]
    with pytest.raises(RuntimeError, match=r"metalcore.rms_norm was traced for a GPU, not for the CPU"):
        mx.eval(recorded.lazy([X, W]))


def variant_of(entry: str) -> Any:
    from metalcore.ops.rms_norm import FORWARD

    variant = FORWARD.variant(("float32", "float32", 1), (True,))
    assert variant.entry_point == entry
    return variant
