// Where patches lie in an image, and how a ViT learns of it: absolute, relative and rotary
// positions, as timm's layers/pos_embed.py, models/beit.py and layers/pos_embed_sincos.py.
#pragma once

#include <cstdint>
#include <vector>

#include "common/text/image_size.h"
#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"

namespace coldframe::vit {

// The places of an image's patches.
struct Grid {
  std::int64_t rows = 0, columns = 0;

  constexpr Grid() = default;
  constexpr Grid(std::int64_t side) : rows(side), columns(side) {}
  constexpr Grid(const ImageSize& size, std::int64_t patch)
      : rows(size.height / patch), columns(size.width / patch) {}

  constexpr std::int64_t patches() const { return rows * columns; }
  bool operator==(const Grid&) const = default;
};

// positions [1, prefix + grid², width] float32 -> [1, prefix + new_grid's patches, width]. The rows
// of the prefix tokens stay; the square of patches is resampled: bicubic and antialiased as timm's
// resample_abs_pos_embed does, or as the model in transformers does.
torch::Tensor resample_positions(const torch::Tensor& positions, std::int64_t prefix,
                                 std::int64_t grid, const Grid& new_grid,
                                 Resampling resampling = Resampling::kBicubicAntialiased);

// A learnt bias of each head for each difference of two patches' places (BEiT, Bao et al. 2021,
// arXiv:2106.08254). table [(2·grid - 1)² + 3, heads] -> [heads, 1 + grid², 1 + grid²], what is
// added to the product of query and key; the table's last rows are for class token to patch, patch
// to class token, and class token to itself.
torch::Tensor relative_bias(const torch::Tensor& table, std::int64_t grid);

// Rotary positions: before queries meet keys, pairs of their numbers are turned by angles that grow
// with the patch's place, so that their product depends on how far two patches lie apart (Su et al.
// 2021, arXiv:2104.09864). Sine and cosine are of each of a head's numbers: [patches, head width],
// or [heads, patches, head width] where heads turn differently; undefined without rotary positions.
struct Rotation {
  torch::Tensor sine, cosine;
  bool half = false;        // numbers i and i + d/2 are a pair; else 2i and 2i + 1
  std::int64_t prefix = 0;  // class token and registers come first and are not turned
};

// The rotation of each block for images of such a grid of patches. `frequencies` is the parameter
// of Rotary::kMixed, [2, depth, heads, head width / 2].
//   axial   half of the pairs turns with the row, half with the column, at wavelengths of
//           temperature^(4i/d) patches · 2π (EVA-02, arXiv:2303.11331; timm's eva.py; RoPE-ViT,
//           arXiv:2403.13298)
//   mixed   each pair turns with both, at learnt frequencies of each block and head (RoPE-ViT)
//   dinov3  as axial, but of places from -1 to 1 across the image whatever its size, at
//           wavelengths of temperature^(4i/d) (arXiv:2508.10104)
std::vector<Rotation> rotations(const Architecture& architecture, const Grid& grid,
                                const torch::Tensor& frequencies);

// The same of one block of Rotary::kMixed.
Rotation mixed_rotation(const Architecture& architecture, const Grid& grid,
                        const torch::Tensor& frequencies, std::int64_t block);

// [head width / 4]: temperature^(4i/d), the wavelengths of axial and dinov3 in their own units.
torch::Tensor periods(const Architecture& architecture);

// x [B, heads, tokens, head width] -> the same
torch::Tensor rotate(const torch::Tensor& x, const Rotation& rotation);

}  // namespace coldframe::vit
