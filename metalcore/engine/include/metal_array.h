// metal::array, a C array that can be copied, and uniform, a hint that is the value itself here.
#pragma once

#include "metal_type_traits.h"

__mc_begin

namespace metal {

template <typename T, size_t N>
struct array {
  T __elems[N == 0 ? 1 : N];

  typedef T value_type;
  typedef size_t size_type;

  constexpr T& operator[](size_t i) { return __elems[i]; }
  constexpr const T& operator[](size_t i) const { return __elems[i]; }
  constexpr T& at(size_t i) { return __elems[i]; }
  constexpr const T& at(size_t i) const { return __elems[i]; }
  constexpr T& front() { return __elems[0]; }
  constexpr const T& front() const { return __elems[0]; }
  constexpr T& back() { return __elems[N - 1]; }
  constexpr const T& back() const { return __elems[N - 1]; }
  // The pointer keeps the address space of the array.
  constexpr auto data(this auto& self) { return &self.__elems[0]; }
  constexpr auto begin(this auto& self) { return &self.__elems[0]; }
  constexpr auto end(this auto& self) { return &self.__elems[0] + N; }
  constexpr auto cbegin(this const auto& self) { return &self.__elems[0]; }
  constexpr auto cend(this const auto& self) { return &self.__elems[0] + N; }
  static constexpr size_t size() { return N; }
  static constexpr size_t max_size() { return N; }
  static constexpr bool empty() { return N == 0; }
  constexpr void fill(const T& v) {
    for (size_t i = 0; i < N; i++) __elems[i] = v;
  }
};
template <typename T, typename... U>
array(T, U...) -> array<T, 1 + sizeof...(U)>;

template <typename T, size_t N>
constexpr bool operator==(const array<T, N>& a, const array<T, N>& b) {
  for (size_t i = 0; i < N; i++)
    if (!(a[i] == b[i])) return false;
  return true;
}
template <typename T, size_t N>
constexpr bool operator!=(const array<T, N>& a, const array<T, N>& b) {
  return !(a == b);
}

// A value that the author promises is the same in all threads; the engine finds out by itself.
template <typename T>
using uniform = T;
template <typename T>
constexpr T make_uniform(T v) {
  return v;
}

}  // namespace metal

__mc_end
