// The usual vector types, instantiated once while the header is precompiled: a kernel then only loads what it uses. The
// others would make the header, which a first call waits for, a sixth slower.
#pragma once

#include "metal_stdlib.h"

#define __MC_SIZES(T) \
  static_assert(sizeof(metal::vec<T, 2>) && sizeof(metal::vec<T, 3>) && sizeof(metal::vec<T, 4>) && sizeof(metal::packed_vec<T, 3>));
__MC_SIZES(int)
__MC_SIZES(uint)
__MC_SIZES(half)
__MC_SIZES(bfloat)
__MC_SIZES(float)
#undef __MC_SIZES
