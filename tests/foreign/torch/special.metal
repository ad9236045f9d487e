// One kernel for each special function of c10/metal/special_math.h and igamma.h.
#include <metal_stdlib>

#include <c10/metal/expm1f.h>
#include <c10/metal/igamma.h>
#include <c10/metal/special_math.h>

using namespace metal;

#define make_unary(name, type)                                                                            \
  kernel void name##_##type(const device type* x, device float* y, uint i [[thread_position_in_grid]]) { \
    y[i] = float(c10::metal::name(x[i]));                                                                 \
  }

#define make_each(name) make_unary(name, float) make_unary(name, half) make_unary(name, bfloat)

// For functions whose code assigns a float to its argument's type, which no bfloat takes.
#define make_two(name) make_unary(name, float) make_unary(name, half)

#define make_binary(name)                                                                             \
  kernel void name(                                                                                    \
      const device float* a, const device float* b, device float* y, uint i [[thread_position_in_grid]]) { \
    y[i] = float(c10::metal::name(a[i], b[i]));                                                        \
  }

#define make_polynomial(name)                                                                         \
  kernel void name(                                                                                    \
      const device float* x, constant long& n, device float* y, uint i [[thread_position_in_grid]]) {  \
    y[i] = float(c10::metal::name(x[i], n));                                                           \
  }

make_each(erf)
make_each(erfc)
make_each(erfinv)
make_each(i0)
make_each(i0e)
make_each(i1)
make_each(i1e)
make_each(gamma)
make_each(log_gamma)
make_each(digamma)
make_two(trigamma)
make_each(sinc)
make_each(spherical_bessel_j0)
make_each(entr)
make_each(bessel_j0_forward)
make_each(bessel_j1_forward)
make_each(bessel_y0_forward)
make_each(bessel_y1_forward)
make_each(modified_bessel_i0_forward)
make_each(modified_bessel_i1_forward)
make_each(modified_bessel_k0_forward)
make_each(modified_bessel_k1_forward)
make_each(scaled_modified_bessel_k0_forward)
make_each(scaled_modified_bessel_k1_forward)
make_unary(erfcx, float)
make_unary(expm1f, float)

make_binary(logaddexp)
make_binary(logaddexp2)
make_binary(xlogy)
make_binary(xlog1py)
make_binary(zeta)
make_binary(igamma)
make_binary(igammac)

make_polynomial(chebyshev_polynomial_t_forward)
make_polynomial(chebyshev_polynomial_u_forward)
make_polynomial(chebyshev_polynomial_v_forward)
make_polynomial(chebyshev_polynomial_w_forward)
make_polynomial(shifted_chebyshev_polynomial_t_forward)
make_polynomial(shifted_chebyshev_polynomial_u_forward)
make_polynomial(shifted_chebyshev_polynomial_v_forward)
make_polynomial(shifted_chebyshev_polynomial_w_forward)
make_polynomial(hermite_polynomial_h_forward)
make_polynomial(hermite_polynomial_he_forward)

kernel void polygamma(
    const device float* x, constant long& n, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = c10::metal::polygamma(n, x[i]);
}
