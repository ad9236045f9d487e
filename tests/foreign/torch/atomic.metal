#include <metal_stdlib>

#include <c10/metal/atomic.h>

#define make_add(name, type)                                                                       \
  kernel void add_##name(                                                                          \
      device c10::metal::AtomicType_t<type>* out, const device type* x, const device uint* at,     \
      uint i [[thread_position_in_grid]]) {                                                        \
    c10::metal::AtomicType<type>::atomic_add(out, at[i], x[i]);                                    \
  }

make_add(float32, float)
make_add(float16, half)
make_add(bfloat16, bfloat)
make_add(int32, int)
make_add(int16, short)
make_add(int8, char)
make_add(uint8, uchar)
make_add(int64, long)
