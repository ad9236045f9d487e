"""Type traits, checked by the compiler: each row is a static_assert in MSL."""

from __future__ import annotations

import pytest

from tests.engine.include.probe import compiles

TRUE = """
is_same_v<float, float>
!is_same_v<float, half>
is_same<metal::int4, int4>::value
is_floating_point_v<float> && is_floating_point_v<half> && is_floating_point_v<bfloat>
is_floating_point_v<float2> && is_floating_point_v<bfloat4>
!is_floating_point_v<int> && !is_floating_point_v<int4>
is_integral_v<bool> && is_integral_v<char> && is_integral_v<ulong> && is_integral_v<uint3>
!is_integral_v<half>
is_arithmetic_v<half> && is_arithmetic_v<int>
is_scalar_v<float> && is_scalar_v<bfloat> && is_scalar_v<device float*>
!is_scalar_v<float2>
is_signed_v<int> && is_signed_v<bfloat> && !is_signed_v<uint>
is_unsigned_v<uchar> && is_unsigned<ulong>::value && !is_unsigned_v<short>
is_pointer_v<device int*> && !is_pointer_v<int>
is_void_v<void> && is_array_v<int[3]> && is_const_v<const int> && is_reference_v<thread int&>
is_enum_v<Color> && is_class_v<Base> && !is_class_v<float4> && is_union_v<Either>
is_base_of_v<Base, Derived> && !is_base_of_v<Derived, Base>
is_convertible_v<int, float> && !is_convertible_v<Base, int>
is_same_v<enable_if_t<true, int>, int>
is_same_v<conditional_t<true, int, float>, int> && is_same_v<conditional<false, int, float>::type, float>
is_same_v<remove_const_t<const int>, int> && is_same_v<remove_cv_t<const volatile int>, int>
is_same_v<remove_reference_t<thread int&>, int> && is_same_v<remove_pointer_t<thread int*>, int>
is_same_v<make_unsigned_t<int>, uint> && is_same_v<make_signed_t<ulong>, long>
is_same_v<make_unsigned_t<int2>, uint2>
is_same_v<decay_t<const int>, int> && is_same_v<common_type_t<int, float>, float>
is_same_v<remove_addrspace_t<device float>, float> && is_same_v<remove_addrspace_t<threadgroup int>, int>
is_same_v<integral_constant<int, 4>::value_type, int> && integral_constant<int, 4>::value == 4
true_type::value && !false_type::value && bool_constant<true>::value
_disjunction<false_type, true_type>::value && disjunction_v<true_type> && !conjunction_v<true_type, false_type>
is_same_v<decltype(declval<float>() + declval<int>()), float>
is_same_v<underlying_type_t<Color>, ushort>
extent_v<int[3]> == 3 && rank_v<int[2][3]> == 2
is_default_constructible_v<float4> && is_copy_constructible_v<float4>
is_same_v<result_of_t<Call(int)>, float> && is_same_v<invoke_result_t<Call, int>, float>
is_same_v<uint8_t, uchar> && is_same_v<int64_t, long> && is_same_v<size_t, ulong> && sizeof(ptrdiff_t) == 8
"""
HEADER = """
enum class Color : ushort { red };
struct Base { int a; };
struct Derived : Base {};
union Either { int a; float b; };
struct Call { float operator()(int) const { return 0; } };
"""


@pytest.mark.feature("types", "type traits")
def test_traits() -> None:
    checks = "\n".join(f"static_assert({line});" for line in TRUE.strip().splitlines())
    compiles(HEADER + checks + "\nkernel void k(device int* d [[buffer(0)]]) { d[0] = 1; }")


def test_a_false_trait_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        compiles("static_assert(is_scalar_v<float2>); kernel void k(device int* d [[buffer(0)]]) { d[0] = 1; }")


@pytest.mark.feature("types", "names that metal_stdlib leaves free")
def test_names_left_to_the_user() -> None:
    names = """
namespace metal {
template <typename... T> struct make_void { typedef void type; };
template <typename... T> using void_t = typename make_void<T...>::type;
template <typename T> struct is_empty : bool_constant<__is_empty(T)> {};
}
template <typename T> T forward(T v) { return v; }
float erf(float x) { return x; }
template <typename T> void swap(thread T& a, thread T& b) { T c = a; a = b; b = c; }
long simd_shuffle(long v, ushort lane) { return as_type<long>(simd_shuffle(as_type<uint2>(v), lane)); }
bool simd_shuffle(bool v, ushort lane) { return simd_shuffle(uint(v), lane); }
bfloat my_max(bfloat a, bfloat b) { return max(a, b); }
kernel void k(device float* d [[buffer(0)]]) {
  float a = forward(d[0]), b = erf(d[1]);
  swap(a, b);
  d[0] = a + simd_shuffle(3l, 0) + simd_shuffle(true, 0);
}"""
    compiles(names)
