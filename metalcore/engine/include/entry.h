// The wrapper around a kernel: where its arguments come from, and a table of its parameters for the host.
#pragma once

#include "metal_atomic.h"
#include "metal_types.h"
#include "spaces.h"

__mc_fixed void* __mc_arg(unsigned slot);
__mc_fixed void* __mc_threadgroup_arg(unsigned slot);
__mc_fixed unsigned __mc_thread_position_in_grid(unsigned dim);
__mc_fixed unsigned __mc_threadgroup_position_in_grid(unsigned dim);
__mc_fixed unsigned __mc_thread_position_in_threadgroup(unsigned dim);
__mc_fixed unsigned __mc_threads_per_threadgroup(unsigned dim);
__mc_fixed unsigned __mc_threads_per_grid(unsigned dim);
__mc_fixed unsigned __mc_threadgroups_per_grid(unsigned dim);
__mc_fixed unsigned __mc_dispatch_threads_per_threadgroup(unsigned dim);
__mc_fixed unsigned __mc_thread_index_in_threadgroup(unsigned dim);
__mc_fixed unsigned __mc_thread_index_in_simdgroup(unsigned dim);
__mc_fixed unsigned __mc_simdgroup_index_in_threadgroup(unsigned dim);
__mc_fixed unsigned __mc_simdgroups_per_threadgroup(unsigned dim);
__mc_fixed unsigned __mc_dispatch_simdgroups_per_threadgroup(unsigned dim);
__mc_fixed unsigned __mc_threads_per_simdgroup(unsigned dim);
__mc_fixed unsigned __mc_quadgroup_index_in_threadgroup(unsigned dim);
__mc_fixed unsigned __mc_thread_index_in_quadgroup(unsigned dim);
__mc_fixed unsigned __mc_quadgroups_per_threadgroup(unsigned dim);

__mc_begin

namespace __mc {

// Codes that the front end reads back; the lists in entry.py have the same order.
enum kind : unsigned { kind_buffer, kind_value, kind_threadgroup, kind_builtin, kind_end };
enum space : unsigned { space_none, space_device, space_constant, space_threadgroup };
enum scalar : unsigned {
  scalar_struct, scalar_pointer, scalar_bool, scalar_float, scalar_half, scalar_bfloat,
  scalar_int8, scalar_uint8, scalar_int16, scalar_uint16, scalar_int32, scalar_uint32, scalar_int64, scalar_uint64, scalar_void,
  scalar_double
};

struct info {
  unsigned kind, slot, size, align, writable, scalar, lanes, space;
  const char* type;
};

template <typename T>
constexpr const char* name() { return __PRETTY_FUNCTION__; }

template <typename T> struct bare { using type = T; static constexpr bool constant = false; };
template <typename T> struct bare<const T> : bare<T> { static constexpr bool constant = true; };
template <typename T> struct bare<volatile T> : bare<T> {};
template <typename T> struct bare<const volatile T> : bare<T> { static constexpr bool constant = true; };
template <typename T> struct bare<__mc_device T> : bare<T> {};
template <typename T> struct bare<__mc_threadgroup T> : bare<T> {};
template <typename T> struct bare<__mc_constant T> : bare<T> { static constexpr bool constant = true; };
template <typename T> struct bare<const __mc_device T> : bare<T> { static constexpr bool constant = true; };
template <typename T> struct bare<const __mc_threadgroup T> : bare<T> { static constexpr bool constant = true; };

// What a value is made of: its scalar and how many of them.
template <typename T, bool is_enum = __is_enum(T)>
struct made_of { static constexpr unsigned scalar = scalar_struct, lanes = 1; using element = T; };
template <typename T>
struct made_of<T, true> : made_of<__underlying_type(T)> {};
#define __MC_MADE_OF(T, code) \
  template <> struct made_of<T, false> { static constexpr unsigned scalar = code, lanes = 1; using element = T; };
__MC_MADE_OF(void, scalar_void)
__MC_MADE_OF(bool, scalar_bool)
#ifdef METALCORE_DOUBLE
__MC_MADE_OF(float, scalar_double)
#else
__MC_MADE_OF(float, scalar_float)
#endif
__MC_MADE_OF(half, scalar_half)
__MC_MADE_OF(bfloat, scalar_bfloat)
__MC_MADE_OF(char, scalar_int8)
__MC_MADE_OF(signed char, scalar_int8)
__MC_MADE_OF(unsigned char, scalar_uint8)
__MC_MADE_OF(short, scalar_int16)
__MC_MADE_OF(unsigned short, scalar_uint16)
__MC_MADE_OF(int, scalar_int32)
__MC_MADE_OF(unsigned, scalar_uint32)
__MC_MADE_OF(long, scalar_int64)
__MC_MADE_OF(unsigned long, scalar_uint64)
__MC_MADE_OF(long long, scalar_int64)
__MC_MADE_OF(unsigned long long, scalar_uint64)
#undef __MC_MADE_OF
template <typename T>
struct made_of<T*, false> { static constexpr unsigned scalar = scalar_pointer, lanes = 1; using element = T*; };
template <typename T, int N>
struct made_of<metal::vec<T, N>, false> { static constexpr unsigned scalar = made_of<T>::scalar, lanes = N; using element = T; };
template <typename T, int N, typename V>
struct made_of<metal::packed_vec<T, N, V>, false> : made_of<metal::vec<T, N>> {};
template <typename T>
struct made_of<metal::atomic<T>, false> : made_of<T> {};
template <typename T, unsigned long N>
struct made_of<T[N], false> : made_of<typename bare<T>::type> {};

template <typename T> struct size_of { static constexpr unsigned size = sizeof(T), align = alignof(T); };
template <> struct size_of<void> { static constexpr unsigned size = 1, align = 1; };

// How a parameter of each type gets its argument.
template <typename P>
struct parameter {
  static constexpr info describe(unsigned) {
    return {kind_builtin, 0, sizeof(P), alignof(P), 0, made_of<P>::scalar, made_of<P>::lanes, space_none, name<P>()};
  }
  static P get(unsigned) {
    static_assert(made_of<P>::lanes == 0, "a kernel parameter passed by value needs a thread attribute such as [[thread_position_in_grid]]; "
                                  "data is passed as a device or constant pointer or reference");
  }
};
template <typename T, unsigned KIND, unsigned SPACE>
struct addressed {
  using element = typename bare<T>::type;
  static constexpr info describe(unsigned slot) {
    return {KIND, slot, size_of<element>::size, size_of<element>::align, SPACE == space_device && !bare<T>::constant,
            made_of<element>::scalar, made_of<element>::lanes, SPACE, name<element>()};
  }
};
#define __MC_PARAMETER(QUALIFIER, SPACE, VALUE, BUFFER, SOURCE)                                \
  template <typename T> struct parameter<QUALIFIER T*> : addressed<T, BUFFER, SPACE> {         \
    static QUALIFIER T* get(unsigned slot) { return (QUALIFIER T*)SOURCE(slot); }              \
  };                                                                                           \
  template <typename T> struct parameter<QUALIFIER T&> : addressed<T, VALUE, SPACE> {          \
    static QUALIFIER T& get(unsigned slot) { return *(QUALIFIER T*)SOURCE(slot); }             \
  };
__MC_PARAMETER(__mc_device, space_device, kind_value, kind_buffer, __mc_arg)
__MC_PARAMETER(__mc_constant, space_constant, kind_value, kind_buffer, __mc_arg)
__MC_PARAMETER(__mc_threadgroup, space_threadgroup, kind_threadgroup, kind_threadgroup, __mc_threadgroup_arg)
#undef __MC_PARAMETER

// A number in constant memory is read once, when the kernel starts: nothing may write it, and what the kernel writes elsewhere
// need not make the compiler read it again.
template <typename T>
struct held {
  T number;
  operator const __mc_constant T&() const { return *(const __mc_constant T*)(const __mc_constant void*)&number; }
};
template <typename P> struct is_held { static constexpr bool value = false; };
template <typename T> struct is_held<const __mc_constant T&> {
  using type = held<T>;
  static constexpr bool value = made_of<T>::lanes == 1 && made_of<T>::scalar != scalar_pointer && sizeof(T) <= 8;
};
template <typename T, unsigned long N> struct is_held<const __mc_constant T (&)[N]> { static constexpr bool value = false; };

// A thread attribute of any integer type, scalar or vector.
template <typename P, unsigned (*READ)(unsigned)>
P builtin() {
  using element = typename made_of<P>::element;
  static_assert(made_of<P>::scalar >= scalar_int8 && made_of<P>::scalar <= scalar_uint64,
                "a thread attribute needs an integer type, such as uint or uint3");
  if constexpr (made_of<P>::lanes == 1)
    return static_cast<P>(READ(0));
  else if constexpr (made_of<P>::lanes == 2)
    return P(static_cast<element>(READ(0)), static_cast<element>(READ(1)));
  else
    return P(static_cast<element>(READ(0)), static_cast<element>(READ(1)), static_cast<element>(READ(2)));
}

template <typename P, bool = is_held<P>::value> struct held_or_plain { using type = P; };
template <typename P> struct held_or_plain<P, true> { using type = typename is_held<P>::type; };
template <typename P> using conditional_held = typename held_or_plain<P>::type;

// REQUEST::index holds the number that each parameter asks for, -1 where it leaves the choice.
template <typename REQUEST, typename F>
struct kernel {
  static_assert(made_of<F>::lanes == 0, "a kernel returns void");
};
template <typename REQUEST, typename... P>
struct kernel<REQUEST, void (*)(P...)> {
  static constexpr unsigned count = sizeof...(P);
  template <unsigned I> using type = __type_pack_element<I, P...>;
  struct numbers { unsigned value[count + 1]; };
  struct rows { info value[count + 1]; };

  // The lowest free number for whoever asks for none, buffers and threadgroup memory apart.
  static constexpr numbers assign() {
    const unsigned kinds[count + 1] = {parameter<P>::describe(0).kind...};
    numbers slots = {};
    for (unsigned i = 0; i < count; ++i) {
      const bool threadgroup_memory = kinds[i] == kind_threadgroup;
      if (kinds[i] == kind_builtin) continue;
      if (REQUEST::index[i] >= 0) {
        slots.value[i] = REQUEST::index[i];
        continue;
      }
      unsigned slot = 0;
      for (bool taken = true; taken; slot += taken) {
        taken = false;
        for (unsigned j = 0; j < count; ++j) {
          if (kinds[j] == kind_builtin || (kinds[j] == kind_threadgroup) != threadgroup_memory) continue;
          if (REQUEST::index[j] >= 0 ? unsigned(REQUEST::index[j]) == slot : j < i && slots.value[j] == slot) taken = true;
        }
      }
      slots.value[i] = slot;
    }
    return slots;
  }
  static constexpr numbers slots = assign();
  static constexpr rows table() {
    unsigned i = 0;
    return {{parameter<P>::describe(slots.value[i++])..., info{kind_end, 0, 0, 0, 0, 0, 0, 0, ""}}};
  }
  static constexpr rows described = table();

  template <unsigned I>
  static auto get() -> conditional_held<type<I>> {
    constexpr unsigned slot = slots.value[I];
    if constexpr (is_held<type<I>>::value)
      return {parameter<type<I>>::get(slot)};
    else
      return parameter<type<I>>::get(slot);
  }
};

// A 16-bit float as a float, everything else as it is: patches.py puts it into casts between half and bfloat.
constexpr float widen(half v) { return v; }
constexpr float widen(bfloat v) { return v; }
template <typename T>
constexpr T widen(T v) { return v; }

// A number that clang does not fold: patches.py puts it where a constant operand has no defined result. Initialisers of
// variables that are static stay constants.
template <typename T>
T not_folded(T v) { return v; }
template <typename T>
constexpr T at_run_time(T v) { return __builtin_is_constant_evaluated() ? v : not_folded(v); }

// A copy in no address space: patches.py puts it into a conditional whose operands lie in two of them.
template <typename T>
constexpr typename bare<T>::type value(const T& v) { return v; }
template <typename T>
constexpr typename bare<T>::type value(const __mc_device T& v) { return v; }
template <typename T>
constexpr typename bare<T>::type value(const __mc_threadgroup T& v) { return v; }
template <typename T>
constexpr typename bare<T>::type value(__mc_constant T& v) { return v; }

// A function constant: its index and what it is made of.
template <typename T, long INDEX>
struct constant_info {
  using element = typename bare<T>::type;
  static constexpr info described = {kind_value, unsigned(INDEX), sizeof(element), alignof(element), 0,
                                     made_of<element>::scalar, made_of<element>::lanes, space_constant, name<element>()};
};

}  // namespace __mc

__mc_end
