// Complex numbers as MLX has them: complex_t<T> with real and imag, converting from and to scalars.
#pragma once

template <typename T>
struct complex_t;

template <typename T>
static constexpr constant bool is_complex_v = false;
template <typename T>
static constexpr constant bool is_complex_v<complex_t<T>> = true;

// bfloat takes explicit casts only, which is_convertible does not count.
template <typename From, typename To>
static constexpr constant bool is_lane_convertible_v =
    metal::is_convertible_v<From, To> || (metal::is_same_v<To, bfloat> && metal::is_convertible_v<From, float>) ||
    (metal::is_same_v<From, bfloat> && metal::is_convertible_v<float, To>);

template <typename T>
struct complex_t {
  using value_type = T;
  T real;
  T imag;

  constexpr complex_t() : real(0), imag(0) {}
  constexpr complex_t(T re, T im) : real(re), imag(im) {}
  constexpr complex_t(vec<T, 2> v) : real(v.x), imag(v.y) {}

  template <
      typename U,
      typename = metal::enable_if_t<!is_complex_v<U> && is_lane_convertible_v<U, T>>>
  constexpr complex_t(U re) : real(static_cast<T>(re)), imag(static_cast<T>(0)) {}

  template <
      typename U,
      typename = metal::enable_if_t<!metal::is_same_v<U, T> && is_lane_convertible_v<U, T>>>
  constexpr complex_t(complex_t<U> z) : real(static_cast<T>(z.real)), imag(static_cast<T>(z.imag)) {}

  constexpr operator vec<T, 2>() const { return vec<T, 2>(real, imag); }

  template <
      typename U,
      typename = metal::enable_if_t<!is_complex_v<U> && is_lane_convertible_v<T, U>>>
  constexpr operator U() const {
    return static_cast<U>(real);
  }
};

using complex32_t = complex_t<half>;
using complex64_t = complex_t<float>;
static_assert(sizeof(complex64_t) == 8, "a complex64 is two floats");

#define METALCORE_IF_SCALAR(U, T) \
  metal::enable_if_t<!is_complex_v<U> && is_lane_convertible_v<U, T>, bool> = true

// Numbers are ordered by their real parts, then by their imaginary ones, as NumPy orders them.
template <typename T>
constexpr bool operator==(complex_t<T> a, complex_t<T> b) {
  return a.real == b.real && a.imag == b.imag;
}
template <typename T>
constexpr bool operator!=(complex_t<T> a, complex_t<T> b) {
  return !(a == b);
}
template <typename T>
constexpr bool operator<(complex_t<T> a, complex_t<T> b) {
  return a.real < b.real || (a.real == b.real && a.imag < b.imag);
}
template <typename T>
constexpr bool operator<=(complex_t<T> a, complex_t<T> b) {
  return a.real < b.real || (a.real == b.real && a.imag <= b.imag);
}
template <typename T>
constexpr bool operator>(complex_t<T> a, complex_t<T> b) {
  return b < a;
}
template <typename T>
constexpr bool operator>=(complex_t<T> a, complex_t<T> b) {
  return b <= a;
}

template <typename T>
constexpr complex_t<T> operator-(complex_t<T> a) {
  return complex_t<T>(-a.real, -a.imag);
}

#define METALCORE_COMPLEX_WITH_SCALAR(OP)                                    \
  template <typename T, typename U, METALCORE_IF_SCALAR(U, T)>               \
  constexpr complex_t<T> operator OP(U a, complex_t<T> b) {                  \
    return complex_t<T>(a) OP b;                                             \
  }                                                                          \
  template <typename T, typename U, METALCORE_IF_SCALAR(U, T)>               \
  constexpr complex_t<T> operator OP(complex_t<T> a, U b) {                  \
    return a OP complex_t<T>(b);                                             \
  }

template <typename T>
constexpr complex_t<T> operator+(complex_t<T> a, complex_t<T> b) {
  return complex_t<T>(a.real + b.real, a.imag + b.imag);
}
template <typename T>
constexpr complex_t<T> operator-(complex_t<T> a, complex_t<T> b) {
  return complex_t<T>(a.real - b.real, a.imag - b.imag);
}
template <typename T>
constexpr complex_t<T> operator*(complex_t<T> a, complex_t<T> b) {
  return complex_t<T>(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real);
}
// Smith's division: dividing by the larger part first keeps the squares from overflowing.
template <typename T>
constexpr complex_t<T> operator/(complex_t<T> a, complex_t<T> b) {
  const float ar = a.real, ai = a.imag, br = b.real, bi = b.imag;
  const bool wide = (br < 0 ? -br : br) >= (bi < 0 ? -bi : bi);
  const float r = wide ? bi / br : br / bi;
  const float d = wide ? br + bi * r : bi + br * r;
  const float re = wide ? ar + ai * r : ar * r + ai;
  const float im = wide ? ai - ar * r : ai * r - ar;
  return complex_t<T>(static_cast<T>(re / d), static_cast<T>(im / d));
}
METALCORE_COMPLEX_WITH_SCALAR(+)
METALCORE_COMPLEX_WITH_SCALAR(-)
METALCORE_COMPLEX_WITH_SCALAR(*)
METALCORE_COMPLEX_WITH_SCALAR(/)

// The remainder has the divisor's sign in each part.
template <typename T>
constexpr complex_t<T> operator%(complex_t<T> a, complex_t<T> b) {
  T re = a.real - b.real * static_cast<int64_t>(a.real / b.real);
  T im = a.imag - b.imag * static_cast<int64_t>(a.imag / b.imag);
  re += (re != 0 && ((re < 0) != (b.real < 0))) ? b.real : T(0);
  im += (im != 0 && ((im < 0) != (b.imag < 0))) ? b.imag : T(0);
  return complex_t<T>(re, im);
}

#define METALCORE_COMPLEX_ADD_TO(SPACE)                                                   \
  template <typename T>                                                                   \
  constexpr SPACE complex_t<T>& operator+=(SPACE complex_t<T>& a, complex_t<T> b) {       \
    a.real += b.real;                                                                     \
    a.imag += b.imag;                                                                     \
    return a;                                                                             \
  }
METALCORE_COMPLEX_ADD_TO(thread)
METALCORE_COMPLEX_ADD_TO(threadgroup)
METALCORE_COMPLEX_ADD_TO(device)

#undef METALCORE_COMPLEX_ADD_TO
#undef METALCORE_COMPLEX_WITH_SCALAR
#undef METALCORE_IF_SCALAR
