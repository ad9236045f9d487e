// What stands between the products in the gradient of a singular value decomposition: ops/linalg/svd.py has the formula.
#include <metal_stdlib>
using namespace metal;

// M of k x k from p = U^T grad_U, q = Vh grad_Vh^T. Where a numerator is 0 so is the quotient: singular values that are
// the same do no harm to a function that does not tell their vectors apart.
template <typename T>
[[kernel]] void svd_middle(
    device const T* p [[buffer(0)]],
    device const T* q [[buffer(1)]],
    device const T* values [[buffer(2)]],
    device const T* grad_values [[buffer(3)]],
    device T* middle [[buffer(4)]],
    constant long& count [[buffer(5)]],
    constant long& size [[buffer(6)]],
    constant long& has_more_rows [[buffer(7)]],
    constant long& has_more_columns [[buffer(8)]],
    uint id [[thread_position_in_grid]]) {
  if (id >= count) {
    return;
  }
  const uint k = size, matrix = id / (k * k), place = id % (k * k), i = place / k, j = place % k;
  const uint turned = id - place + j * k + i;
  const float a = values[matrix * k + i], b = values[matrix * k + j];
  const float upper = (p[id] - p[turned]) * b + a * (q[id] - q[turned]);
  float value = i == j ? float(grad_values[matrix * k + i]) : upper == 0 ? 0.0f : upper / ((b - a) * (b + a));
  if (has_more_rows != 0) {
    value -= p[id] == 0 ? 0.0f : p[id] / b;
  }
  if (has_more_columns != 0) {
    value -= q[turned] == 0 ? 0.0f : q[turned] / a;
  }
  middle[id] = value;
}

constant bool is_rows [[function_constant(0)]];
constant bool adds [[function_constant(1)]];

// a / values, by rows or by columns, plus `added`.
template <typename T>
[[kernel]] void svd_divided(
    device const T* a [[buffer(0)]],
    device const T* values [[buffer(1)]],
    device const T* added [[buffer(2)]],
    device T* out [[buffer(3)]],
    constant long& count [[buffer(4)]],
    constant long& rows [[buffer(5)]],
    constant long& columns [[buffer(6)]],
    uint id [[thread_position_in_grid]]) {
  if (id >= count) {
    return;
  }
  const uint m = rows, n = columns, matrix = id / (m * n), place = id % (m * n);
  const uint k = is_rows ? m : n, which = is_rows ? place / n : place % n;
  const float value = a[id] == 0 ? 0.0f : a[id] / values[matrix * k + which];
  out[id] = adds ? added[id] + value : value;
}

// Rows of `a` times the values.
template <typename T>
[[kernel]] void svd_scaled(
    device const T* a [[buffer(0)]],
    device const T* values [[buffer(1)]],
    device T* out [[buffer(2)]],
    constant long& count [[buffer(3)]],
    constant long& columns [[buffer(4)]],
    uint id [[thread_position_in_grid]]) {
  if (id >= count) {
    return;
  }
  out[id] = a[id] * values[id / uint(columns)];
}

template <typename T>
[[kernel]] void svd_negative(
    device const T* a [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant long& count [[buffer(2)]],
    uint id [[thread_position_in_grid]]) {
  if (id < count) {
    out[id] = -a[id];
  }
}
