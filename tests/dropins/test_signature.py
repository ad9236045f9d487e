"""The text that metal_kernel writes around a body, as MLX writes it."""

from __future__ import annotations

import pytest

from metalcore.dropins.signature import Input, mentioned_shapes, write

FLOATS = Input("float32", small=False, scalar=False)


def generate(source: str, inputs: dict[str, Input], outputs: dict[str, str], **kwargs: object) -> str:
    named = [(name, info, mentioned_shapes(name, source)) for name, info in inputs.items()]
    template = kwargs.pop("template", ())
    written = write("k", "", source, named, list(outputs.items()), template, bool(kwargs.pop("atomic", False)))  # type: ignore[arg-type]
    return written.text


@pytest.mark.feature("API", "metal_kernel: the signature is MLX's")
def test_whole_text() -> None:
    text = generate(
        "uint elem = thread_position_in_grid.x;\nout[elem] = metal::exp(T(inp[elem]));",
        {"inp": Input("float16", False, False)},
        {"out": "float16"},
        template=[("T", "float32")],
    )
    assert text == (
        "template <typename T>\n"
        "[[kernel]] void custom_kernel_k__float_float16_t_float16_t(\n"
        "  const device float16_t* inp [[buffer(0)]],\n"
        "  device float16_t* out [[buffer(1)]],\n"
        "  uint3 thread_position_in_grid [[thread_position_in_grid]]) {\n"
        "uint elem = thread_position_in_grid.x;\nout[elem] = metal::exp(T(inp[elem]));\n"
        "}\n\n"
        'template [[host_name("custom_kernel_k__float_float16_t_float16_t")]] [[kernel]] '
        "decltype(custom_kernel_k__float_float16_t_float16_t<float>) "
        "custom_kernel_k__float_float16_t_float16_t<float>;\n"
    )


@pytest.mark.feature("API", "metal_kernel: small inputs are constant, those without dimensions references")
def test_spaces() -> None:
    inputs = {"a": Input("int32", True, False), "b": Input("bool", True, True), "c": FLOATS}
    text = generate("o[0] = 1;", inputs, {"o": "uint8"})
    assert "const constant int32_t* a [[buffer(0)]]" in text
    assert "const constant bool& b [[buffer(1)]]" in text
    assert "const device float* c [[buffer(2)]]" in text
    assert "device uint8_t* o [[buffer(3)]]) {" in text


@pytest.mark.feature("API", "metal_kernel: name_shape, name_strides, name_ndim where the body names them")
def test_shapes_are_added_where_named() -> None:
    scalar = Input("float32", True, True)
    inputs = {"a": FLOATS, "s": scalar, "b": FLOATS}
    text = generate("o[0] = a_ndim + b_shape[0] + a_strides[0] + s_shape;", inputs, {"o": "int64"})
    order = ["float* a ", "int64_t* a_strides ", "int& a_ndim ", "float& s ", "float* b ", "int* b_shape "]
    order += ["int64_t* o "]
    places = [text.index(part + f"[[buffer({index})]]") for index, part in enumerate(order)]
    assert places == sorted(places)
    assert "s_shape [[" not in text


def test_atomic_outputs_and_attributes() -> None:
    source = "simdgroup_index_in_threadgroup; threads_per_simdgroup; grid_size;"
    text = generate(source, {}, {"o": "float32"}, atomic=True)
    assert "device atomic<float>* o [[buffer(0)]],\n" in text
    assert "  uint3 grid_size [[grid_size]],\n" in text
    assert "  uint simdgroup_index_in_threadgroup [[simdgroup_index_in_threadgroup]],\n" in text
    assert "  uint threads_per_simdgroup [[threads_per_simdgroup]]) {" in text


@pytest.mark.parametrize(
    ("value", "parameter", "spelled"), [(True, "bool", "1"), (7, "int", "7"), ("bool", "typename", "bool")]
)
def test_templates(value: bool | int | str, parameter: str, spelled: str) -> None:
    text = generate("o[0] = 1;", {}, {"o": "float32"}, template=[("N", value)])
    assert text.startswith(f"template <{parameter} N>\n")
    assert f"<{spelled}>;" in text


def test_names_are_identifiers() -> None:
    text = generate("o[0] = 1;", {}, {"o": "float32"}, template=[("N", -3)])
    assert "void custom_kernel_k___3_float(" in text
