#include "instantiate.h"
#include "mlx/backend/metal/kernels/fft.h"

#define make_fft(size, name, in, out)                                                 \
  instantiate_kernel("fft_" #size "_" #name, fft, size, in, out)                      \
  instantiate_kernel("rader_fft_" #size "_" #name, rader_fft, size, in, out)          \
  instantiate_kernel("bluestein_fft_" #size "_" #name, bluestein_fft, size, in, out)

#define make_four_step(size, name, type)                                                  \
  instantiate_kernel("four_step_0_" #size "_" #name, four_step_fft, size, type, type, 0) \
  instantiate_kernel("four_step_1_" #size "_" #name, four_step_fft, size, type, type, 1)

#define make_four_step_real(size)                                                                          \
  instantiate_kernel("four_step_r2c_0_" #size "_float32", four_step_fft, size, float, float2, 0, true)     \
  instantiate_kernel("four_step_r2c_1_" #size "_float32", four_step_fft, size, float2, float2, 1, true)    \
  instantiate_kernel("four_step_c2r_0_" #size "_float32", four_step_fft, size, float2, float2, 0, true)    \
  instantiate_kernel("four_step_c2r_1_" #size "_float32", four_step_fft, size, float2, float, 1, true)

#define make_sizes(size)                     \
  make_fft(size, float32, float2, float2)    \
  make_fft(size, r2c_float32, float, float2) \
  make_fft(size, c2r_float32, float2, float)

make_sizes(256)
make_sizes(512)
make_sizes(1024)
make_sizes(2048)
make_sizes(4096)

// In half precision MLX has complex transforms alone; radix.h does not compile for bfloat.
make_fft(1024, float16, half2, half2)

make_four_step(1024, float32, float2)
make_four_step(1024, float16, half2)
make_four_step_real(1024)
