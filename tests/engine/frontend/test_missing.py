"""What the engine does not have is named; what a user forgot to declare is the user's."""

from __future__ import annotations

import pytest

from metalcore.engine.frontend import make_unit
from metalcore.errors import CompileError, UnsupportedFeature

USING = "#include <metal_stdlib>\nusing namespace metal;\n"
NOT_YET = {
    "metal_tensor": ("#include <metal_tensor>\n", "the header metal_tensor"),
    "a header that Metal has and the engine does not": ("#include <metal_news>\n", "the header <metal_news>"),
    "MetalPerformancePrimitives": (
        "#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>\n",
        "the header MetalPerformancePrimitives",
    ),
    "a sampler": ("void f() { constexpr sampler s(filter::linear); }", "samplers"),
    "metal::sampler": ("void f() { constexpr metal::sampler s(metal::coord::pixel); }", "samplers"),
    "access::": ("void f() { access::read; }", "textures"),
}
FORGOTTEN = {
    "a type": ("void f() { Foo sampler; sampler.x = 1; }", "unknown type name 'Foo'"),
    "the type of a parameter": ("void f(Foo sampler) { sampler.x = 1; }", "unknown type name 'Foo'"),
    "a variable": ("int f() { return sampler + access; }", "undeclared identifier 'sampler'"),
    "a member": ("struct S { int a; };\nint f(S s) { return s.filter; }", "no member named 'filter'"),
    "a header of the user": ('#include "metal_mine.h"\n', "'metal_mine.h' file not found"),
}


@pytest.mark.parametrize("name", NOT_YET)
@pytest.mark.feature("not yet", "headers that the engine does not have, and samplers")
def test_is_not_supported(name: str) -> None:
    text, message = NOT_YET[name]
    with pytest.raises(UnsupportedFeature, match=f"<metal>:3: {message}.* not supported yet"):
        make_unit(USING + text)


@pytest.mark.parametrize("name", FORGOTTEN)
def test_is_not_declared(name: str) -> None:
    text, message = FORGOTTEN[name]
    with pytest.raises(CompileError, match=message):
        make_unit(USING + text)
