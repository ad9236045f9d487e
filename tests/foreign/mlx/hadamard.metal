#include "instantiate.h"
#include "mlx/backend/metal/kernels/steel/defines.h"

// A Hadamard matrix of order 12 (Paley), row by row. MLX generates this function for its order at run time.
METAL_FUNC void hadamard_radix_m(thread float* x) {
  // Bit 11 - i is set where i is a square modulo 11; each row is the one before it, turned by one place.
  constexpr int residues = 0b10111000100;
  float y[12];
  y[0] = 0;
  for (int i = 0; i < 12; i++) {
    y[0] += x[i];
  }
  for (int row = 0; row < 11; row++) {
    float sum = -x[0];
    for (int col = 0; col < 11; col++) {
      int shift = (col - row + 11) % 11;
      sum += shift == 0 || (residues >> (11 - shift) & 1) ? x[col + 1] : -x[col + 1];
    }
    y[row + 1] = sum;
  }
  for (int i = 0; i < 12; i++) {
    x[i] = y[i];
  }
}

#include "mlx/backend/metal/kernels/hadamard.h"

#define make_hadamard(name, type)                                                     \
  instantiate_kernel("hadamard_n_64_" #name, hadamard_n, type, 64, 16, 4)             \
  instantiate_kernel("hadamard_n_1024_" #name, hadamard_n, type, 1024, 16, 4)         \
  instantiate_kernel("hadamard_n_strided_" #name, hadamard_n, type, 64, 16, 1, 32)    \
  instantiate_kernel("hadamard_m_" #name, hadamard_m, type, 64, 12, 4)

each_float(make_hadamard)
