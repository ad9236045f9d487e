// os_log and assert: what a thread says, as the engine shows it; docs/design/contracts.md, "What threads say".
#pragma once

#include "externals.h"
#include "metal_type_traits.h"

__mc_begin

// What follows in a call of __mc_say: engine/checks/said.py has the same numbers.
enum __mc_said { __mc_said_line, __mc_said_failure, __mc_said_int, __mc_said_uint, __mc_said_float, __mc_said_double, __mc_said_pointer };

template <typename T>
inline void __mc_say_value(T value) {
  if constexpr (metal::vec_elements_v<T> > 1) {
    __mc_say_value(value[0]);
    __mc_say_value(value[1]);
    if constexpr (metal::vec_elements_v<T> > 2) {
      __mc_say_value(value[2]);
    }
    if constexpr (metal::vec_elements_v<T> > 3) {
      __mc_say_value(value[3]);
    }
  } else if constexpr (__is_pointer(T)) {
    __mc_say(nullptr, __mc_said_pointer, ulong(value));
#ifdef METALCORE_DOUBLE
  } else if constexpr (metal::is_floating_point_v<T>) {
    __mc_say(nullptr, __mc_said_double, __builtin_bit_cast(ulong, float(value)));
#else
  } else if constexpr (metal::is_floating_point_v<T>) {
    __mc_say(nullptr, __mc_said_float, __builtin_bit_cast(uint, float(value)));
#endif
  } else if constexpr (__is_enum(T)) {
    __mc_say_value(static_cast<__underlying_type(T)>(value));
  } else if constexpr (!__is_integral(T)) {
    static_assert(sizeof(T) == 0, "os_log takes numbers, vectors of numbers and pointers");
  } else if constexpr (T(-1) < T(0)) {
    __mc_say(nullptr, __mc_said_int, ulong(long(value)));
  } else {
    __mc_say(nullptr, __mc_said_uint, ulong(value));
  }
}

template <typename... A>
inline void __mc_say_line(const char* format, uint level, A... values) {
  __mc_say(format, __mc_said_line, level);
  (__mc_say_value(values), ...);
}

namespace metal {

struct os_log {
  os_log() = default;
  constexpr os_log(const char*, const char*) {}  // a subsystem and a category, which are shown nowhere
  template <typename... A>
  void log(const char* format, A... values) const { __mc_say_line(format, 0, values...); }
  template <typename... A>
  void log_debug(const char* format, A... values) const { __mc_say_line(format, 1, values...); }
  template <typename... A>
  void log_info(const char* format, A... values) const { __mc_say_line(format, 2, values...); }
  template <typename... A>
  void log_error(const char* format, A... values) const { __mc_say_line(format, 3, values...); }
  template <typename... A>
  void log_fault(const char* format, A... values) const { __mc_say_line(format, 4, values...); }
};
constexpr os_log os_log_default;

// Of the macro assert: stubs/macros.h.
inline void _assertion_failed(const char* condition) { __mc_say(condition, __mc_said_failure, 0); }

}  // namespace metal

__mc_end
