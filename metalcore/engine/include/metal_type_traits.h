// Metal's type traits. As in Metal, is_floating_point and is_integral are also true for vectors of such elements; is_scalar is not.
#pragma once

#include "metal_vector.h"

__mc_begin

namespace metal {

template <typename T, T v>
struct integral_constant {
  static constexpr T value = v;
  typedef T value_type;
  typedef integral_constant type;
  constexpr operator T() const noexcept { return v; }
  constexpr T operator()() const noexcept { return v; }
};
template <bool B>
using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <bool B, typename T = void>
struct enable_if {};
template <typename T>
struct enable_if<true, T> {
  typedef T type;
};
template <bool B, typename T = void>
using enable_if_t = typename enable_if<B, T>::type;

template <bool B, typename T, typename F>
struct conditional {
  typedef T type;
};
template <typename T, typename F>
struct conditional<false, T, F> {
  typedef F type;
};
template <bool B, typename T, typename F>
using conditional_t = typename conditional<B, T, F>::type;

// Logic on traits, with Metal's internal spellings.
template <typename... B>
struct conjunction : bool_constant<(bool(B::value) && ...)> {};
template <typename... B>
struct disjunction : bool_constant<(bool(B::value) || ...)> {};
template <typename B>
struct negation : bool_constant<!bool(B::value)> {};
template <typename... B>
using _conjunction = conjunction<B...>;
template <typename... B>
using _disjunction = disjunction<B...>;
template <typename B>
using _negation = negation<B>;
template <typename... B>
constexpr bool conjunction_v = conjunction<B...>::value;
template <typename... B>
constexpr bool disjunction_v = disjunction<B...>::value;
template <typename B>
constexpr bool negation_v = negation<B>::value;

// Changes to a type. Each is a struct with `type` and an alias ending in _t.
#define __MC_TRANSFORM(name, result)     \
  template <typename T>                  \
  struct name {                          \
    typedef result type;                 \
  };                                     \
  template <typename T>                  \
  using name##_t = typename name<T>::type;
__MC_TRANSFORM(remove_const, __remove_const(T))
__MC_TRANSFORM(remove_volatile, __remove_volatile(T))
__MC_TRANSFORM(remove_cv, __remove_cv(T))
__MC_TRANSFORM(remove_reference, __remove_reference_t(T))
__MC_TRANSFORM(remove_pointer, __remove_pointer(T))
__MC_TRANSFORM(remove_extent, __remove_extent(T))
__MC_TRANSFORM(remove_all_extents, __remove_all_extents(T))
__MC_TRANSFORM(decay, __decay(T))
__MC_TRANSFORM(underlying_type, __underlying_type(T))
__MC_TRANSFORM(add_const, const T)
__MC_TRANSFORM(add_volatile, volatile T)
__MC_TRANSFORM(add_cv, const volatile T)
__MC_TRANSFORM(add_pointer, __add_pointer(T))
__MC_TRANSFORM(add_lvalue_reference, __add_lvalue_reference(T))
__MC_TRANSFORM(add_rvalue_reference, __add_rvalue_reference(T))
#undef __MC_TRANSFORM

template <typename T>
struct type_identity {
  typedef T type;
};

// The type without its address space; const stays.
template <typename T>
struct remove_addrspace {
  typedef T type;
};
template <typename T>
struct remove_addrspace<__mc_device T> {
  typedef T type;
};
template <typename T>
struct remove_addrspace<__mc_threadgroup T> {
  typedef T type;
};
template <typename T>
struct remove_addrspace<__attribute__((opencl_global_device)) T> {
  typedef T type;
};
template <typename T>
using remove_addrspace_t = typename remove_addrspace<T>::type;

template <typename T>
typename add_rvalue_reference<T>::type declval() noexcept;

// The element of a vec or packed_vec, the type itself otherwise, without const, volatile and address space.
template <typename T>
struct __mc_element_of {
  typedef T type;
};
template <typename T, int N>
struct __mc_element_of<vec<T, N>> {
  typedef T type;
};
template <typename T, int N, typename V>
struct __mc_element_of<packed_vec<T, N, V>> {
  typedef T type;
};
template <typename T>
using __mc_plain = remove_cv_t<remove_addrspace_t<T>>;
template <typename T>
using __mc_element_t = typename __mc_element_of<__mc_plain<T>>::type;

// Questions about one type. Each is a struct with `value` and a constant ending in _v.
#define __MC_QUESTION(name, ...)                      \
  template <typename T>                               \
  struct name : bool_constant<(__VA_ARGS__)> {};      \
  template <typename T>                               \
  constexpr bool name##_v = (__VA_ARGS__);
template <typename A, typename B>
struct is_same : false_type {};
template <typename A>
struct is_same<A, A> : true_type {};
template <typename A, typename B>
constexpr bool is_same_v = __is_same(A, B);

__MC_QUESTION(is_void, __is_void(T))
__MC_QUESTION(is_null_pointer, __is_same(__mc_plain<T>, decltype(nullptr)))
__MC_QUESTION(is_integral, __is_integral(__mc_element_t<T>))
__MC_QUESTION(is_floating_point, __is_floating_point(__mc_element_t<T>))
__MC_QUESTION(is_arithmetic, __is_arithmetic(__mc_element_t<T>))
__MC_QUESTION(is_signed, __is_signed(__mc_element_t<T>))
__MC_QUESTION(is_unsigned, __is_unsigned(__mc_element_t<T>))
__MC_QUESTION(is_scalar, __is_scalar(__mc_plain<T>))
__MC_QUESTION(is_vector, __mc_shape<__mc_plain<T>>::dim > 1)
__MC_QUESTION(is_fundamental, __is_fundamental(__mc_plain<T>))
__MC_QUESTION(is_object, __is_object(T))
__MC_QUESTION(is_compound, !__is_fundamental(__mc_plain<T>))
__MC_QUESTION(is_pointer, __is_pointer(T))
__MC_QUESTION(is_reference, __is_reference(T))
__MC_QUESTION(is_lvalue_reference, __is_lvalue_reference(T))
__MC_QUESTION(is_rvalue_reference, __is_rvalue_reference(T))
__MC_QUESTION(is_array, __is_array(T))
__MC_QUESTION(is_function, __is_function(T))
__MC_QUESTION(is_enum, __is_enum(T))
__MC_QUESTION(is_union, __is_union(T))
__MC_QUESTION(is_class, __is_class(__mc_plain<T>) && __mc_shape<__mc_plain<T>>::dim == 1)
__MC_QUESTION(is_member_pointer, __is_member_pointer(T))
__MC_QUESTION(is_member_object_pointer, __is_member_object_pointer(T))
__MC_QUESTION(is_member_function_pointer, __is_member_function_pointer(T))
__MC_QUESTION(is_const, __is_const(T))
__MC_QUESTION(is_volatile, __is_volatile(T))
__MC_QUESTION(is_pod, __is_pod(T) || __mc_shape<__mc_plain<T>>::dim > 1)
__MC_QUESTION(is_trivial, __is_trivial(T) || __mc_shape<__mc_plain<T>>::dim > 1)
__MC_QUESTION(is_trivially_copyable, __is_trivially_copyable(T) || __mc_shape<__mc_plain<T>>::dim > 1)
__MC_QUESTION(is_standard_layout, __is_standard_layout(T))
__MC_QUESTION(is_literal_type, __is_literal(T))
__MC_QUESTION(is_polymorphic, __is_polymorphic(T))
__MC_QUESTION(is_abstract, __is_abstract(T))
__MC_QUESTION(is_final, __is_final(T))
__MC_QUESTION(is_default_constructible, __is_constructible(T))
__MC_QUESTION(is_copy_constructible, __is_constructible(T, const T&))
__MC_QUESTION(is_move_constructible, __is_constructible(T, T&&))
__MC_QUESTION(is_copy_assignable, __is_assignable(T&, const T&))
__MC_QUESTION(is_move_assignable, __is_assignable(T&, T&&))
__MC_QUESTION(is_destructible, __is_destructible(T))
__MC_QUESTION(is_trivially_default_constructible, __is_trivially_constructible(T))
#undef __MC_QUESTION

#define __MC_RELATION(name, ...)                             \
  template <typename A, typename B>                          \
  struct name : bool_constant<(__VA_ARGS__)> {};             \
  template <typename A, typename B>                          \
  constexpr bool name##_v = (__VA_ARGS__);
__MC_RELATION(is_base_of, __is_base_of(A, B))
__MC_RELATION(is_convertible, __is_convertible(A, B))
__MC_RELATION(is_assignable, __is_assignable(A, B))
#undef __MC_RELATION

template <typename T, typename... A>
struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <typename T, typename... A>
constexpr bool is_constructible_v = __is_constructible(T, A...);

template <typename T>
struct rank : integral_constant<size_t, __array_rank(T)> {};
template <typename T>
constexpr size_t rank_v = __array_rank(T);
template <typename T, unsigned I = 0>
struct extent : integral_constant<size_t, __array_extent(T, I)> {};
template <typename T, unsigned I = 0>
constexpr size_t extent_v = __array_extent(T, I);
template <typename T>
struct alignment_of : integral_constant<size_t, alignof(T)> {};
template <typename T>
constexpr size_t alignment_of_v = alignof(T);

// Names that are private in Metal and that public code uses all the same.
// The number of components; 0 for what is no vector.
template <typename T>
struct vec_elements : integral_constant<int, (__mc_shape<__mc_plain<T>>::dim > 1 ? __mc_shape<__mc_plain<T>>::dim : 0)> {};
template <typename T>
constexpr int vec_elements_v = vec_elements<T>::value;
// The element of a vector. Code specialises the second for classes of its own.
template <typename T>
struct _make_scalar_impl {
  typedef __mc_element_t<T> type;
};
template <typename T>
struct make_scalar : _make_scalar_impl<T> {};
template <typename T>
using make_scalar_t = typename make_scalar<T>::type;
// What simd_shuffle and its kin take: numbers of up to 32 bits and vectors of these; neither bool nor bfloat.
template <typename T, typename = void>
struct __is_valid_simdgroup_type
    : bool_constant<(__is_floating_point(__mc_element_t<T>) || (__is_integral(__mc_element_t<T>) && sizeof(__mc_element_t<T>) <= 4)) &&
                    !__is_same(__mc_element_t<T>, bool) && !__is_same(__mc_element_t<T>, bfloat)> {};
template <typename T, typename = void>
struct __is_valid_quadgroup_type : __is_valid_simdgroup_type<T> {};

// make_signed and make_unsigned, element by element for vectors.
template <typename T>
struct make_signed {
  typedef __make_signed(T) type;
};
template <typename T>
struct make_unsigned {
  typedef __make_unsigned(T) type;
};
template <typename T, int N>
struct make_signed<vec<T, N>> {
  typedef vec<__make_signed(T), N> type;
};
template <typename T, int N>
struct make_unsigned<vec<T, N>> {
  typedef vec<__make_unsigned(T), N> type;
};
template <typename T>
using make_signed_t = typename make_signed<T>::type;
template <typename T>
using make_unsigned_t = typename make_unsigned<T>::type;

// The type that a conditional expression of these gives.
template <typename... T>
struct common_type {};
template <typename T>
struct common_type<T> {
  typedef __decay(T) type;
};
template <typename A, typename B>
struct common_type<A, B> {
  typedef __decay(decltype(false ? declval<A>() : declval<B>())) type;
};
template <typename A, typename B, typename... C>
struct common_type<A, B, C...> : common_type<typename common_type<A, B>::type, C...> {};
template <typename... T>
using common_type_t = typename common_type<T...>::type;

template <typename T>
struct result_of {};
template <typename F, typename... A>
struct result_of<F(A...)> {
  typedef decltype(declval<F>()(declval<A>()...)) type;
};
template <typename T>
using result_of_t = typename result_of<T>::type;
template <typename F, typename... A>
struct invoke_result {
  typedef decltype(declval<F>()(declval<A>()...)) type;
};
template <typename F, typename... A>
using invoke_result_t = typename invoke_result<F, A...>::type;

// Less specialised than a user's own swap, so that a file's `template <typename T> void swap(thread T&, thread T&)` wins.
template <typename A, typename B>
constexpr void swap(A& a, B& b) {
  A t = a;
  a = b;
  b = t;
}

}  // namespace metal

__mc_end
