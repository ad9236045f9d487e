// simdgroup_matrix<T, 8, 8>: each lane holds two neighbours of one row.
// row = (lane / 4 & 4) + lane / 2 % 4, column = (lane / 4 & 2) * 2 + lane % 2 * 2.
#pragma once

#include "metal_simdgroup.h"

__mc_begin

namespace metal {

template <typename T, int Cols, int Rows = Cols>
struct simdgroup_matrix {
  static_assert(Cols == 8 && Rows == 8, "a simdgroup_matrix has 8 columns and 8 rows");
  static_assert(__is_same(T, float) || __is_same(T, half) || __is_same(T, bfloat), "a simdgroup_matrix holds float, half or bfloat");
  typedef T value_type;
  typedef vec<T, 2> storage_type;
  storage_type __mc_elements;

  simdgroup_matrix() = default;
  // dval on the diagonal, 0 elsewhere.
  explicit simdgroup_matrix(T dval) {
    uint lane = __mc_thread_index_in_simdgroup(0), row = (lane >> 2 & 4) + (lane >> 1 & 3), column = (lane >> 2 & 2) * 2 + (lane & 1) * 2;
    __mc_elements = storage_type(row == column ? dval : T(0), row == column + 1 ? dval : T(0));
  }
  storage_type& thread_elements() { return __mc_elements; }
  const storage_type& thread_elements() const { return __mc_elements; }
};

template <typename T, int Cols, int Rows = Cols>
inline simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(T v) {
  simdgroup_matrix<T, Cols, Rows> m;
  m.__mc_elements = vec<T, 2>(v);
  return m;
}
template <typename T, int Cols, int Rows = Cols>
inline simdgroup_matrix<T, Cols, Rows> make_diagonal_simdgroup_matrix(T v) {
  return simdgroup_matrix<T, Cols, Rows>(v);
}

#ifdef METALCORE_DOUBLE
// Plain loads, stores and shuffles: lockstep's own matrix code is for words of 32 bits.
inline uint __mc_matrix_row() {
  uint lane = __mc_thread_index_in_simdgroup(0);
  return (lane >> 2 & 4) + (lane >> 1 & 3);
}
inline uint __mc_matrix_column() {
  uint lane = __mc_thread_index_in_simdgroup(0);
  return (lane >> 2 & 2) * 2 + (lane & 1) * 2;
}
// The lane that holds a row and an even column.
inline uint __mc_matrix_holder(uint row, uint column) { return (row & 4) << 2 | (column & 4) << 1 | (row & 3) << 1 | (column >> 1 & 1); }
template <typename T, int C, int R>
inline void simdgroup_load(simdgroup_matrix<T, C, R>& d, const volatile typename type_identity<T>::type* source, ulong elements_per_row = C,
                           ulong2 matrix_origin = ulong2(0ul), bool transpose_matrix = false) {
  const T* p = const_cast<const T*>(source) + matrix_origin.y * elements_per_row + matrix_origin.x;
  ulong row = __mc_matrix_row(), column = __mc_matrix_column();
  ulong first = transpose_matrix ? column * elements_per_row + row : row * elements_per_row + column;
  d.__mc_elements = vec<T, 2>(p[first], p[first + (transpose_matrix ? elements_per_row : 1)]);
}
template <typename T, int C, int R>
inline void simdgroup_store(const simdgroup_matrix<T, C, R>& a, volatile typename type_identity<T>::type* destination, ulong elements_per_row = C,
                            ulong2 matrix_origin = ulong2(0ul), bool transpose_matrix = false) {
  T* p = const_cast<T*>(destination) + matrix_origin.y * elements_per_row + matrix_origin.x;
  ulong row = __mc_matrix_row(), column = __mc_matrix_column();
  ulong first = transpose_matrix ? column * elements_per_row + row : row * elements_per_row + column;
  p[first] = a.__mc_elements.x;
  p[first + (transpose_matrix ? elements_per_row : 1)] = a.__mc_elements.y;
}
template <typename D, typename A, typename B, typename C, int M, int N, int K>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, N, M>& d, const simdgroup_matrix<A, K, M>& a, const simdgroup_matrix<B, N, K>& b,
                                          const simdgroup_matrix<C, N, M>& c) {
  uint row = __mc_matrix_row(), column = __mc_matrix_column();
  float x = float(c.__mc_elements.x), y = float(c.__mc_elements.y);
#pragma unroll
  for (uint k = 0; k < 8; ++k) {
    uint from = __mc_matrix_holder(row, k), with = __mc_matrix_holder(k, column);
    float left = metal::simd_shuffle(float(k & 1 ? a.__mc_elements.y : a.__mc_elements.x), ushort(from));
    x = __builtin_fmaf(left, metal::simd_shuffle(float(b.__mc_elements.x), ushort(with)), x);
    y = __builtin_fmaf(left, metal::simd_shuffle(float(b.__mc_elements.y), ushort(with)), y);
  }
  d.__mc_elements = vec<D, 2>(D(x), D(y));
}
#else
// The element at matrix_origin (x: column, y: row) of a row-major matrix in memory comes to the upper left corner.
template <typename T, int C, int R>
inline void simdgroup_load(simdgroup_matrix<T, C, R>& d, const volatile typename type_identity<T>::type* source, ulong elements_per_row = C,
                           ulong2 matrix_origin = ulong2(0ul), bool transpose_matrix = false) {
  const T* p = const_cast<const T*>(source) + matrix_origin.y * elements_per_row + matrix_origin.x;
  __mc_pair_u32 e;
  if constexpr (sizeof(T) == 4)
    e = __mc_simdgroup_load_b32(p, elements_per_row, transpose_matrix);
  else
    e = __mc_simdgroup_load_b16(p, elements_per_row, transpose_matrix);
  d.__mc_elements = vec<T, 2>(__mc_unpack_word<T>(e.e0), __mc_unpack_word<T>(e.e1));
}
template <typename T, int C, int R>
inline void simdgroup_store(const simdgroup_matrix<T, C, R>& a, volatile typename type_identity<T>::type* destination, ulong elements_per_row = C,
                            ulong2 matrix_origin = ulong2(0ul), bool transpose_matrix = false) {
  T* p = const_cast<T*>(destination) + matrix_origin.y * elements_per_row + matrix_origin.x;
  uint e0 = __mc_pack_word(a.__mc_elements.x), e1 = __mc_pack_word(a.__mc_elements.y);
  if constexpr (sizeof(T) == 4)
    __mc_simdgroup_store_b32(p, elements_per_row, transpose_matrix, e0, e1);
  else
    __mc_simdgroup_store_b16(p, elements_per_row, transpose_matrix, e0, e1);
}

// d = a * b + c, summed in float and rounded to the element of d once.
template <typename D, typename A, typename B, typename C, int M, int N, int K>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, N, M>& d, const simdgroup_matrix<A, K, M>& a, const simdgroup_matrix<B, N, K>& b,
                                          const simdgroup_matrix<C, N, M>& c) {
  __mc_pair_f32 e = __mc_simdgroup_mma_f32(float(a.__mc_elements.x), float(a.__mc_elements.y), float(b.__mc_elements.x), float(b.__mc_elements.y),
                                           float(c.__mc_elements.x), float(c.__mc_elements.y));
  d.__mc_elements = vec<D, 2>(D(e.e0), D(e.e1));
}
#endif
template <typename D, typename A, typename B, int M, int N, int K>
inline void simdgroup_multiply(simdgroup_matrix<D, N, M>& d, const simdgroup_matrix<A, K, M>& a, const simdgroup_matrix<B, N, K>& b) {
  metal::simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<float, N, M>(0));
}
template <typename T, int M, int N, int K>
inline simdgroup_matrix<T, N, M> operator*(const simdgroup_matrix<T, K, M>& a, const simdgroup_matrix<T, N, K>& b) {
  simdgroup_matrix<T, N, M> d;
  metal::simdgroup_multiply(d, a, b);
  return d;
}
template <typename T, int C, int R>
inline simdgroup_matrix<T, C, R> operator+(const simdgroup_matrix<T, C, R>& a, const simdgroup_matrix<T, C, R>& b) {
  simdgroup_matrix<T, C, R> d;
  d.__mc_elements = a.__mc_elements + b.__mc_elements;
  return d;
}
template <typename T, int C, int R>
inline simdgroup_matrix<T, C, R> operator-(const simdgroup_matrix<T, C, R>& a, const simdgroup_matrix<T, C, R>& b) {
  simdgroup_matrix<T, C, R> d;
  d.__mc_elements = a.__mc_elements - b.__mc_elements;
  return d;
}

}  // namespace metal

__mc_end

typedef metal::simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef metal::simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef metal::simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
namespace metal {
using ::simdgroup_bfloat8x8;
using ::simdgroup_float8x8;
using ::simdgroup_half8x8;
}  // namespace metal
