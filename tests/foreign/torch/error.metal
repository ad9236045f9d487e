#include <metal_stdlib>

#include <c10/metal/error.h>

kernel void check_index(
    const device long* index, constant long& size, device c10::metal::ErrorMessages* errors,
    uint i [[thread_position_in_grid]]) {
  if (index[i] < 0 || index[i] >= size) {
    TORCH_REPORT_ERROR(errors, "index ", index[i], " is out of range [0, ", size, ")");
  }
}
