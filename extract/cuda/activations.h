// MLP activations, plain and as gates, one vector at a time; as rows.h for the device and for its
// CPU twin.
#pragma once

#include "extract/cuda/rows.h"

namespace coldframe::cuda {

// x·Φ(x), the exact GELU, to 1e-6: the polynomial of vit/cpu/kernels/vector_math.h. Φ(x) = 1/2 +
// x·p(x²) up to |x| = 5.5, where x·Φ(−x) has fallen to 1e-7.
struct Gelu {
  COLDFRAME_MEMBER float of(float x) {
    constexpr float kEnd = 5.5f;
    constexpr float kCoefficients[] = {
        -9.117206791415811e-4f,  2.592239761725068e-3f,  -2.5182815734297037e-3f,
        2.4754018522799015e-3f,  -6.292646750807762e-3f, 1.1425220407545567e-2f,
        -1.5373286791145802e-2f, 2.0029570907354355e-2f, -2.5941889733076096e-2f,
        3.2113589346408844e-2f,  -3.880469501018524e-2f, 4.7735605388879776e-2f,
        -6.417197734117508e-2f,  1.2855194509029388e-1f};
    const float low = x < -kEnd ? -kEnd : x;
    const float clamped = low > kEnd ? kEnd : low;
    const float s = fmaf(clamped * clamped, 2 / (kEnd * kEnd), -1.0f);  // in [−1, 1]
    float p = kCoefficients[0];
    COLDFRAME_UNROLL
    for (int i = 1; i < 14; ++i) p = fmaf(p, s, kCoefficients[i]);
    return low * fmaf(clamped, p, 0.5f);
  }
};

// 2^x for −126 ≤ x ≤ 0, relative error 1e-7; as exp2_of_negative in vit/cpu/kernels/vector_math.h.
COLDFRAME_BOTH float exp2_of_negative(float x) {
  const float shifted = x + 12582912.0f;  // 1.5 · 2^23: its last bit counts ones
  const float fraction = x - (shifted - 12582912.0f);
  float power = 1.327646430581808e-3f;
  power = fmaf(power, fraction, 9.675540961325169e-3f);
  power = fmaf(power, fraction, 5.550713464617729e-2f);
  power = fmaf(power, fraction, 2.4022120237350464e-1f);
  power = fmaf(power, fraction, 6.931469440460205e-1f);
  power = fmaf(power, fraction, 1.0000001192092896f);
  return float_of_bits(bits_of_float(power) + (bits_of_float(shifted) << 23));
}

// 1 / (1 + e^−x); 0 far below.
COLDFRAME_BOTH float sigmoid(float x) {
  const float size = (x < 0 ? x : -x) * 1.4426950408889634f;
  const float power = size < -126.0f ? 0.0f : exp2_of_negative(size);  // e^−|x|
  return (x < 0 ? power : 1.0f) / (1.0f + power);
}

// GELU by tanh: x · (1 + tanh(u)) / 2 = x · σ(2·u).
struct GeluTanh {
  COLDFRAME_MEMBER float of(float x) {
    return x * sigmoid(1.5957691216057308f * fmaf(0.044715f * x * x, x, x));  // 2 · √(2 / π)
  }
};

struct QuickGelu {
  COLDFRAME_MEMBER float of(float x) { return x * sigmoid(1.702f * x); }
};

struct Silu {
  COLDFRAME_MEMBER float of(float x) { return x * sigmoid(x); }
};

constexpr int kActivationVector = 8;
using ActivationFloats = Pack<float, kActivationVector>;

// The bias from `column` on.
COLDFRAME_BOTH ActivationFloats bias_at(const float* bias, std::int64_t column) {
  return bias ? load_pack<kActivationVector>(bias + column) : ActivationFloats{};
}

// `out` from a column on, of x that begins at the same column; `values` further on in its row are
// what a gate multiplies, null without gates.
template <typename F, typename Element>
COLDFRAME_BOTH void activate_vector(const Element* x, const ActivationFloats& bias,
                                    const Element* values, const ActivationFloats& values_bias,
                                    Element* out) {
  const Pack<Element, kActivationVector> in = load_pack<kActivationVector>(x);
  ActivationFloats results;
  COLDFRAME_UNROLL
  for (int i = 0; i < kActivationVector; ++i)
    results.values[i] = F::of(to_float(in.values[i]) + bias.values[i]);
  if (values) {
    const Pack<Element, kActivationVector> factors = load_pack<kActivationVector>(values);
    COLDFRAME_UNROLL
    for (int i = 0; i < kActivationVector; ++i)
      results.values[i] *= to_float(factors.values[i]) + values_bias.values[i];
  }
  Pack<Element, kActivationVector> stored;
  COLDFRAME_UNROLL
  for (int i = 0; i < kActivationVector; ++i)
    stored.values[i] = rounded<Element>(results.values[i]);
  store_pack(out, stored);
}

}  // namespace coldframe::cuda
