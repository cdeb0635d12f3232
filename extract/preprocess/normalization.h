// Normalisation maps pixel levels to backbone inputs: the last step of preprocessing.
#pragma once

#include <array>

#include "common/text/spelling.h"

namespace coldframe::preprocess {

// Pillow 13 resamples frames that lose much more height than width vertically first; all versions
// before it, used to train every published backbone, resample horizontally first. The two orders
// differ by one level in a few pixels. The image processors of transformers 5 resample like torch,
// but round the offset of an odd crop down, and scale and normalise in one step
// (transformers/image_processing_backends.py).
enum class Resampler { kPillow, kTorch, kPillow12, kTransformers };
inline const WordTable<Resampler> kResamplers{{"pillow", Resampler::kPillow},
                                              {"torch", Resampler::kTorch},
                                              {"pillow12", Resampler::kPillow12},
                                              {"transformers", Resampler::kTransformers}};

// (pixel / 255 − mean) / std in float32 as torchvision computes it: ToTensor + Normalize for
// PIL images, v2.ToDtype(scale=True) + v2.Normalize for kTorch, which multiplies by 1/255 instead
// of dividing, (pixel − 255 · mean) / (255 · std) for kTransformers. [channel * 256 + pixel]
std::array<float, 768> normalization_table(Resampler resampler, const std::array<float, 3>& mean,
                                           const std::array<float, 3>& std);

}  // namespace coldframe::preprocess
