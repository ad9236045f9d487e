// The gradient of A = V diag(w) V^T is V M V^T with M[i][i] = grad_w[i] and, for P = V^T grad_V,
// M[i][j] = (P[i][j] - P[j][i]) / 2 / (w[j] - w[i]): it is symmetric, as A is. That of the eigenvalues alone is
// V diag(grad_w) V^T. (Giles, 2008, "An extended collection of matrix derivative results", 3.1.) Where nothing flows
// between two vectors, equal eigenvalues do no harm.
#include <metal_stdlib>
using namespace metal;

// M from P. One threadgroup a row; rows of all matrices are counted through.
template <typename T>
[[kernel]] void eigh_gradient(
    device const T* p [[buffer(0)]],
    device const T* values [[buffer(1)]],
    device const T* grad_values [[buffer(2)]],
    device T* m [[buffer(3)]],
    constant long& size [[buffer(4)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]]) {
  const uint n = size, i = row % n;
  const long begin = long(row) * n;
  p += begin - long(i) * n;
  values += row - i;
  const float value = values[i], own = grad_values[row];
  for (uint j = lid; j < n; j += threads) {
    const float x = (p[long(i) * n + j] - p[long(j) * n + i]) / 2;
    m[begin + j] = i == j ? own : x == 0 ? 0.0f : x / (values[j] - value);
  }
}

// V diag(grad_w). One threadgroup a row.
template <typename T>
[[kernel]] void eigvalsh_gradient(
    device const T* vectors [[buffer(0)]],
    device const T* grad_values [[buffer(1)]],
    device T* scaled [[buffer(2)]],
    constant long& size [[buffer(3)]],
    uint row [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]]) {
  const uint n = size;
  const long begin = long(row) * n;
  grad_values += row - row % n;
  for (uint j = lid; j < n; j += threads) {
    scaled[begin + j] = vectors[begin + j] * grad_values[j];
  }
}
