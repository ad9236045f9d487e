// The names of <simd/simd.h> in Metal. They are in scope only where a source includes that header: stubs/simd/types.h.
#pragma once

#include "metal_matrix.h"
#include "metal_packed.h"
#include "metal_vector.h"

#define __MC_WIDTH(t, n)                            \
  namespace metal::_simd_names {                    \
  typedef ::t##n simd_##t##n, vector_##t##n;        \
  typedef ::packed_##t##n simd_packed_##t##n;       \
  }                                                 \
  namespace metal::_simd_scope {                    \
  using ::t##n;                                     \
  using ::packed_##t##n;                            \
  }
#define __MC_NAMES(T, t)                            \
  namespace metal::_simd_names {                    \
  typedef T simd_##t##1, vector_##t##1;             \
  }                                                 \
  namespace metal::_simd_scope {                    \
  typedef T t##1;                                   \
  }                                                 \
  __MC_WIDTH(t, 2)                                  \
  __MC_WIDTH(t, 3)                                  \
  __MC_WIDTH(t, 4)
#define __MC_MATRIX(t, c, r)                        \
  namespace metal::_simd_names {                    \
  typedef ::t##c##x##r simd_##t##c##x##r;           \
  typedef ::t##c##x##r matrix_##t##c##x##r;         \
  }                                                 \
  namespace metal::_simd_scope {                    \
  using ::t##c##x##r;                               \
  }
#define __MC_MATRICES(t) \
  __MC_MATRIX(t, 2, 2)   \
  __MC_MATRIX(t, 2, 3)   \
  __MC_MATRIX(t, 2, 4)   \
  __MC_MATRIX(t, 3, 2)   \
  __MC_MATRIX(t, 3, 3)   \
  __MC_MATRIX(t, 3, 4)   \
  __MC_MATRIX(t, 4, 2)   \
  __MC_MATRIX(t, 4, 3)   \
  __MC_MATRIX(t, 4, 4)

__MC_NAMES(bool, bool)
__MC_NAMES(char, char)
__MC_NAMES(unsigned char, uchar)
__MC_NAMES(short, short)
__MC_NAMES(unsigned short, ushort)
__MC_NAMES(int, int)
__MC_NAMES(unsigned int, uint)
__MC_NAMES(long, long)
__MC_NAMES(unsigned long, ulong)
__MC_NAMES(_Float16, half)
__MC_NAMES(__bf16, bfloat)
__MC_NAMES(float, float)
__MC_MATRICES(half)
__MC_MATRICES(float)
namespace metal::_simd_names {
typedef bool simd_bool;
}

#undef __MC_WIDTH
#undef __MC_NAMES
#undef __MC_MATRIX
#undef __MC_MATRICES
