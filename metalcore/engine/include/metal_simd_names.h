// The names of <simd/simd.h> in Metal. They are in scope only where a source includes that header: stubs/simd/types.h.
#pragma once

#include "metal_matrix.h"
#include "metal_packed.h"
#include "metal_vector.h"

// Names are passed on as float2, not as float: that may be a macro (retype.h).
#define __MC_WIDTH(name)                            \
  namespace metal::_simd_names {                    \
  typedef ::name simd_##name, vector_##name;        \
  typedef ::packed_##name simd_packed_##name;       \
  }                                                 \
  namespace metal::_simd_scope {                    \
  using ::name;                                     \
  using ::packed_##name;                            \
  }
#define __MC_NAMES(T, t)                            \
  namespace metal::_simd_names {                    \
  typedef T simd_##t##1, vector_##t##1;             \
  }                                                 \
  namespace metal::_simd_scope {                    \
  typedef T t##1;                                   \
  }                                                 \
  __MC_WIDTH(t##2)                                  \
  __MC_WIDTH(t##3)                                  \
  __MC_WIDTH(t##4)
#define __MC_MATRIX(name)                           \
  namespace metal::_simd_names {                    \
  typedef ::name simd_##name, matrix_##name;        \
  }                                                 \
  namespace metal::_simd_scope {                    \
  using ::name;                                     \
  }
#define __MC_MATRICES(t) \
  __MC_MATRIX(t##2x2)    \
  __MC_MATRIX(t##2x3)    \
  __MC_MATRIX(t##2x4)    \
  __MC_MATRIX(t##3x2)    \
  __MC_MATRIX(t##3x3)    \
  __MC_MATRIX(t##3x4)    \
  __MC_MATRIX(t##4x2)    \
  __MC_MATRIX(t##4x3)    \
  __MC_MATRIX(t##4x4)

__MC_SCALARS(__MC_NAMES)
__MC_MATRICES(half)
__MC_MATRICES(float)
namespace metal::_simd_names {
typedef bool simd_bool;
}

#undef __MC_WIDTH
#undef __MC_NAMES
#undef __MC_MATRIX
#undef __MC_MATRICES
