// One row of mLSTM in one launch, as in decoding: the state is read and written once. mlstm.h has the formulas.
#include "mlstm.h"

constant uint COLUMNS = 2;  // of a lane, 32 apart

// Every threadgroup makes the gates and the normaliser of its head: little work beside its columns of the state.
// grid: blocks of 64 columns, heads.
template <typename T, typename S>
[[kernel]] void mlstm_step(
    device const T* q [[buffer(0)]],
    device const T* k [[buffer(1)]],
    device const T* v [[buffer(2)]],
    device const T* i [[buffer(3)]],
    device const T* f [[buffer(4)]],
    device const S* c [[buffer(5)]],
    device const S* n [[buffer(6)]],
    device const S* m [[buffer(7)]],
    device T* h [[buffer(8)]],
    device float* c_new [[buffer(9)]],
    device float* n_new [[buffer(10)]],
    device float* m_new [[buffer(11)]],
    constant long& depth [[buffer(12)]],
    constant long& width [[buffer(13)]],
    constant float& scale [[buffer(14)]],
    constant float& eps [[buffer(15)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint head = gid.y;
  const bool is_first = gid.x == 0;
  const FloatFloat in = {max(float(i[head]), -1e30f), 0.0f};
  const FloatFloat kept = log_sigmoid(float(f[head])) + float(m[head]);
  const FloatFloat top = in > kept ? in : kept;
  const FloatFloat forget = exp_of(kept - top);
  const FloatFloat input = exp_of(in - top);

  FloatFloat sum = {0.0f, 0.0f};
  for (uint d = lane; d < uint(depth); d += 32) {
    const ulong place = head * ulong(depth) + d;
    const FloatFloat one = forget * float(n[place]) + input * float(k[place]);
    sum = sum + one * float(q[place]);
    if (is_first) {
      n_new[place] = one.high;
    }
  }
  const FloatFloat r = simd_total(sum) * scale;
  const FloatFloat least = exp_of(top.high < -87.0f ? from_float(87.0f) : -top);
  const float below = max(abs(r.high), least.high) + eps;
  if (is_first && lane == 0) {
    m_new[head] = top.high;
  }

  const uint first = gid.x * 32 * COLUMNS + lane;
  ExactSum sums[COLUMNS];
  float values[COLUMNS];
#pragma unroll
  for (uint j = 0; j < COLUMNS; ++j) {
    sums[j] = {0.0f, 0.0f};
    values[j] = first + j * 32 < uint(width) ? float(v[head * ulong(width) + first + j * 32]) : 0.0f;
  }
  for (uint d = 0; d < uint(depth); ++d) {
    const ulong row = (head * ulong(depth) + d) * width + first;
    const float key = input.high * float(k[head * ulong(depth) + d]);
    const float query = float(q[head * ulong(depth) + d]);
#pragma unroll
    for (uint j = 0; j < COLUMNS; ++j) {
      if (first + j * 32 < uint(width)) {
        const float x = fma(forget.high, float(c[row + j * 32]), key * values[j]);
        c_new[row + j * 32] = x;
        sums[j] = added_product(sums[j], x, query);
      }
    }
  }
#pragma unroll
  for (uint j = 0; j < COLUMNS; ++j) {
    if (first + j * 32 < uint(width)) {
      h[head * ulong(width) + first + j * 32] = T(rounded(sums[j]) * scale / below);
    }
  }
}
