"""Function constants: given by index or name, optional, derived, and on parameters."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import ConstantError
from tests.engine.language.helpers import HEADER, feature, launch

PLAIN = """
constant bool twice [[function_constant(0)]];
constant int extra [[function_constant(3)]];
constant float scale [[function_constant(7)]];
kernel void k(device float* x, uint i [[thread_position_in_grid]]) {
    x[i] = (twice ? 2 * x[i] : x[i]) * scale + extra;
}
"""


@pytest.mark.feature("language", "function constants by index and by name")
def test_by_index_and_name() -> None:
    for constants in (
        {0: True, 3: 5, 7: 0.5},
        {"twice": True, "extra": 5, "scale": 0.5},
        {0: True, "extra": 5, 7: 0.5},
    ):
        x = np.array([1, 2], np.float32)
        launch(PLAIN, x, threads=2, constants=constants)  # type: ignore[arg-type]
        assert x.tolist() == [6, 7]


@pytest.mark.feature("language", "a kernel specialised twice on different constants")
def test_two_specialisations() -> None:
    library = metalcore.Library(HEADER + PLAIN)
    x, y = np.array([4], np.float32), np.array([4], np.float32)
    library.function("k", constants={0: True, 3: 0, 7: 1.0})(x, threads=1)
    library.function("k", constants={0: False, 3: -1, 7: 1.0})(y, threads=1)
    assert (x[0], y[0]) == (8, 3)
    assert [(c.name, c.index, c.type, c.required) for c in library.constants] == [
        ("twice", 0, "bool", True),
        ("extra", 3, "int", True),
        ("scale", 7, "float", True),
    ]


@pytest.mark.feature("rejected", "a required function constant that is not given")
def test_missing_constant() -> None:
    with pytest.raises(ConstantError, match="extra"):
        launch(PLAIN, np.zeros(1, np.float32), threads=1, constants={0: True, 7: 1.0})


@pytest.mark.feature("rejected", "a function constant that the library does not have")
def test_unknown_constant() -> None:
    with pytest.raises(ConstantError, match="9"):
        launch(PLAIN, np.zeros(1, np.float32), threads=1, constants={0: True, 3: 1, 7: 1.0, 9: 1})


TYPES = [
    feature("language", f"function constants of type {name}", name, value)
    for name, value in (
        ("bool", True),
        ("char", -100),
        ("uchar", 200),
        ("short", -30000),
        ("ushort", 60000),
        ("int", -(2**31)),
        ("uint", 2**32 - 1),
        ("long", -(2**60)),
        ("half", 0.5),
        ("float", 0.1),
    )
]


@pytest.mark.parametrize(("name", "value"), TYPES)
def test_types(name: str, value: float) -> None:
    dtypes = {"half": np.float16, "float": np.float32, "bool": np.bool_}
    words = {"char": "int8", "short": "int16", "int": "int32", "long": "int64"}
    dtype = np.dtype(dtypes.get(name) or words.get(name) or "u" + words[name[1:]])
    out = np.zeros(1, dtype)
    source = f"constant {name} value [[function_constant(1)]]; kernel void k(device {name}* o) {{ o[0] = value; }}"
    launch(source, out, threads=1, constants={1: value})
    assert out[0] == dtype.type(value)


@pytest.mark.feature("language", "optional function constants with is_function_constant_defined")
def test_optional_and_derived() -> None:
    source = """
    constant int size [[function_constant(0)]];
    constant int chosen = is_function_constant_defined(size) ? size : 32;
    constant bool large = chosen > 40;
    kernel void k(device int* o) { o[0] = chosen * 10 + (large ? 1 : 0); }
    """
    for constants, expected in ((None, 320), ({0: 50}, 501), ({"size": 4}, 40)):
        out = np.zeros(1, np.int32)
        launch(source, out, threads=1, constants=constants)  # type: ignore[arg-type]
        assert out[0] == expected


@pytest.mark.feature("language", "an expression as the index of a function constant")
def test_index_expression() -> None:
    source = """
    constexpr constant int base = 10;
    constant int a [[function_constant(base + 2)]];
    kernel void k(device int* o) { o[0] = a; }
    """
    out = np.zeros(1, np.int32)
    launch(source, out, threads=1, constants={12: 77})
    assert out[0] == 77


ON_PARAMETERS = """
constant bool has_bias [[function_constant(0)]];
constant bool no_bias = !has_bias;
kernel void k(device float* x [[buffer(0)]], device const float* bias [[buffer(1), function_constant(has_bias)]],
              constant float& other [[buffer(2), function_constant(no_bias)]],
              uint i [[thread_position_in_grid]]) {
    if (has_bias) x[i] += bias[i]; else x[i] *= other;
}
"""


@pytest.mark.feature("language", "parameters that a function constant turns off keep their slot")
def test_parameters_turned_off() -> None:
    x = np.array([1, 2], np.float32)
    launch(ON_PARAMETERS, x, np.array([10, 20], np.float32), None, threads=2, constants={0: True})
    assert x.tolist() == [11, 22]
    launch(ON_PARAMETERS, x, None, 0.5, threads=2, constants={0: False})
    assert x.tolist() == [5.5, 11]
    library = metalcore.Library(HEADER + ON_PARAMETERS)
    enabled = {a.name: a.enabled for a in library.function("k", constants={0: False}).arguments}
    assert enabled["bias"] is False and enabled["other"] is True


@pytest.mark.feature("language", "a disabled parameter without an index keeps its place in the numbering")
def test_numbering_with_a_disabled_parameter() -> None:
    source = """
    constant bool on [[function_constant(0)]];
    kernel void k(device int* a, device int* b [[function_constant(on)]], device int* c) {
        a[0] = 1; c[0] = 3; if (on) b[0] = 2; }
    """
    a, c = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(source, a, None, c, threads=1, constants={0: False})
    assert (a[0], c[0]) == (1, 3)
