// The type of a braced list; the compiler looks for it in std.
#pragma once

#include "metal_types.h"

__mc_begin

namespace std {

template <typename T>
class initializer_list {
 public:
  typedef T value_type;
  typedef size_t size_type;
  constexpr initializer_list() noexcept : __mc_first(nullptr), __mc_count(0) {}
  constexpr size_t size() const noexcept { return __mc_count; }
  constexpr const T* begin() const noexcept { return __mc_first; }
  constexpr const T* end() const noexcept { return __mc_first + __mc_count; }

 private:
  constexpr initializer_list(const T* first, size_t count) noexcept : __mc_first(first), __mc_count(count) {}
  const T* __mc_first;
  size_t __mc_count;
};

}  // namespace std

namespace metal {
using std::initializer_list;
}

__mc_end
