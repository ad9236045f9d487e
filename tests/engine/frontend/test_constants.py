"""Function constants: found by clang, given by name or index, checked."""

import pytest

from metalcore.engine.frontend import FunctionConstant, ScalarKernel, lower, make_unit
from metalcore.errors import ConstantError

SOURCE = """
constant int base = 10;
constant bool flag [[function_constant(0)]];
constant float scale [[function_constant(base + 1)]];
constant uint3 sizes [[function_constant(2)]];
constant half small [[function_constant(3)]];
static constant constexpr const int declared_oddly [[function_constant(4)]];
constant bool maybe [[function_constant(5)]];
constant bool derived = metal::is_function_constant_defined(maybe) ? maybe : true;
constant bool both = flag && derived;
kernel void f(device float* x, constant int* y [[buffer(4), function_constant(flag)]], device float* z) {
  if (both) x[0] = scale; else x[1] = scale;
}
kernel void g(device float* x) { x[0] = sizes.y + small + declared_oddly; }
kernel void h(device float* x) { if (derived) x[0] = 1; }
"""


@pytest.fixture(scope="module")
def unit():  # type: ignore[no-untyped-def]
    return make_unit(SOURCE)


def test_names_indices_types_and_need(unit) -> None:  # type: ignore[no-untyped-def]
    assert unit.constants == (
        FunctionConstant("flag", 0, "bool", True),
        FunctionConstant("scale", 11, "float", True),
        FunctionConstant("sizes", 2, "uint3", True),
        FunctionConstant("small", 3, "half", True),
        FunctionConstant("declared_oddly", 4, "int", True),
        FunctionConstant("maybe", 5, "bool", False),
    )


def stores(kernel: ScalarKernel) -> str:
    return "\n".join(line for line in kernel.ir.splitlines() if "store float" in line)


def test_values_reach_the_code(unit) -> None:  # type: ignore[no-untyped-def]
    kernel = lower(unit, "f", {"flag": False, 11: 2.5})
    assert "store float 2.5" in stores(kernel)
    assert [a.enabled for a in kernel.arguments] == [True, False, True]
    assert [a.index for a in kernel.arguments] == [0, 4, 1]
    assert lower(unit, "f", {"flag": True, 11: 1}).arguments[1].enabled


def test_an_optional_constant_has_its_default(unit) -> None:  # type: ignore[no-untyped-def]
    assert "br i1" not in lower(unit, "h", None).ir
    assert "store float" in lower(unit, "h", None).ir
    assert "store float" not in lower(unit, "h", {"maybe": False}).ir


def test_a_kernel_needs_only_what_it_uses(unit) -> None:  # type: ignore[no-untyped-def]
    lower(unit, "g", {"sizes": (1, 2, 3), "small": 0.5, 4: -7})
    with pytest.raises(ConstantError, match=r"'g' needs function constant 'small' \(index 3, half\)"):
        lower(unit, "g", {"sizes": (1, 2, 3), 4: 1})
    with pytest.raises(ConstantError, match="'flag'"):
        lower(unit, "f", {"scale": 1.0})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flag", 2),
        ("flag", "yes"),
        ("scale", 1e39),
        ("scale", "1"),
        ("small", 70000),
        ("sizes", (1, 2)),
        ("sizes", (1, 2, -1)),
        ("sizes", 5),
        (4, 1 << 31),
        (4, 1.5),
        ("unknown", 1),
        (77, 1),
    ],
)
def test_what_does_not_fit_is_refused(unit, key: int | str, value: object) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConstantError):
        lower(unit, "f", {"flag": True, "scale": 1.0, key: value})


def test_not_a_number_and_infinity(unit) -> None:  # type: ignore[no-untyped-def]
    values = {"flag": True, "maybe": True}
    assert "0x7FF8000000000000" in stores(lower(unit, "f", {**values, "scale": float("nan")}))
    assert "0xFFF0000000000000" in stores(lower(unit, "f", {**values, "scale": float("-inf")}))
