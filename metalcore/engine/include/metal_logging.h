// os_log: accepted, and silent, because a kernel on the CPU has no device log.
#pragma once

#include "metal_types.h"

__mc_begin

namespace metal {

struct os_log {
  os_log() = default;
  constexpr os_log(__mc_constant char*, __mc_constant char*) {}
  constexpr os_log(const char*, const char*) {}
  template <typename... A>
  constexpr void log(A...) const {}
  template <typename... A>
  constexpr void log_debug(A...) const {}
  template <typename... A>
  constexpr void log_info(A...) const {}
  template <typename... A>
  constexpr void log_error(A...) const {}
  template <typename... A>
  constexpr void log_fault(A...) const {}
};
constexpr os_log os_log_default;

}  // namespace metal

__mc_end
