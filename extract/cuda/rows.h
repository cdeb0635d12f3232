// The arithmetic of the kernels, a row, a run or a vector at a time, for the device and for its CPU
// twin. Products are added by fmaf and by nothing else (both compile without contraction), so that
// the two give the same bits.
#pragma once

#include <cmath>

#include "extract/cuda/kernels.h"
#include "extract/cuda/numbers.h"

#if defined(__CUDA_ARCH__)
#define COLDFRAME_UNROLL _Pragma("unroll")
#else
#define COLDFRAME_UNROLL
#endif

namespace coldframe::cuda {

constexpr int kLanes = 32;      // that share a row: a warp
constexpr int kNormVector = 4;  // neighbouring columns of a lane
constexpr int kLaneStep = kLanes * kNormVector;

// One row of residual_norm or embed_norm.
template <typename Residual, typename Element>
struct NormRow {
  const float* start;  // embed_norm: what the sum starts from; null: x
  const Residual* x;
  const Element* y;     // null: nothing is added
  const float* y_bias;  // null: 0
  const float* gamma;   // null: 1
  NormFactors norm;
  Residual* sum;
  Element* z;
};

// The four columns from `column` on of the sum.
template <typename Residual, typename Element>
COLDFRAME_BOTH void add_residual(const NormRow<Residual, Element>& row, int column, float* values) {
  if (row.start) {
    const Pack<float, kNormVector> start = load_pack<kNormVector>(row.start + column);
    COLDFRAME_UNROLL
    for (int i = 0; i < kNormVector; ++i) values[i] = start.values[i];
  } else {
    const Pack<Residual, kNormVector> x = load_pack<kNormVector>(row.x + column);
    COLDFRAME_UNROLL
    for (int i = 0; i < kNormVector; ++i) values[i] = to_float(x.values[i]);
  }
  if (!row.y) return;
  const Pack<Element, kNormVector> y = load_pack<kNormVector>(row.y + column);
  Pack<float, kNormVector> term;
  COLDFRAME_UNROLL
  for (int i = 0; i < kNormVector; ++i) term.values[i] = to_float(y.values[i]);
  if (row.y_bias) {
    const Pack<float, kNormVector> bias = load_pack<kNormVector>(row.y_bias + column);
    COLDFRAME_UNROLL
    for (int i = 0; i < kNormVector; ++i) term.values[i] += bias.values[i];
  }
  if (row.gamma) {
    const Pack<float, kNormVector> gamma = load_pack<kNormVector>(row.gamma + column);
    COLDFRAME_UNROLL
    for (int i = 0; i < kNormVector; ++i)
      values[i] = fmaf(gamma.values[i], term.values[i], values[i]);
  } else {
    COLDFRAME_UNROLL
    for (int i = 0; i < kNormVector; ++i) values[i] += term.values[i];
  }
}

template <typename Residual, typename Element>
COLDFRAME_BOTH void store_residual(const NormRow<Residual, Element>& row, int column,
                                   const float* values) {
  Pack<Residual, kNormVector> sum;
  COLDFRAME_UNROLL
  for (int i = 0; i < kNormVector; ++i) sum.values[i] = rounded<Residual>(values[i]);
  store_pack(row.sum + column, sum);
}

template <typename Residual, typename Element>
COLDFRAME_BOTH void store_normed(const NormRow<Residual, Element>& row, int column,
                                 const float* values, float mean, float scale) {
  const Pack<float, kNormVector> weight = load_pack<kNormVector>(row.norm.weight + column);
  Pack<float, kNormVector> bias{};
  if (row.norm.bias) bias = load_pack<kNormVector>(row.norm.bias + column);
  Pack<Element, kNormVector> z;
  COLDFRAME_UNROLL
  for (int i = 0; i < kNormVector; ++i)
    z.values[i] =
        rounded<Element>(fmaf((values[i] - mean) * scale, weight.values[i], bias.values[i]));
  store_pack(row.z + column, z);
}

// The norm in two passes over values that stay in registers. `Team` is the 32 lanes of a row: on
// the device each thread is one of them (kHeld = 1), the twin is all of them in turn (kHeld = 32).
// kSteps · 128 columns are enough for `width`.
template <int kSteps, typename Team, typename Residual, typename Element>
COLDFRAME_BOTH void norm_row(const Team& team, const NormRow<Residual, Element>& row, int width) {
  float values[Team::kHeld][kSteps][kNormVector];
  float partial[Team::kHeld];
  COLDFRAME_UNROLL
  for (int held = 0; held < Team::kHeld; ++held) {
    partial[held] = 0;
    COLDFRAME_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      const int column = step * kLaneStep + team.lane(held) * kNormVector;
      if (column >= width) continue;
      float* const own = values[held][step];
      add_residual(row, column, own);
      partial[held] += (own[0] + own[1]) + (own[2] + own[3]);
    }
  }
  const float mean = row.norm.centred ? team.sum(partial) / static_cast<float>(width) : 0.0f;
  COLDFRAME_UNROLL
  for (int held = 0; held < Team::kHeld; ++held) {
    partial[held] = 0;
    COLDFRAME_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      const int column = step * kLaneStep + team.lane(held) * kNormVector;
      if (column >= width) continue;
      store_residual(row, column, values[held][step]);  // after all loads, which it might alias
      COLDFRAME_UNROLL
      for (int i = 0; i < kNormVector; ++i) {
        const float deviation = values[held][step][i] - mean;
        partial[held] = fmaf(deviation, deviation, partial[held]);
      }
    }
  }
  const float variance = team.sum(partial) / static_cast<float>(width);
  const float scale = 1.0f / sqrtf(variance + row.norm.epsilon);
  COLDFRAME_UNROLL
  for (int held = 0; held < Team::kHeld; ++held) {
    COLDFRAME_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      const int column = step * kLaneStep + team.lane(held) * kNormVector;
      if (column < width) store_normed(row, column, values[held][step], mean, scale);
    }
  }
}

template <typename Residual, typename Element>
COLDFRAME_BOTH NormRow<Residual, Element> row_of(const ResidualNormArguments& a, std::int64_t row) {
  const std::int64_t at = row * a.width;
  return {nullptr,
          static_cast<const Residual*>(a.x) + at,
          static_cast<const Element*>(a.y) + at,
          a.y_bias,
          a.gamma,
          a.norm,
          static_cast<Residual*>(a.sum) + at,
          static_cast<Element*>(a.z) + at};
}

template <typename Residual, typename Element>
COLDFRAME_BOTH NormRow<Residual, Element> row_of(const EmbedNormArguments& a, std::int64_t row) {
  const std::int64_t image = row / a.tokens, token = row - image * a.tokens;
  const std::int64_t patch = image * (a.tokens - a.prefix) + token - a.prefix;
  return {a.start + token * a.width,
          nullptr,
          token < a.prefix ? nullptr : static_cast<const Element*>(a.y) + patch * a.width,
          nullptr,
          nullptr,
          a.norm,
          static_cast<Residual*>(a.sum) + row * a.width,
          static_cast<Element*>(a.z) + row * a.width};
}

// Run `run` of batch · size · size / kRun: neighbouring pixels of one line of one patch, of which
// kRun is a divisor.
template <int kRun, typename Element>
COLDFRAME_BOTH void patch_run(const PatchArguments& a, const float* levels, std::uint32_t run) {
  const auto size = static_cast<std::uint32_t>(a.size), patch = static_cast<std::uint32_t>(a.patch);
  const std::uint32_t runs = size / kRun, grid = size / patch;
  const std::uint32_t line = run / runs, x = (run - line * runs) * kRun;  // line of all images
  const std::uint32_t image = line / size, y = line - image * size;
  const std::uint32_t row = y / patch, column = x / patch;
  const std::uint8_t* const in = a.frames + (static_cast<std::int64_t>(line) * size + x) * 3;
  Element* const out = static_cast<Element*>(a.patches) +
                       ((static_cast<std::int64_t>(image) * grid + row) * grid + column) * a.pitch +
                       (y - row * patch) * patch + (x - column * patch);
  Pack<std::uint8_t, kRun> bytes[3];
  COLDFRAME_UNROLL
  for (int i = 0; i < 3; ++i) bytes[i] = load_pack<kRun>(in + i * kRun);
  COLDFRAME_UNROLL
  for (int channel = 0; channel < 3; ++channel) {
    Pack<Element, kRun> values;
    COLDFRAME_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const int at = 3 * i + channel;
      values.values[i] =
          rounded<Element>(levels[channel * 256 + bytes[at / kRun].values[at % kRun]]);
    }
    store_pack(out + static_cast<std::int64_t>(channel) * a.patch * a.patch, values);
  }
}

}  // namespace coldframe::cuda
