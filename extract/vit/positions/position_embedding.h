// Position embeddings for images of another size than the training images.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/positions/grid.h"

namespace coldframe::vit {

// positions [1, prefix + grid², width] float32 -> [1, prefix + new_grid's patches, width]. The rows
// of the prefix tokens stay; the square of patches is resampled: bicubic and antialiased as timm's
// resample_abs_pos_embed does, or as the model in transformers does.
torch::Tensor resample_positions(const torch::Tensor& positions, std::int64_t prefix,
                                 std::int64_t grid, const Grid& new_grid,
                                 Resampling resampling = Resampling::kBicubicAntialiased);

}  // namespace coldframe::vit
