// Rotary positions, a run of pairs at a time; as rows.h for the device and for its CPU twin.
#pragma once

#include "extract/cuda/kernels.h"
#include "extract/cuda/numbers.h"

namespace coldframe::cuda {

// Run `run` of batch · patches · heads · half / kRun: neighbouring pairs of a head of a patch.
template <int kRun, typename Element>
COLDFRAME_BOTH void rotate_run(const RotateArguments& a, std::uint32_t run) {
  const auto half = static_cast<std::uint32_t>(a.half), runs = half / kRun;
  const auto heads = static_cast<std::uint32_t>(a.heads);
  const auto patches = static_cast<std::uint32_t>(a.tokens - a.prefix);
  const std::uint32_t of_heads = run / runs, pair = (run - of_heads * runs) * kRun;
  const std::uint32_t row = of_heads / heads, head = of_heads - row * heads;
  const std::uint32_t image = row / patches, patch = row - image * patches;
  const std::int64_t token = image * a.tokens + a.prefix + patch;
  const std::int64_t table = head % static_cast<std::uint32_t>(a.tables);
  const std::int64_t angle = (table * patches + patch) * half + pair;
  Element* const left = static_cast<Element*>(a.x) + token * a.stride + head * 2 * half + pair;
  Element* const right = left + half;
  Pack<Element, kRun> first = load_pack<kRun>(left), second = load_pack<kRun>(right);
  const Pack<float, kRun> sine = load_pack<kRun>(a.sine + angle);
  const Pack<float, kRun> cosine = load_pack<kRun>(a.cosine + angle);
  for (int i = 0; i < kRun; ++i) {
    const float p = to_float(first.values[i]), q = to_float(second.values[i]);
    first.values[i] = rounded<Element>(fmaf(p, cosine.values[i], -(q * sine.values[i])));
    second.values[i] = rounded<Element>(fmaf(q, cosine.values[i], p * sine.values[i]));
  }
  store_pack(left, first);
  store_pack(right, second);
}

}  // namespace coldframe::cuda
