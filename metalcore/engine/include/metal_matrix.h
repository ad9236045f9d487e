// matrix<T, C, R>: C columns, each a vec<T, R>, as float4x4 and its kin. T is float or half.
#pragma once

#include "metal_vector.h"
#include "metal_type_traits.h"

__mc_begin

namespace metal {

// f(i) for i = 0 .. C - 1 as the columns of a matrix, written out: a loop would hide the columns from the optimiser.
template <typename M, int C, typename F>
constexpr M __mc_columns(F f) {
  if constexpr (C == 2)
    return M(f(0), f(1));
  else if constexpr (C == 3)
    return M(f(0), f(1), f(2));
  else
    return M(f(0), f(1), f(2), f(3));
}
// A column with s in row `row` and 0 elsewhere.
template <typename T, int R>
constexpr vec<T, R> __mc_unit(T s, int row) {
  if constexpr (R == 2)
    return vec<T, 2>(row == 0 ? s : T(0), row == 1 ? s : T(0));
  else if constexpr (R == 3)
    return vec<T, 3>(row == 0 ? s : T(0), row == 1 ? s : T(0), row == 2 ? s : T(0));
  else
    return vec<T, 4>(row == 0 ? s : T(0), row == 1 ? s : T(0), row == 2 ? s : T(0), row == 3 ? s : T(0));
}

// Members that do not depend on the number of columns.
#define __MC_MATRIX_COMMON(C)                                                                                                \
  typedef vec<T, R> __mc_column;                                                                                             \
  typedef T __mc_scalar;                                                                                                     \
  vec<T, R> columns[C];                                                                                                      \
  matrix() = default;                                                                                                        \
  explicit constexpr matrix(T s) : matrix(__mc_columns<matrix, C>([=](int i) { return __mc_unit<T, R>(s, i); })) {}          \
  template <typename U>                                                                                                      \
  explicit constexpr matrix(const matrix<U, C, R>& o)                                                                        \
      : matrix(__mc_columns<matrix, C>([&](int i) { return vec<T, R>(o.columns[i]); })) {}                                   \
  constexpr vec<T, R>& operator[](int i) { return columns[i]; }                                                              \
  constexpr const vec<T, R>& operator[](int i) const { return columns[i]; }                                                  \
  friend constexpr matrix operator+(const matrix& a, const matrix& b) {                                                      \
    return __mc_columns<matrix, C>([&](int i) { return a.columns[i] + b.columns[i]; });                                      \
  }                                                                                                                          \
  friend constexpr matrix operator-(const matrix& a, const matrix& b) {                                                      \
    return __mc_columns<matrix, C>([&](int i) { return a.columns[i] - b.columns[i]; });                                      \
  }                                                                                                                          \
  friend constexpr matrix operator-(const matrix& a) {                                                                       \
    return __mc_columns<matrix, C>([&](int i) { return -a.columns[i]; });                                                    \
  }                                                                                                                          \
  friend constexpr matrix operator*(const matrix& a, T s) {                                                                  \
    return __mc_columns<matrix, C>([&](int i) { return a.columns[i] * s; });                                                 \
  }                                                                                                                          \
  friend constexpr matrix operator*(T s, const matrix& a) { return a * s; }                                                  \
  friend constexpr matrix operator/(const matrix& a, T s) {                                                                  \
    return __mc_columns<matrix, C>([&](int i) { return a.columns[i] / s; });                                                 \
  }                                                                                                                          \
  friend constexpr bool operator!=(const matrix& a, const matrix& b) { return !(a == b); }                                   \
  constexpr matrix& operator+=(const matrix& b) { return *this = *this + b; }                                                \
  constexpr matrix& operator-=(const matrix& b) { return *this = *this - b; }                                                \
  constexpr matrix& operator*=(T s) { return *this = *this * s; }                                                            \
  constexpr matrix& operator/=(T s) { return *this = *this / s; }                                                            \
  template <typename M, typename = typename M::__mc_column>                                                                  \
  constexpr matrix& operator*=(const M& b) {                                                                                 \
    return *this = *this * b;                                                                                                \
  }

template <typename T, int R>
constexpr bool __mc_equal(const vec<T, R>& a, const vec<T, R>& b) {
  if constexpr (R == 2)
    return a.x == b.x && a.y == b.y;
  else if constexpr (R == 3)
    return a.x == b.x && a.y == b.y && a.z == b.z;
  else
    return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}
// C * R scalars, column after column.
template <typename T, int R>
constexpr vec<T, R> __mc_column_at(const T* s, int i) {
  if constexpr (R == 2)
    return vec<T, 2>(s[2 * i], s[2 * i + 1]);
  else if constexpr (R == 3)
    return vec<T, 3>(s[3 * i], s[3 * i + 1], s[3 * i + 2]);
  else
    return vec<T, 4>(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]);
}
#define __MC_MATRIX_SCALARS(C)                                                                        \
  template <typename... S, enable_if_t<sizeof...(S) == C * R && (__is_arithmetic(S) && ...), bool> = true> \
  constexpr matrix(S... s) {                                                                          \
    T all[C * R] = {T(s)...};                                                                         \
    *this = __mc_columns<matrix, C>([&](int i) { return __mc_column_at<T, R>(all, i); });             \
  }

template <typename T, int R>
struct matrix<T, 2, R> {
  __MC_MATRIX_COMMON(2)
  __MC_MATRIX_SCALARS(2)
  constexpr matrix(const vec<T, R>& a, const vec<T, R>& b) : columns{a, b} {}
  constexpr matrix(const matrix& o) : columns{o.columns[0], o.columns[1]} {}
  constexpr matrix& operator=(const matrix& o) {
    vec<T, R> a = o.columns[0], b = o.columns[1];
    columns[0] = a, columns[1] = b;
    return *this;
  }
  friend constexpr bool operator==(const matrix& a, const matrix& b) {
    return __mc_equal(a.columns[0], b.columns[0]) && __mc_equal(a.columns[1], b.columns[1]);
  }
};
template <typename T, int R>
struct matrix<T, 3, R> {
  __MC_MATRIX_COMMON(3)
  __MC_MATRIX_SCALARS(3)
  constexpr matrix(const vec<T, R>& a, const vec<T, R>& b, const vec<T, R>& c) : columns{a, b, c} {}
  constexpr matrix(const matrix& o) : columns{o.columns[0], o.columns[1], o.columns[2]} {}
  constexpr matrix& operator=(const matrix& o) {
    vec<T, R> a = o.columns[0], b = o.columns[1], c = o.columns[2];
    columns[0] = a, columns[1] = b, columns[2] = c;
    return *this;
  }
  friend constexpr bool operator==(const matrix& a, const matrix& b) {
    return __mc_equal(a.columns[0], b.columns[0]) && __mc_equal(a.columns[1], b.columns[1]) && __mc_equal(a.columns[2], b.columns[2]);
  }
};
template <typename T, int R>
struct matrix<T, 4, R> {
  __MC_MATRIX_COMMON(4)
  __MC_MATRIX_SCALARS(4)
  constexpr matrix(const vec<T, R>& a, const vec<T, R>& b, const vec<T, R>& c, const vec<T, R>& d) : columns{a, b, c, d} {}
  constexpr matrix(const matrix& o) : columns{o.columns[0], o.columns[1], o.columns[2], o.columns[3]} {}
  constexpr matrix& operator=(const matrix& o) {
    vec<T, R> a = o.columns[0], b = o.columns[1], c = o.columns[2], d = o.columns[3];
    columns[0] = a, columns[1] = b, columns[2] = c, columns[3] = d;
    return *this;
  }
  friend constexpr bool operator==(const matrix& a, const matrix& b) {
    return __mc_equal(a.columns[0], b.columns[0]) && __mc_equal(a.columns[1], b.columns[1]) && __mc_equal(a.columns[2], b.columns[2]) &&
           __mc_equal(a.columns[3], b.columns[3]);
  }
};
#undef __MC_MATRIX_COMMON
#undef __MC_MATRIX_SCALARS

// Products. The columns are added in order.
template <typename T, int C, int R>
constexpr vec<T, R> operator*(const matrix<T, C, R>& m, const typename type_identity<vec<T, C>>::type& v) {
  vec<T, R> r = m.columns[0] * v.x + m.columns[1] * v.y;
  if constexpr (C > 2) r = r + m.columns[2] * v.z;
  if constexpr (C > 3) r = r + m.columns[3] * v.w;
  return r;
}
template <typename T, int R>
constexpr T __mc_row_times(const vec<T, R>& a, const vec<T, R>& b) {
  T s = T(T(a.x * b.x) + T(a.y * b.y));
  if constexpr (R > 2) s = T(s + T(a.z * b.z));
  if constexpr (R > 3) s = T(s + T(a.w * b.w));
  return s;
}
template <typename T, int C, int R>
constexpr vec<T, C> operator*(const typename type_identity<vec<T, R>>::type& v, const matrix<T, C, R>& m) {
  if constexpr (C == 2)
    return vec<T, 2>(__mc_row_times(v, m.columns[0]), __mc_row_times(v, m.columns[1]));
  else if constexpr (C == 3)
    return vec<T, 3>(__mc_row_times(v, m.columns[0]), __mc_row_times(v, m.columns[1]), __mc_row_times(v, m.columns[2]));
  else
    return vec<T, 4>(__mc_row_times(v, m.columns[0]), __mc_row_times(v, m.columns[1]), __mc_row_times(v, m.columns[2]),
                     __mc_row_times(v, m.columns[3]));
}
template <typename T, int K, int R, int C>
constexpr matrix<T, C, R> operator*(const matrix<T, K, R>& a, const matrix<T, C, K>& b) {
  return __mc_columns<matrix<T, C, R>, C>([&](int i) { return a * b.columns[i]; });
}

template <typename T, int C, int R>
constexpr matrix<T, R, C> transpose(const matrix<T, C, R>& m) {
  return __mc_columns<matrix<T, R, C>, R>([&](int i) {
    if constexpr (C == 2)
      return vec<T, 2>(m.columns[0][i], m.columns[1][i]);
    else if constexpr (C == 3)
      return vec<T, 3>(m.columns[0][i], m.columns[1][i], m.columns[2][i]);
    else
      return vec<T, 4>(m.columns[0][i], m.columns[1][i], m.columns[2][i], m.columns[3][i]);
  });
}
template <typename T>
constexpr T determinant(const matrix<T, 2, 2>& m) {
  return T(m.columns[0].x * m.columns[1].y - m.columns[1].x * m.columns[0].y);
}
template <typename T>
constexpr T determinant(const matrix<T, 3, 3>& m) {
  const vec<T, 3>&a = m.columns[0], &b = m.columns[1], &c = m.columns[2];
  return T(a.x * (b.y * c.z - c.y * b.z) - b.x * (a.y * c.z - c.y * a.z) + c.x * (a.y * b.z - b.y * a.z));
}
template <typename T>
constexpr T determinant(const matrix<T, 4, 4>& m) {
  const vec<T, 4>&a = m.columns[0], &b = m.columns[1], &c = m.columns[2], &d = m.columns[3];
  // 2x2 minors of the upper two and of the lower two rows.
  T s0 = a.x * b.y - b.x * a.y, s1 = a.x * c.y - c.x * a.y, s2 = a.x * d.y - d.x * a.y;
  T s3 = b.x * c.y - c.x * b.y, s4 = b.x * d.y - d.x * b.y, s5 = c.x * d.y - d.x * c.y;
  T t0 = a.z * b.w - b.z * a.w, t1 = a.z * c.w - c.z * a.w, t2 = a.z * d.w - d.z * a.w;
  T t3 = b.z * c.w - c.z * b.w, t4 = b.z * d.w - d.z * b.w, t5 = c.z * d.w - d.z * c.w;
  return T(s0 * t5 - s1 * t4 + s2 * t3 + s3 * t2 - s4 * t1 + s5 * t0);
}

}  // namespace metal

__mc_end

#define __MC_NAME(T, t)                                                                                                \
  typedef metal::matrix<T, 2, 2> t##2x2;                                                                               \
  typedef metal::matrix<T, 2, 3> t##2x3;                                                                               \
  typedef metal::matrix<T, 2, 4> t##2x4;                                                                               \
  typedef metal::matrix<T, 3, 2> t##3x2;                                                                               \
  typedef metal::matrix<T, 3, 3> t##3x3;                                                                               \
  typedef metal::matrix<T, 3, 4> t##3x4;                                                                               \
  typedef metal::matrix<T, 4, 2> t##4x2;                                                                               \
  typedef metal::matrix<T, 4, 3> t##4x3;                                                                               \
  typedef metal::matrix<T, 4, 4> t##4x4;                                                                               \
  namespace metal {                                                                                                    \
  using ::t##2x2;                                                                                                      \
  using ::t##2x3;                                                                                                      \
  using ::t##2x4;                                                                                                      \
  using ::t##3x2;                                                                                                      \
  using ::t##3x3;                                                                                                      \
  using ::t##3x4;                                                                                                      \
  using ::t##4x2;                                                                                                      \
  using ::t##4x3;                                                                                                      \
  using ::t##4x4;                                                                                                      \
  }
__MC_NAME(_Float16, half)
__MC_NAME(__bf16, bfloat)
__MC_NAME(float, float)
#undef __MC_NAME
