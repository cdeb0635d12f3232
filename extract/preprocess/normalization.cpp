#include "extract/preprocess/normalization.h"

#include <cstddef>

namespace coldframe::preprocess {

std::array<float, 768> normalization_table(Resampler resampler, const std::array<float, 3>& means,
                                           const std::array<float, 3>& deviations) {
  std::array<float, 768> table;
  constexpr float kInverse = static_cast<float>(1.0 / 255.0);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const float mean = means[channel], std = deviations[channel];
    for (std::size_t pixel = 0; pixel < 256; ++pixel) {
      const float level = static_cast<float>(pixel);
      const float scaled = resampler == Resampler::kTorch ? level * kInverse : level / 255.0f;
      table[channel * 256 + pixel] = resampler == Resampler::kTransformers
                                         ? (level - mean * 255.0f) / (std * 255.0f)
                                         : (scaled - mean) / std;
    }
  }
  return table;
}

}  // namespace coldframe::preprocess
