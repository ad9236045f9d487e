// Limits<T>: the values that reductions start from. Floating types start at infinity, integers at their ends.
#pragma once

template <typename U>
struct Limits {
  static constexpr constant U max = metal::numeric_limits<U>::max();
  static constexpr constant U min = metal::numeric_limits<U>::min();
  static constexpr constant U finite_max = metal::numeric_limits<U>::max();
  static constexpr constant U finite_min = metal::numeric_limits<U>::min();
};

#define METALCORE_FLOAT_LIMITS(T)                                              \
  template <>                                                                  \
  struct Limits<T> {                                                           \
    static constexpr constant T max = metal::numeric_limits<T>::infinity();    \
    static constexpr constant T min = -metal::numeric_limits<T>::infinity();   \
    static constexpr constant T finite_max = metal::numeric_limits<T>::max();  \
    static constexpr constant T finite_min = -metal::numeric_limits<T>::max(); \
  };
METALCORE_FLOAT_LIMITS(float)
METALCORE_FLOAT_LIMITS(half)
METALCORE_FLOAT_LIMITS(bfloat)
#undef METALCORE_FLOAT_LIMITS

template <>
struct Limits<bool> {
  static constexpr constant bool max = true;
  static constexpr constant bool min = false;
};

template <typename T>
struct Limits<complex_t<T>> {
  static constexpr constant complex_t<T> max =
      complex_t<T>(metal::numeric_limits<T>::infinity(), metal::numeric_limits<T>::infinity());
  static constexpr constant complex_t<T> min =
      complex_t<T>(-metal::numeric_limits<T>::infinity(), -metal::numeric_limits<T>::infinity());
};
