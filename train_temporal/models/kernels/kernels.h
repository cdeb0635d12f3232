// The inner loops of a training step on the CPU, once per instruction set. The operations for each
// result element and their order do not depend on the vector width, so that all sets give the same
// bits, and so does a row whatever other rows are computed with it.
#pragma once

#include <cstdint>
#include <span>

#include "common/threads/counter_random.h"

namespace coldframe::temporal {

// C[m, n] = start + Σ_k A(m, k) · B(k, n), summed in ascending k by fused multiply-adds.
struct Product {
  enum class Start { kZero, kBias, kAccumulate };  // kBias: bias[n]; kAccumulate: C as it is

  std::int64_t m, n, k;
  const float* a;  // A(m, k) = a[m · a_row + k], or a[k · a_row + m] when a_transposed
  std::int64_t a_row;
  bool a_transposed;
  const float* b;  // B(k, n) = b[k · b_row + n]
  std::int64_t b_row;
  float* c;  // C[m, n] = c[m · c_row + n]
  std::int64_t c_row;
  Start start;
  const float* bias = nullptr;  // [n]
};
using Start = Product::Start;

// One time step of a GRU in one direction: M sequences, H hidden units, gates in the order r, z, n.
struct GateStep {
  std::int64_t rows, hidden;
  const float* input;          // [M, 3H] W_ih x + b_ih
  const float* recurrent;      // [M, 3H] W_hh h + b_hh; or the bias only, see recurrent_row
  std::int64_t recurrent_row;  // 3H, or 0 if all rows share one (h is 0 at the first step)
  float* state;                // [M, H] h before the step, and after it
  float* previous;             // [M, H] receives h before the step
  float* gates;                // [M, 4H] receives r, z, n and W_hn h + b_hn
  float* out;                  // h after the step, rows out_row apart
  std::int64_t out_row;
};

// The backward pass of the same step.
struct GateGradient {
  std::int64_t rows, hidden;
  const float *gates, *previous;  // as the step left them
  const float* out;               // gradient of h after the step from the layer above
  std::int64_t out_row;
  float* state;      // [M, H] gradient of h after the step; then z's share of that before it
  float* input;      // [M, 3H] receives the gradient of W_ih x
  float* recurrent;  // [M, 3H] receives the gradient of W_hh h
};

// x[i] = (table[rows[i]] − mean) · scale, rows of `width` values, [N, width], `out_row` apart.
struct Gather {
  std::span<const std::int64_t> rows;
  std::int64_t width;
  const float *mean, *scale;  // [width]
  float* out;
  std::int64_t out_row;
};

// AdamW on n values: see AdamW::step.
struct AdamStep {
  std::int64_t n;
  float *parameters, *first_moment, *second_moment;
  const float *gradients, *decay;
  float gradient_scale;                          // from clipping
  float learning_rate;                           // times decay
  float step_size;                               // learning rate / (1 − β1^t)
  float root_scale;                              // 1 / sqrt(1 − β2^t)
  float beta1_rest, beta2, beta2_rest, epsilon;  // beta1_rest = 1 − β1, …
};

// One row of a dropout mask: 0 where the random bits are below the threshold.
struct Drop {
  std::uint64_t start;
  std::uint16_t threshold;
  float scale;
};

// One row of Gaussian noise.
struct Noise {
  std::uint64_t start;
  float deviation;
};

// Noise takes one of kQuantiles equally likely quantiles of the standard normal distribution.
inline constexpr std::size_t kQuantiles = 4096;
const float* normal_quantiles();  // [kQuantiles], ascending

inline constexpr std::int64_t kDropBlock = 32;  // values drawn at once
// For instruction sets without 64-bit vector multiplication.
inline void drop_block_by_words(std::uint64_t start, std::uint16_t threshold, float scale,
                                float* out) {
  for (std::uint64_t i = 0; i < kDropBlock; i += 4) {
    const std::uint64_t x = mix_bits(start + i);
    for (int part = 0; part < 64; part += 16) {
      *out++ = ((x >> part) & 0xffff) >= threshold ? scale : 0.0f;
    }
  }
}

struct SequenceKernels {
  const char* name;
  void (*multiply)(const Product&);
  void (*gates)(const GateStep&);
  void (*gate_gradients)(const GateGradient&);
  void (*gather_half)(const Gather&, const std::uint16_t* table);
  void (*gather_float)(const Gather&, const float* table);
  // sum[j] += Σ_m x[m, j] for x [m, n], rows x_row apart
  void (*add_rows)(std::int64_t m, std::int64_t n, const float* x, std::int64_t x_row, float* sum);
  void (*scale)(std::int64_t n, const float* factors, float* x);               // x[i] *= factors[i]
  void (*add_scaled)(std::int64_t n, float factor, const float* x, float* y);  // y += factor · x
  float (*dot)(std::int64_t n, const float* x, const float* y);                // in 16 lanes
  // sources[0] += sources[1] + …, in that order; returns the sum of squares of the result.
  double (*add_all)(std::int64_t n, std::span<float* const> sources);
  void (*adam)(const AdamStep&);
  // to[j, i] = from[i, j] for from [m, n]; rows of `to` lie to_row apart
  void (*transpose)(std::int64_t m, std::int64_t n, const float* from, float* to,
                    std::int64_t to_row);
  // out[i] = 0 or s.scale: 16 bits of mix_bits(start + i − i mod 4) decide, the lowest first
  void (*drop)(std::int64_t n, const Drop& s, float* out);
  // x[i] += s.deviation · z: 12 bits of the 16 that drop() would read choose the quantile z
  void (*add_noise)(std::int64_t n, const Noise& s, float* x);
  // y[i] = 1 / (1 + exp(−x[i])), and tanh: within 2e-7.
  void (*sigmoid)(std::int64_t n, const float* x, float* y);
  void (*tanh)(std::int64_t n, const float* x, float* y);
};

// The fastest set that this processor supports.
const SequenceKernels& kernels();

// All sets that this processor supports, for tests; the plain one first.
std::span<const SequenceKernels* const> all_kernels();

const SequenceKernels& plain_kernels();
const SequenceKernels* avx2_kernels();    // null if the processor or the build lacks it
const SequenceKernels* avx512_kernels();  // likewise

}  // namespace coldframe::temporal
