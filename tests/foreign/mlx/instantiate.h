// How the files of this folder give MLX's templates their names: base_type, as `softmax_float32`.
#pragma once

#include "mlx/backend/metal/kernels/utils.h"

#define each_float(make) make(float32, float) make(float16, half) make(bfloat16, bfloat16_t)

// make(name, type, extra) for each floating-point type
#define each_float_with(make, extra) \
  make(float32, float, extra) make(float16, half, extra) make(bfloat16, bfloat16_t, extra)
